"""Resident memory of a server over time, and whether it is flat.

Belongs here: sampling, the slope, the verdict. Does not belong here: what the server does meanwhile (`users`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from statistics import median
from typing import Any

WARM_SHARE = 0.25
"""Of the samples, the first ones that are not judged: models, threads and caches of bounded size are still filling."""
MOST_GROWTH = 0.03
"""Of the median, over the time that is judged."""
_MOST_SAMPLES = 240

Sample = tuple[float, float]
"""Seconds since the beginning, megabytes."""


@contextmanager
def sampled(resident_mb: Callable[[], float], every_s: float) -> Iterator[list[Sample]]:
    """Yield the samples that are taken while the block runs."""
    samples: list[Sample] = []
    ended, began = threading.Event(), time.monotonic()

    def take() -> None:
        while not ended.wait(every_s):
            samples.append((time.monotonic() - began, resident_mb()))

    thread = threading.Thread(target=take, name="memory", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def growth(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the figures of samples in their order, and whether memory is flat.

    The slope is the median of the slopes between all pairs (Theil 1950, Sen 1968): a build or a garbage collection that
    shows in a few samples does not move it.
    """
    judged = _thinned(samples[int(len(samples) * WARM_SHARE) :])
    if len(judged) < 3:
        raise ValueError("too few samples; let it run for longer")
    slope = median((b - a) / (t - s) for (s, a), (t, b) in combinations(judged, 2))
    middle = median(mb for _, mb in judged)
    grown = slope * (judged[-1][0] - judged[0][0])
    return {
        "samples": len(samples),
        "judged_s": round(judged[-1][0] - judged[0][0]),
        "first_mb": round(samples[0][1], 1),
        "median_mb": round(middle, 1),
        "most_mb": round(max(mb for _, mb in samples), 1),
        "slope_mb_per_hour": round(slope * 3600, 1),
        "grown_mb": round(grown, 1),
        "grown_share": round(grown / middle, 4),
        "flat": grown <= MOST_GROWTH * middle,
        "over_time": [[round(at), round(mb, 1)] for at, mb in _thinned(samples, 30)],
    }


def _thinned(samples: Sequence[Sample], most: int = _MOST_SAMPLES) -> list[Sample]:
    """Return at most so many samples, evenly chosen, the last one among them."""
    step = max(1, -(-len(samples) // most))
    return list(reversed(samples[::-1][::step]))
