"""What a question names by an identifier or by a number in a role: `max.poll.records`, `ERR-4012`, `pump number 42`.

Belongs here: reading the names of a question, and whether a text has them in the same role.
Does not belong here: what follows from a missing name (`answering.gates`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rag_serving.text.analyzer import SEPARATED_NAME, stems

_IDENTIFIER = re.compile(rf"{SEPARATED_NAME}|\b[A-Z]{{2,}}-?\d+\b")
_NUMBER_OF = r"(?:numbers?|no\.?|nr\.?|nummer|#)"
_NUMBERED = re.compile(
    rf"\b(?P<noun>[^\W\d_]{{3,}})\s+(?:{_NUMBER_OF}\s*)?#?(?P<number>\d{{1,6}}(?:\.\d{{1,4}}){{0,3}})\b"
    r"(?![\w%€$:/-]|[.,]\d|\s*(?:[^\W\d_]+s|euros?|percent|prozent|[kmgt]?b|ms|km|kg|min|°c)\b)",
    re.IGNORECASE,
)
# Words before a number that count or measure, or say when and where: no role.
_NO_ROLE_WORDS = """
about above after all and are around before below between but by can costs equals every exactly expects first for from
has have into is just last least less more most need needs next nearly not only onto over per pays plus roughly sends
since takes than that the their these this those till times top under until upto was were when where which with within
without get gets got use uses used set sets year years january february march april may june july august september
october november december monday tuesday wednesday thursday friday saturday sunday über unter nach vor bis seit mit für
alle jede mehr als circa etwa
"""
_NO_ROLE = frozenset(_NO_ROLE_WORDS.split())
_WORD = re.compile(r"[^\W\d_]{3,}")
_FIGURE = re.compile(r"(?<![\w.,])\d{1,6}(?:\.\d{1,4}){0,3}(?![\w%]|[.,]\d)")
_NEAR = 40  # characters between a number and the noun before it


@dataclass(frozen=True)
class Name:
    """An identifier, or a number in the role of a noun."""

    text: str
    noun: str = ""  # empty: an identifier
    number: str = ""

    @cached_property
    def _stem(self) -> str:
        return stems([self.noun.lower()])[0]

    def is_in(self, text: str) -> bool:
        """Return whether a text has the identifier, or the number behind its noun."""
        if not self.noun:
            return self.text.lower() in text.lower()
        return any(self._is_near(text, found.start()) for found in _FIGURE.finditer(text) if found[0] == self.number)

    def _is_near(self, text: str, at: int) -> bool:
        """Return whether the last noun before a number is the one in question."""
        before = text[max(0, at - _NEAR) : at].rpartition("\n")[2]
        words = [word.lower() for word in _WORD.findall(before) if not re.fullmatch(_NUMBER_OF, word, re.IGNORECASE)]
        return bool(words) and stems([words[-1]])[0] == self._stem


def names_in(question: str) -> Iterator[Name]:
    """Yield what a question names by an identifier or by a number in a role."""
    for found in _IDENTIFIER.finditer(question):
        yield Name(found[0])
    for found in _NUMBERED.finditer(question):
        if found["noun"].lower() not in _NO_ROLE:
            yield Name(found[0], found["noun"], found["number"])
