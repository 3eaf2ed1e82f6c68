"""Reranking: by a cross-encoder, or by a passage's words if none answers. Words: five signals, each between 0 and 1 and
each weighed by inverse document frequency: the share of the query's terms that the passage has, and that its headings
have; the proximity of neighbouring terms of the query, and that in the query's order (Tao and Zhai, An exploration of
proximity measures in information retrieval, SIGIR 2007); the longest run of them without a gap. They correct the order
of the first candidates and do not replace it: their worth is small against a deviation of the score that ranked
them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_serving.records.passages import Chunk
from rag_serving.retrieval.ranking import Ranking, Scores
from rag_serving.retrieval.stage import SearchContext
from rag_serving.text.analyzer import analyze_passage

RERANKER_DOWN = "reranker_unavailable"
RERANK = "rerank"  # the column of its scores


class RerankerClient(Protocol):
    """A cross-encoder behind HTTP; `models.reranker_client.RemoteReranker` is one."""

    def rank(self, query: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]: ...


@dataclass(frozen=True)
class CrossEncoderStage:
    """Put the `top_n` best by a cross-encoder of the first `pool` rows first; column `rerank`. Fails as it does."""

    sidecar: RerankerClient
    top_n: int
    pool: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        pool = ranking.head(self.pool)
        chunks = context.passages.read(pool.rows)
        at = {chunk.chunk_id: place for place, chunk in enumerate(chunks)}
        passages = [(chunk.chunk_id, passage_text(chunk)) for chunk in chunks]
        ranked = self.sidecar.rank(context.query.text, passages, self.top_n) if passages else []
        scores = np.array([score for _, score in ranked], dtype=np.float64)
        return pool.take([at[chunk_id] for chunk_id, _ in ranked]).scored(RERANK, scores)


def passage_text(chunk: Chunk) -> str:
    """Return the model's input: the heading path above the text, because a passage often does not name its subject."""
    return f"{' > '.join(chunk.heading_path)}\n{chunk.text}" if chunk.heading_path else chunk.text


Positions = Mapping[str, Sequence[int]]

HEURISTIC = "heuristic"  # the column of its scores; without values where it ran and had nothing to correct
POOL = 20
_SIGNALS, _OF_COVERAGE = 5, 2  # the first two do not depend on the positions of terms

# Deviations of the score that one deviation of a signal is worth, one for all five: less than SciFact's train queries
# alone would choose.
_WORTH = 0.05


@dataclass(frozen=True)
class LexicalReranker:
    """Order the first rows by their words, unless another reranker ordered them; column `heuristic`. Scores keep their
    scale, none below the score of the row after the pool."""

    pool: int = POOL  # the number of rows to reorder
    proximity: bool = True  # whether the positions of terms count, not only their presence

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        if RERANK in ranking.columns:
            return ranking
        first, values = ranking.head(self.pool), np.full(len(ranking), np.nan)
        if len(first) < 2 or not any(context.term_weights.values()):
            return ranking.with_scores(HEURISTIC, values)
        floor = ranking.score[self.pool] if len(ranking) > self.pool else -math.inf
        values[: len(first)] = np.maximum(floor, self._corrected(context, first))
        order = np.arange(len(ranking))
        order[: len(first)] = np.argsort(-values[: len(first)], kind="stable")
        return ranking.scored(HEURISTIC, values).take(order)

    def _corrected(self, context: SearchContext, first: Ranking) -> Scores:
        """Return the scores [n] with the contribution of each row's words."""
        analyze = context.query.analyze_passage
        counted = _SIGNALS if self.proximity else _OF_COVERAGE
        chunks = context.passages.read(first.rows)
        signals = np.array([word_signals(chunk, context.term_weights, analyze)[:counted] for chunk in chunks])
        deviation = signals.std(axis=0)
        centred: NDArray[np.float64] = (signals - signals.mean(axis=0)) / np.where(deviation > 1e-9, deviation, 1.0)
        corrected: Scores = first.score + first.score.std() * _WORTH * centred.sum(axis=1)
        return corrected


def word_signals(
    chunk: Chunk, weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]] = analyze_passage
) -> tuple[float, ...]:
    """Return coverage, coverage by the headings, proximity, ordered proximity, longest run: each 0 … 1. `weights` are
    the query's terms in their order with their inverse document frequencies."""
    positions: dict[str, list[int]] = {}
    for place, term in enumerate(analyze(chunk.text)):
        if term in weights:
            positions.setdefault(term, []).append(place)
    headings = set(analyze(" ".join(chunk.heading_path)))
    total = sum(weights.values()) or 1.0
    covered = sum(weight for term, weight in weights.items() if term in positions) / total
    headed = sum(weight for term, weight in weights.items() if term in headings) / total
    return covered, headed, *_neighbours(positions, weights)


def _neighbours(positions: Positions, weights: Mapping[str, float]) -> tuple[float, float, float]:
    """Return proximity, ordered proximity and the longest run over the pairs of neighbouring query terms. A pair is
    worth its mean weight divided by its distance: 1 side by side, ½ with a word between."""
    total = near = ordered = longest = run = 0.0
    for first, second in pairwise(weights):
        worth = (weights[first] + weights[second]) / 2
        total += worth
        if first not in positions or second not in positions:
            run = 0.0
            continue
        ahead = _distance(positions[first], positions[second])
        behind = _distance(positions[second], positions[first])
        near += worth / min(ahead, behind)
        ordered += worth / ahead
        run = run + worth if ahead == 1 else 0.0
        longest = max(longest, run)
    return (near / total, ordered / total, longest / total) if total else (0.0, 0.0, 0.0)


def _distance(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the least distance from one of `before` to a later one of `after`, both ascending; infinite if none."""
    least = float("inf")
    for place in before:
        at = bisect_left(after, place + 1)
        if at < len(after):
            least = min(least, after[at] - place)
    return least
