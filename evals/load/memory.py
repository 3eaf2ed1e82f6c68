"""Memory of a server over time, and whether it is flat.

Belongs here: reading and sampling memory, the slope, the verdict. Does not belong here: what the server does meanwhile
(`users`).

Only anonymous memory is judged: pages of mapped files are counted as resident, grow with every file that is read, and
are given back when another program needs the memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from evals.load.processes import children_of

JUDGED_SHARE = 0.5
"""Of the samples, the last ones that are judged: before, models, threads and caches of bounded size are filling."""
MOST_MB_PER_HOUR = 30.0
NOISE_MB = 2.5
"""Growth that is within the noise of the allocator; it decides where less than five minutes are judged."""
_MOST_SAMPLES = 240

Sample = tuple[float, float]
"""Seconds since the beginning, megabytes."""


def anonymous_mb(process: int) -> float:
    """Return the megabytes that no file backs of a process and all that it started (Linux)."""
    return sum(_status_mb(number, "RssAnon:") for number in _with_children(process))


def _with_children(process: int) -> Iterator[int]:
    yield process
    for child in children_of(process):
        yield from _with_children(child)


def _status_mb(process: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


@contextmanager
def sampled(memory_mb: Callable[[], float], every_s: float) -> Iterator[list[Sample]]:
    """Yield the samples that are taken while the block runs."""
    samples: list[Sample] = []
    ended, began = threading.Event(), time.monotonic()

    def take() -> None:
        while not ended.wait(every_s):
            samples.append((time.monotonic() - began, memory_mb()))

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

    Raises:
        ValueError: there are too few samples.
    """
    judged = _thinned(samples[int(len(samples) * (1 - JUDGED_SHARE)) :])
    if len(judged) < 3:
        raise ValueError("too few samples of memory; let the run take longer")
    slope = median((b - a) / (t - s) for (s, a), (t, b) in combinations(judged, 2))
    seconds = judged[-1][0] - judged[0][0]
    grown, allowed = slope * seconds, max(MOST_MB_PER_HOUR * seconds / 3600, NOISE_MB)
    return {
        "samples": len(samples),
        "judged_s": round(seconds),
        "first_mb": round(samples[0][1], 1),
        "median_mb": round(median(mb for _, mb in judged), 1),
        "most_mb": round(max(mb for _, mb in samples), 1),
        "slope_mb_per_hour": round(slope * 3600, 1),
        "grown_mb": round(grown, 2),
        "allowed_mb": round(allowed, 2),
        "flat": grown <= allowed,
        "over_time": [[round(at), round(mb, 1)] for at, mb in _thinned(samples, 30)],
    }


def _thinned(samples: Sequence[Sample], most: int = _MOST_SAMPLES) -> list[Sample]:
    """Return at most so many samples, evenly chosen, the last one among them."""
    step = max(1, -(-len(samples) // most))
    return list(reversed(samples[::-1][::step]))
