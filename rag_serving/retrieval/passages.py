"""The chunks of one search, each read once and together with others.

Belongs here: reading rows as chunks and keeping them for the lock. Does not belong here: order and scores (`ranking`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rag_serving.indexes.protocols import ReaderView, Rows
from rag_serving.records.passages import Candidate, Chunk
from rag_serving.retrieval.ranking import Ranking

_TOGETHER = 10  # as many as a search shows


class Passages:
    """The chunks that one reader's search has looked at. For one question, not for several threads."""

    def __init__(self, view: ReaderView) -> None:
        self._view = view
        self._chunks: dict[int, Chunk] = {}

    def read(self, rows: Rows) -> list[Chunk]:
        """Return the chunks at some rows, in their order; those not read before are read in one call."""
        wanted: list[int] = rows.tolist()
        if missing := [row for row in wanted if row not in self._chunks]:
            self._chunks.update(zip(missing, self._view.chunks(missing), strict=True))
        return [self._chunks[row] for row in wanted]

    def candidates(self, ranking: Ranking, together: int = _TOGETHER) -> Iterator[Candidate]:
        """Yield the rows of a ranking as candidates; an early stop leaves the rest unread."""
        for start in range(0, len(ranking), together):
            yield from self._candidates(ranking.take(range(start, min(start + together, len(ranking)))))

    def _candidates(self, ranking: Ranking) -> Iterable[Candidate]:
        pairs = zip(self.read(ranking.rows), ranking.records(), strict=True)
        return [Candidate(chunk, score, scores, ranks) for chunk, (score, scores, ranks) in pairs]
