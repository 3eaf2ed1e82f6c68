"""A ranking: rows of the chunk table in order, and what each stage said of them in named columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.readable_rows import Hit
from rag_serving.indexes.view import ReaderView, Rows
from rag_serving.records.passages import Candidate, Chunk

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


POOL = 10  # candidates that are looked at, as the source document of book answers has it; five of them are shown
SAME_SECTION, SAME_CHAPTER = 1.0, 0.5
WEIGHT = 0.2  # worth of a passage whose neighbours in the book were all found, too, where the scores span from 0 to 1


def nearest_sections(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return the `count` best of ranked candidates, each raised by the share of the others' scores in its chapter and
    section. A passage's worth is s + 0.2 · Σ (s' · nearness) / Σ s', over the other candidates, where s is its score
    scaled to [0, 1], and nearness 1 in the same section, ½ in the same chapter. Outside of books a page counts as a
    chapter."""
    scores = [candidate.score for candidate in candidates]
    low, span = min(scores, default=0.0), (max(scores, default=0.0) - min(scores, default=0.0)) or 1.0
    scaled = [(score - low) / span for score in scores]
    worth = []
    for place, candidate in enumerate(candidates):
        others = [(scaled[at], one.chunk) for at, one in enumerate(candidates) if at != place]
        near = sum(score * nearness(candidate.chunk, chunk) for score, chunk in others)
        total = sum(score for score, _ in others)
        worth.append(scaled[place] + (WEIGHT * near / total if total else 0.0))
    order = sorted(range(len(candidates)), key=lambda place: (-worth[place], place))
    return [candidates[place] for place in order[:count]]


def nearness(one: Chunk, other: Chunk) -> float:
    """Return the nearness of two passages: in one section, in one chapter, or neither."""
    if one.source != other.source:
        return 0.0
    if one.page_id == other.page_id:
        is_section = one.section == other.section if one.passage_id else one.section_id == other.section_id
        return SAME_SECTION if is_section else SAME_CHAPTER
    return SAME_CHAPTER if one.chapter and one.chapter == other.chapter else 0.0


