"""A wiki beside the same without some of its pages, and what is asked of both.

Belongs here: publishing, questions. Does not belong here: comparing (the tests).
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from asking import asked_precisely
from brute_force import Judge
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki, sentence

from rag_serving.ask import Pipeline

SECRET = "the same in both homes"


def received(home: Path, wiki: Wiki) -> Pipeline:
    return Pipeline.open(publish_wiki(home, wiki), TENANT, WordEmbedder())


def some_query(dice: random.Random, judge: Judge) -> str:
    """Common words, or those of any page, hidden or not."""
    if dice.random() < 0.05:
        return "hi"  # examples are headings of what may be read
    if dice.random() < 0.4:
        return sentence(dice, dice.randint(1, 6))
    page = judge.envelope(dice.choice(judge.page_ids))
    words = re.sub(r"<[^>]*>", " ", page["body"]["storage"]["value"]).split()
    if dice.random() < 0.5:
        return dice.choice(asked_precisely(dice, page, " ".join(words)))
    return str(page["title"]) if dice.random() < 0.5 else " ".join(words[:8])
