"""What an asker is told beside an answer, or in place of one: what can be asked, which page comes closest.

Belongs here: the wording and the options. Does not belong here: when they are shown (`pipeline`, `answering.gates`),
their shape (`records.refusal`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rag_serving.records.passages import Lock
from rag_serving.records.refusal import Clarification, ClarificationOption

EXAMPLES = "You can ask, for example:"
CLOSEST_PAGE = "The page that comes closest:"


def closest(lock: Lock) -> Clarification | None:
    """Return the page nearest to the question, which the asker may read because it was locked for him."""
    if not lock.passages:
        return None
    chunk = lock.passages[0].chunk
    label = " → ".join(chunk.heading_path) or chunk.title
    return Clarification(CLOSEST_PAGE, (ClarificationOption(label, "page", url=chunk.url),))


def examples_told(examples: Sequence[str]) -> Clarification | None:
    """Return what can be asked instead."""
    options = tuple(ClarificationOption(example, "question", query=example) for example in examples)
    return Clarification(EXAMPLES, options) if options else None


def spelling_told(question: str, corrections: Mapping[str, str]) -> Clarification | None:
    """Return which words were read as others, with the question that has them as typed: quoted words are read as they
    are.

    `corrections`: words of the pages by the words that were typed.
    """
    if not corrections:
        return None
    read = ", ".join(f"“{word}” as “{correction}”" for word, correction in corrections.items())
    asked = question
    for word in corrections:
        asked = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", f'"{word}"', asked, count=1)
    typed = ", ".join(f"“{word}”" for word in corrections)
    option = ClarificationOption(f"Look for {typed} as typed", "spelling", query=asked)
    return Clarification(f"Read {read}.", (option,))


def joined(*parts: Clarification | None) -> Clarification | None:
    """Return several as one, in their order; None where there is none."""
    told = [part for part in parts if part]
    if not told:
        return None
    return Clarification(" ".join(part.text for part in told), tuple(each for part in told for each in part.options))
