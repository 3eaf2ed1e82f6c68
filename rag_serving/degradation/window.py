"""The questions of the last minutes: how many there were, how many failed, how long their passages took.

Belongs here: counting within a sliding window that is bounded in memory. Does not belong here: what follows from the
figures (`controller`).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

MOST_SAMPLES = 5_000
"""Questions that a window keeps; of more in its time, the newest."""
P50, P95 = 0.5, 0.95


@dataclass(frozen=True)
class Sample:
    """One question.

    Attributes:
        at: seconds of the clock.
        latency_ms: from the question to its passages.
        is_error: the phase in force failed it, whether or not another one answered.
        is_lost: no phase answered it.
        asker: who asked; None: a caller without a name, who may be several.
    """

    at: float
    latency_ms: float
    is_error: bool = False
    is_lost: bool = False
    asker: str | None = None


@dataclass(frozen=True)
class Figures:
    """What the samples of a window add up to; a share is 0 and a time None where there are none."""

    questions: int = 0
    error_rate: float = 0.0
    lost_rate: float = 0.0
    p50_ms: float | None = None
    p95_ms: float | None = None


class Window:
    """The samples of the last `seconds`, `most` at most. Its owner sees to it that one thread uses it at a time."""

    def __init__(self, seconds: float, most: int = MOST_SAMPLES) -> None:
        self._seconds = seconds
        self._samples: deque[Sample] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def clear(self) -> None:
        self._samples.clear()

    def figures(self, now: float) -> Figures:
        """Return what the samples that are not too old add up to."""
        while self._samples and self._samples[0].at < now - self._seconds:
            self._samples.popleft()
        return _figures(self._samples)

    def figures_of_others(self, slow_ms: float) -> Figures:
        """Return the same without the named caller who met most of what failed or took longer than `slow_ms`."""
        met = Counter(one.asker for one in self._samples if one.asker and (one.is_error or one.latency_ms > slow_ms))
        most = next((asker for asker, _ in met.most_common(1)), None)
        return _figures([one for one in self._samples if most is None or one.asker != most])


def _figures(samples: Collection[Sample]) -> Figures:
    count = len(samples)
    if not count:
        return Figures()
    times = sorted(sample.latency_ms for sample in samples)
    errors, lost = sum(sample.is_error for sample in samples), sum(sample.is_lost for sample in samples)
    return Figures(count, errors / count, lost / count, percentile(times, P50), percentile(times, P95))


def percentile(ascending: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of the values do not exceed (nearest rank)."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]
