"""Questions over the sample wiki and the real pages that are there, for tests that ask hundreds of them.

Belongs here: which questions, of which pages, indexed and published. Does not belong here: judging answers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evals.bench.corpora import DATA, ROOT, PassageCorpus, cut
from evals.bench.people import CORPORA, published, questions_of, read_pages
from evals.evaluation.gold import GoldQuestion, read_gold

_ASKS = re.compile(r"(?:how|what|when|where|which|who|why|can|does|do|is|are|should|must)\b.*|.*\?$", re.IGNORECASE)
_SEED = 20


@dataclass(frozen=True)
class Asked:
    """The pages of one corpus, the home they are published in, and what is asked of them."""

    corpus: PassageCorpus
    home: Path
    questions: tuple[GoldQuestion, ...]


def asked_corpora(count: int, home: Path) -> Iterator[Asked]:
    """Yield each corpus that is there, published, with its share of `count` questions: gold ones first, then headings
    of the wiki that ask something."""
    corpora = {name: cut(name, pages) for name in CORPORA if (pages := read_pages(name, DATA)) is not None}
    gold = [(name, question) for name in corpora for question in _gold(name)]
    headings = [("cwiki", question) for question in heading_questions(corpora["cwiki"])] if "cwiki" in corpora else []
    dice = random.Random(_SEED)
    dice.shuffle(gold)
    dice.shuffle(headings)
    chosen = (gold + headings)[:count]
    for name, corpus in corpora.items():
        with published(corpus, home / name):
            pass
        yield Asked(corpus, home / name, tuple(question for own, question in chosen if own == name))


def _gold(name: str) -> list[GoldQuestion]:
    files = [questions_of(name, "build"), *([ROOT / "evals" / "gold" / "sample.yaml"] if name == "sample" else [])]
    return [question for file in files for question in read_gold(file).questions]


def heading_questions(corpus: PassageCorpus) -> list[GoldQuestion]:
    """Return the headings that ask something, each once, as questions that their own section answers."""
    rows = corpus.sections.select(["section_id", "heading", "level", "is_boilerplate", "text"]).to_pylist()
    found = {
        row["heading"].strip(): GoldQuestion(row["section_id"], row["heading"].strip(), answerable=True)
        for row in rows
        if row["level"] and not row["is_boilerplate"] and len(row["text"]) > 40 and _is_question(row["heading"])
    }
    return list(found.values())


def _is_question(heading: str) -> bool:
    return 4 <= len(heading.split()) <= 25 and _ASKS.fullmatch(heading.strip()) is not None
