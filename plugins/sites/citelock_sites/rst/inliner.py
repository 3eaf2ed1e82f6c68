"""docutils' reader of inline markup, in time that grows with the text.

Belongs here: what keeps a paragraph of many openings without an end from being searched to its end for each.
Does not belong here: roles.
"""

from __future__ import annotations

import re
from typing import Any

from docutils.parsers.rst.states import Inliner

from citelock_sites.markup import MarkupError

MISSED_MAX = 5_000
"""Openings without an end; docutils writes a message for each, and one of 128 KB of them took 213 s."""
_ENDS = ("emphasis", "strong", "interpreted_or_phrase_ref", "literal", "target", "substitution_ref")


class LinearInliner(Inliner):  # type: ignore[misc]
    """An inliner that remembers, for a paragraph, which end markers are absent from the rest of it."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[_End] = []
        self._missed = [0]

    def init_customizations(self, settings: Any) -> None:
        """See `Inliner`."""
        whole = Inliner()  # it makes its patterns of what its class has, and that of a class above it is not seen
        whole.init_customizations(settings)
        self.__dict__.update(whole.__dict__)
        self._ends = [_End(getattr(self.patterns, name), self._missed) for name in _ENDS]
        for name, end in zip(_ENDS, self._ends, strict=True):
            setattr(self.patterns, name, end)

    def parse(self, text: str, lineno: int, memo: Any, parent: Any) -> Any:
        """See `Inliner`."""
        outer = [end.none_within for end in self._ends]
        self._forget([0] * len(self._ends))
        try:
            return super().parse(text, lineno, memo, parent)
        finally:
            self._forget(outer)

    def _forget(self, lengths: list[int]) -> None:
        for end, length in zip(self._ends, lengths, strict=True):
            end.none_within = length


class _End:
    """A pattern of an end. What is searched is always a rest of the same paragraph."""

    def __init__(self, pattern: re.Pattern[str], missed: list[int]) -> None:
        self._pattern = pattern
        self._missed = missed  # how many openings of the page have no end
        self.none_within = 0  # length of the longest rest that has no end

    def search(self, rest: str) -> re.Match[str] | None:
        """Return the next end.

        Raises:
            MarkupError: too many openings have none.
        """
        found = None if len(rest) <= self.none_within else self._pattern.search(rest)
        if found is None:
            self.none_within = max(len(rest), self.none_within)
            self._missed[0] += 1
            if self._missed[0] > MISSED_MAX:
                raise MarkupError(f"more than {MISSED_MAX:,} openings of inline markup have no end")
        return found
