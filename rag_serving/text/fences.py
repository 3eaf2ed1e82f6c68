"""Fences: marks around text that a model reads as data, with a random word that nobody who wrote the text can know.

Belongs here: the marks, and the removal of what imitates them. Does not belong here: marks of chat templates and orders
(`injections`), what a prompt says of its fences.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from rag_serving.text.disguises import readings

REMOVED = "[mark removed]"

_WORD_BYTES = 4
# Brackets that a model may read as the one that opens a mark; those of NFKC are among them.
BRACKETS = "<＜﹤‹〈〈⟨❮❬❰⧼⦑⟪《«˂ᐸ≺⋖"
_CANDIDATE = re.compile(
    rf"(?:[{BRACKETS}]|&(?:lt|#0{{0,4}}60|#x0{{0,4}}3c);)(?P<inside>[^\n{BRACKETS}>＞﹥]{{1,120}})"
    rf"(?:[>＞﹥]|&(?:gt|#0{{0,4}}62|#x0{{0,4}}3e);)?",
    re.IGNORECASE,
)
# The name of a fence with a word or number of its own behind it, of which no element's name has a figure.
_MARK = re.compile(
    r"\W{0,6}(?:passage|excerpt|question|document|outline|before|after|premise|hypothesis)s?"
    r"(?:[\s_:=.‐‑–—−-]{1,3}(?:[0-9a-z…]\W?){2,64}|.{0,12}\bn\s?=)"
)
_FIGURE = re.compile(r"\d|[^\x00-\x7f]")


@dataclass(frozen=True)
class Fence:
    """The marks of one request; `word` is what a text would have to know to imitate them."""

    word: str

    @staticmethod
    def new() -> Fence:
        """Return a fence with a word of its own."""
        return Fence(secrets.token_hex(_WORD_BYTES))

    def around(self, name: str, text: str, number: int | None = None) -> str:
        """Return the text between its marks, each on a line of its own."""
        return f"{self.begin(name, number)}\n{text}\n{self.end(name)}"

    def begin(self, name: str, number: int | None = None) -> str:
        """Return the mark before a text."""
        return f"<{name}-{self.word}{f' n={number}' if number else ''}>"

    def end(self, name: str) -> str:
        """Return the mark behind a text."""
        return f"</{name}-{self.word}>"


def without_fences(text: str) -> tuple[str, int]:
    """Return the text without anything like a mark of a fence, in any letters, and the number removed."""
    count = 0

    def kept(candidate: re.Match[str]) -> str:
        nonlocal count
        inside = candidate["inside"]
        if not _FIGURE.search(inside) or not any(_MARK.match(reading) for reading in readings(inside)):
            return candidate[0]
        count += 1
        return REMOVED

    return _CANDIDATE.sub(kept, text), count
