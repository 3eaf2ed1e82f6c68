"""Tokens, each once, and the lists of numbers that they stand for.

Belongs here: remembering what was made of a token, lists of numbers as arrays. Does not belong here: what a token is,
what the numbers mean (`lexical_writer`, `keyword_writer`).

A text is split at its spaces, and what stands between them is analyzed once: most of it comes again, and looking it up
takes a quarter of the time that finding its words takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import numpy as np

from rag_assets.publishing.posting_lists import Borders, Numbers

MOST = 1 << 20
"""Tokens that are remembered, some 150 MB."""

NumbersOf = Callable[[str], Iterable[int]]


class TokenLists:
    """Lists of numbers, one for each token, and the tokens of each kind."""

    def __init__(self) -> None:
        self._members, self._borders = array("i"), array("q", [0])
        self._tokens: dict[str | None, _Tokens] = {}

    def __len__(self) -> int:
        return len(self._borders) - 1

    def tokens(self, kind: str | None, numbers_of: NumbersOf) -> Callable[[str], int]:
        """Return what gives the list's number of a token of a kind, by `numbers_of` where it is new."""
        known = self._tokens.get(kind)
        if known is None:
            known = self._tokens[kind] = _Tokens(lambda token: self._add(numbers_of(token)))
        return known.__getitem__

    def members(self, lists: Numbers) -> tuple[Numbers, Borders]:
        """Return the members of some lists, one after the other, and how many each has."""
        borders = np.array(self._borders)
        sizes = np.diff(borders)[lists]
        shifts = borders[lists] - (np.cumsum(sizes) - sizes)
        places = np.repeat(shifts, sizes) + np.arange(int(sizes.sum()))
        return np.array(self._members, np.int32)[places], sizes

    def shrink(self) -> None:
        """Forget all lists where there are too many: numbers that were given before are worth nothing then."""
        if len(self) > MOST:
            self.__init__()  # type: ignore[misc]

    def _add(self, numbers: Iterable[int]) -> int:
        self._members.extend(numbers)
        self._borders.append(len(self._members))
        return len(self) - 1


class _Tokens(dict[str, int]):
    """The list's number of every token of one kind."""

    def __init__(self, add: Callable[[str], int]) -> None:
        super().__init__()
        self._add = add

    def __missing__(self, token: str) -> int:
        number = self[token] = self._add(token)
        return number
