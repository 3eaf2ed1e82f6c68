"""The ids of headings, as GitHub makes them of their words.

Belongs here: what makes ids, duplicates included. Does not belong here: finding headings, ids that authors write
(`markdown_page`).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Protocol

_NOT_ASCII_WORD = re.compile(r"[^\w\- ]", re.ASCII)
_ENCLOSED = (range(0x24B6, 0x24EA), range(0x1F130, 0x1F14A), range(0x1F150, 0x1F16A), range(0x1F170, 0x1F18A))
_KEPT = frozenset({"Nd", "Nl", "Pc"})


class Slugger(Protocol):
    """Makes the ids of one page, asked for in document order."""

    def slug(self, text: str) -> str:
        """Return the id of a heading without one of its own; no two of a page are the same."""
        ...

    def written(self, name: str) -> str:
        """Take note of an id that the author wrote, and return what the generator makes of it."""
        ...


def github_slug(text: str) -> str:
    """Return a heading's slug by GitHub's rule: lower case; letters, marks, digits, `-` and `_`; a space as `-`.

    As npm's `github-slugger` 2 has it, which GitHub's own rule (`[^\\p{Word}\\- ]`) was taken from.
    """
    lowered = text.lower()
    kept = _NOT_ASCII_WORD.sub("", lowered) if text.isascii() else "".join(filter(_is_word, lowered))
    return kept.replace(" ", "-")


def _is_word(char: str) -> bool:
    category = unicodedata.category(char)
    if category[0] in "LM" or category in _KEPT or char in "- ":
        return True
    return category == "So" and any(ord(char) in each for each in _ENCLOSED)


class GithubSlugger:
    """GitHub's and Docusaurus' ids: a repeated one takes `-1`, `-2`; ids that authors write are not counted."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def slug(self, text: str) -> str:
        """See `Slugger`."""
        base = name = github_slug(text)
        while name in self._seen:
            self._seen[base] += 1
            name = f"{base}-{self._seen[base]}"
        self._seen[name] = 0
        return name

    def written(self, name: str) -> str:
        """See `Slugger`."""
        return name
