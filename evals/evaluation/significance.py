"""How much of a difference between two runs is chance.

Belongs here: confidence intervals of a mean and paired tests, over one value per question.
Does not belong here: the metrics themselves (`metrics`), and what is done with a verdict (gates).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

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
    """Return all patterns of `count` signs [2^count, count] where they are no more than `most`, else as many random
    ones."""
    if count < 63 and 2**count <= most:
        return 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1) - 1, True
    return 2 * np.random.default_rng(_SEED).integers(0, 2, (most, count)) - 1, False
