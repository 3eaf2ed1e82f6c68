"""The heuristic reranker: how well a passage's words answer a query's, without any model.

Belongs here: what is measured of words, and how much it counts. Does not belong here: when it ranks
(`retrieval.rerank`).

Five signals, each between 0 and 1 and each weighed by inverse document frequency: the share of the query's terms that
the passage has, and that its headings have; how near to each other neighbouring terms of the query stand, and how near
in the query's order (Tao and Zhai, An exploration of proximity measures in information retrieval, SIGIR 2007); the
longest run of them that stands there word by word. They correct the order of the first candidates and do not replace
it: their worth is small against a deviation of the score that ranked them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise

import numpy as np
from numpy.typing import NDArray

from rag_serving.records import Candidate

Analyze = Callable[[str], Sequence[str]]
Positions = Mapping[str, Sequence[int]]

POOL = 20
_SIGNALS, _OF_COVERAGE = 5, 2  # the first two do not depend on where the terms stand

# Deviations of the score that one deviation of a signal is worth, one for all five: less than SciFact's train queries
# alone would choose.
_WORTH = 0.05


def rerank_by_words(
    candidates: Iterable[Candidate],
    weights: Mapping[str, float],
    analyze: Analyze,
    pool: int = POOL,
    proximity: bool = True,
) -> Iterator[Candidate]:
    """Return the candidates with the first `pool` of them put in a new order; scores stay in the scale that they had.

    `weights` are the query's terms in their order with their inverse document frequencies. Without `proximity` only
    coverage counts, not where the terms stand. Later candidates are looked at only when they are asked for.
    """
    coming = iter(candidates)
    first = list(islice(coming, pool))
    rest = list(islice(coming, 1))
    if len(first) > 1 and any(weights.values()):
        floor = rest[0].score if rest else -math.inf
        first = _reordered(first, weights, analyze, floor, _SIGNALS if proximity else _OF_COVERAGE)
    return chain(first, rest, coming)


def _reordered(
    first: Sequence[Candidate], weights: Mapping[str, float], analyze: Analyze, floor: float, counted: int
) -> list[Candidate]:
    """Best first by the first `counted` signals, none below the score of whoever comes after them."""
    scores = np.array([candidate.score for candidate in first])
    signals = np.array([word_signals(candidate, weights, analyze)[:counted] for candidate in first])
    worth = np.maximum(floor, scores + scores.std() * _WORTH * _standard(signals).sum(axis=1))
    ranked = [candidate.scored("heuristic", float(value)) for candidate, value in zip(first, worth, strict=True)]
    return sorted(ranked, key=lambda candidate: -candidate.score)


def word_signals(candidate: Candidate, weights: Mapping[str, float], analyze: Analyze) -> tuple[float, ...]:
    """Coverage, coverage by the headings, proximity, ordered proximity, longest run: each 0 … 1."""
    positions: dict[str, list[int]] = {}
    for place, term in enumerate(analyze(candidate.chunk.text)):
        if term in weights:
            positions.setdefault(term, []).append(place)
    headings = set(analyze(" ".join(candidate.chunk.heading_path)))
    total = sum(weights.values()) or 1.0
    covered = sum(weight for term, weight in weights.items() if term in positions) / total
    headed = sum(weight for term, weight in weights.items() if term in headings) / total
    return covered, headed, *_neighbours(positions, weights)


def _neighbours(positions: Positions, weights: Mapping[str, float]) -> tuple[float, float, float]:
    """Proximity, ordered proximity and the longest run over the pairs of neighbouring query terms.

    A pair is worth its mean weight over the distance at which it stands: 1 side by side, ½ with a word between.
    """
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
    """Return the least number of places from one of `before` to a later one of `after`, both ascending; infinite if
    none."""
    least = float("inf")
    for place in before:
        at = bisect_left(after, place + 1)
        if at < len(after):
            least = min(least, after[at] - place)
    return least


def _standard(signals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each column [n, signals] with mean 0 and deviation 1; 0 where all are equal."""
    deviation = signals.std(axis=0)
    centred: NDArray[np.float64] = (signals - signals.mean(axis=0)) / np.where(deviation > 1e-9, deviation, 1.0)
    return centred
