"""Candidates in the order of their scores, each read from the chunk table when it is first looked at.

Belongs here: reading late. Does not belong here: scores (`retrieval.hybrid`), what a table holds (`generation`).

A hundred candidates are ranked for a question that shows ten: to read them all takes as long as to find them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import overload

from rag_serving.records import Candidate, Chunk

_TOGETHER = 10  # sooner read together than one by one

ReadChunks = Callable[[Sequence[int]], Sequence[Chunk]]


class Ranked(Sequence[Candidate]):
    """Candidates, best first. Safe to read from several threads."""

    def __init__(
        self, rows: Sequence[int], scores: Sequence[float], told: Mapping[str, Sequence[float]], read: ReadChunks
    ) -> None:
        """Args:
        rows: of the chunk table, best first.
        scores: of each row.
        told: what each stage said of each row.
        read: gives the chunks of some rows.
        """
        self._rows, self._scores, self._told, self._read = rows, scores, told, read
        self._found: list[Candidate | None] = [None] * len(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(len(self))[place])
        at = range(len(self))[place]
        return self._found[at] or self._look(at)

    def _look(self, at: int) -> Candidate:
        """Return the candidate at a place, read with those that stand beside it."""
        start = at - at % _TOGETHER
        chunks = self._read(self._rows[start : start + _TOGETHER])
        for place, chunk in enumerate(chunks, start):
            told = {stage: values[place] for stage, values in self._told.items()}
            self._found[place] = self._found[place] or Candidate(chunk, self._scores[place], told)
        found = self._found[at]
        assert found is not None
        return found