def in_document_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return passages in reading order, books by their best passages; then those of no book, best first."""
    books = list(dict.fromkeys(one.chunk.source for one in candidates if one.chunk.page_order))

    def place(candidate: Candidate) -> tuple[int, int, int]:
        chunk = candidate.chunk
        if not chunk.page_order:
            return len(books), 0, 0
        return books.index(chunk.source), chunk.page_order, chunk.chunk_idx

    return sorted(candidates, key=place)


_EPSILON = np.finfo(np.float32).eps  # below it scores are equal


def standard(scores: Scores) -> Scores:
    """Return standard scores [n]: mean 0, deviation 1; all 0 if all are equal."""
    centred: Scores = scores - scores.sum() / max(len(scores), 1)
    deviation = math.sqrt((centred * centred).sum() / max(len(scores), 1))
    return centred / deviation if deviation > _EPSILON else np.zeros(len(scores))


def min_max(scores: Scores) -> Scores:
    """Return scores [n] brought to 0 … 1; all 0 if all are equal."""
    if not len(scores) or not np.ptp(scores) > _EPSILON:
        return np.zeros(len(scores))
    scaled: Scores = (scores - scores.min()) / np.ptp(scores)
    return scaled


Scores = NDArray[np.float64]

SCORE = "score"  # the column that rows are ordered by
RANK_SUFFIX = "_rank"  # how the columns end that hold a row's rank in one index, counted from 1


def _no_rows() -> Rows:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows, best first, with a column [n] for everything that a stage said of them; NaN: it said nothing of the row.
    Immutable: each method returns another ranking. No row occurs twice."""

    rows: Rows = field(default_factory=_no_rows)
    columns: Mapping[str, Scores] = field(default_factory=dict)

    @classmethod
    def of_hits(cls, column: str, rank: str, hits: Sequence[Hit]) -> Ranking:
        """Return the results of one index, with its scores and ranks as columns."""
        rows, scores = zip(*hits, strict=True) if hits else ((), ())
        ranks = np.arange(1.0, len(hits) + 1)
        return cls(np.array(rows, dtype=np.int64), {column: np.array(scores, dtype=np.float64), rank: ranks})

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Scores:
        """Return a column [n]; NaN for every row if there is none of that name."""
        return self.columns[name] if name in self.columns else np.full(len(self), np.nan)

    @property
    def score(self) -> Scores:
        """Return the scores that order the rows [n]."""
        return self.column(SCORE)

    def with_scores(self, name: str, values: NDArray[np.floating[Any]]) -> Ranking:
        """Return the same with a column added or replaced."""
        return Ranking(self.rows, {**self.columns, name: np.asarray(values, dtype=np.float64)})

    def scored(self, name: str, values: Scores) -> Ranking:
        """Return the same with a column whose values, if any, become the scores."""
        return self.with_scores(name, values).with_scores(SCORE, np.where(np.isnan(values), self.score, values))

    def take(self, positions: NDArray[np.intp] | Sequence[int]) -> Ranking:
        """Return the rows at some positions, in their order."""
        chosen = np.asarray(positions, dtype=np.intp)
        return Ranking(self.rows[chosen], {name: values[chosen] for name, values in self.columns.items()})

    def where(self, mask: NDArray[np.bool_]) -> Ranking:
        """Return the rows of a mask [n], in their order."""
        return self.take(np.flatnonzero(mask))

    def head(self, k: int) -> Ranking:
        """Return the first k rows."""
        return Ranking(self.rows[:k], {name: values[:k] for name, values in self.columns.items()})

    def ordered_by(self, name: str) -> Ranking:
        """Return the rows with the highest values of a column first; ties keep their order, NaN comes last."""
        return self.take(np.argsort(-self.column(name), kind="stable"))

    def found_by(self, index: str) -> Ranking:
        """Return an index's results, in its order."""
        ranks = self.column(index + RANK_SUFFIX)
        return self.take(np.argsort(ranks, kind="stable")[: np.count_nonzero(~np.isnan(ranks))])

    def joined(self, other: Ranking) -> Ranking:
        """Return these rows and behind them those that only the other has; of two values the other's counts."""
        if not self.columns:
            return other
        at, is_new = self._positions_of(other.rows)
        rows = np.concatenate([self.rows, other.rows[is_new]])
        columns = {}
        for name in {**self.columns, **other.columns}:
            columns[name] = values = np.full(len(rows), np.nan)
            if name in self.columns:
                values[: len(self)] = self.columns[name]
            if name in other.columns:
                given = other.columns[name]
                values[at] = np.where(np.isnan(given), values[at], given)
        return Ranking(rows, columns)

    def _positions_of(self, rows: Rows) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the positions of rows [n], with new rows placed at the end, and which are new."""
        order = np.argsort(self.rows)
        found = np.minimum(np.searchsorted(self.rows, rows, sorter=order), len(self) - 1)
        is_new = self.rows[order[found]] != rows if len(self) else np.ones(len(rows), dtype=np.bool_)
        behind = len(self) - 1 + np.cumsum(is_new)
        return np.where(is_new, behind, order[found] if len(self) else behind), is_new

    def records(self) -> Iterator[tuple[float, dict[str, float], dict[str, int]]]:
        """Yield the score of each row, its scores by stage, and its rank in each index that returned it."""
        ranks = {name.removesuffix(RANK_SUFFIX): name for name in self.columns if name.endswith(RANK_SUFFIX)}
        stages = [name for name in self.columns if name != SCORE and name not in ranks.values()]
        values = {name: self.columns[name].tolist() for name in (*stages, *ranks.values())}
        for place, score in enumerate(self.score.tolist()):
            scores = {name: values[name][place] for name in stages}
            found = {index: values[name][place] for index, name in ranks.items()}
            yield score, _known(scores), {index: int(rank) for index, rank in _known(found).items()}


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value == value}
