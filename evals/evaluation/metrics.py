"""Figures of many questions: retrieval metrics, confidence intervals, paired tests, percentiles, CSV.

A ranking is document ids, best first, without repetition. Judgements are grades by document id; a grade above zero is
relevant. A query without a relevant document has no value in any of the metrics and must be left out before.

pandas is imported where it is used: it takes half a second, which Dagster's processes need not spend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.escaping.targets import for_csv

Judgements = Mapping[str, int]


def recall_at_k(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """Share of the relevant documents that are among the first k: |relevant ∩ top k| / |relevant|.

    Manning, Raghavan & Schütze, Introduction to Information Retrieval, section 8.3; `recall_k` of trec_eval.
    """
    relevant = {document for document, grade in judgements.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant)


def ndcg_at_k(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """Discounted cumulative gain over that of the best possible ranking: Σ grade_i / log2(i + 1), i = 1 … k.

    Järvelin & Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20 (2002), with the linear gain of
    `ndcg_cut_k` of trec_eval, which BEIR reports. Grades below zero gain nothing.
    """
    gains = [max(0, judgements.get(document, 0)) for document in ranking[:k]]
    ideal = sorted((grade for grade in judgements.values() if grade > 0), reverse=True)[:k]
    return _discounted(gains) / _discounted(ideal)


def mrr_at_k(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """1 / rank of the first relevant document among the first k, 0 if there is none.

    Voorhees, The TREC-8 question answering track report (1999), cut at k as MS MARCO does.
    """
    for rank, document in enumerate(ranking[:k], start=1):
        if judgements.get(document, 0) > 0:
            return 1 / rank
    return 0.0


def average_precision(ranking: Sequence[str], judgements: Judgements) -> float:
    """Return the mean over the relevant documents of the precision at their ranks, 0 for missing ones; its mean is MAP.

    Manning, Raghavan & Schütze, Introduction to Information Retrieval, section 8.4; `map` of trec_eval.
    """
    relevant = {document for document, grade in judgements.items() if grade > 0}
    ranks = [rank for rank, document in enumerate(ranking, start=1) if document in relevant]
    return sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(relevant)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))


RESAMPLES = 10_000
LEVEL = 0.95
_Z = 1.959964  # of the same level
_SEED = 20_011


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float


def bootstrap_interval(values: Sequence[float], level: float = LEVEL, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of values [n] and its percentile bootstrap interval; the same values give the same interval.

    Efron & Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values to take a mean of")
    sample = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(_SEED)
    means = sample[generator.integers(0, len(sample), (resamples, len(sample)))].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(sample.mean()), float(low), float(high))


def wilson_interval(hits: int, of: int, z: float = _Z) -> Interval:
    """Return the share of hits and its Wilson score interval; both ends lie from 0 to 1, also for shares of 0 and 1.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    Raises:
        ValueError: hits of nothing have no share.
    """
    if of < 1:
        raise ValueError("no values to take a share of")
    share, spread = hits / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / of + spread / (4 * of))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def paired_p_value(before: Sequence[float], after: Sequence[float], resamples: int = RESAMPLES) -> float:
    """Two-sided p-value of the paired randomization test that the mean of `after - before` [n] is zero.

    Under the null hypothesis the sign of each difference is a coin's. Smucker, Allan & Carterette, "A comparison of
    statistical significance tests for information retrieval evaluation", CIKM 2007. Where there are no more than
    `resamples` sign patterns all of them are counted and the value is exact; else as many are drawn with a fixed seed.

    Raises:
        ValueError: the runs are not of the same questions.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} values before cannot be paired with {len(after)} after")
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    difference = difference[difference != 0]  # the sign of nothing does not matter
    if not len(difference):
        return 1.0
    patterns, exact = _signs(len(difference), resamples)
    sums = np.abs(patterns @ difference)
    extreme = int((sums >= abs(difference.sum()) - 1e-12).sum())
    return extreme / len(sums) if exact else (extreme + 1) / (len(sums) + 1)


def _signs(count: int, most: int) -> tuple[NDArray[np.int64], bool]:
    """Return all patterns of `count` signs [2^count, count] if they are no more than `most`, else as many random
    ones."""
    if count < 63 and 2**count <= most:
        return 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1) - 1, True
    return 2 * np.random.default_rng(_SEED).integers(0, 2, (most, count)) - 1, False


_PARTS = {"p50": 0.50, "p95": 0.95}


def percentiles(timings: Iterable[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return p50 and p95 of each stage over the questions that went through it; the unit stays."""
    import pandas as pd

    stages = pd.DataFrame(list(timings), dtype="float64")
    return {str(stage): _rounded(values.quantile(list(_PARTS.values()))) for stage, values in stages.items()}


def _rounded(values: Iterable[float]) -> dict[str, float]:
    return {name: round(float(value), 3) for name, value in zip(_PARTS, values, strict=True)}


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with a column for everything that any of them has; no cell is a formula."""
    import pandas as pd

    cells = [{name: for_csv(value) for name, value in row.items()} for row in rows]
    return str(pd.DataFrame(cells, dtype=object).to_csv(index=False, lineterminator="\n"))
