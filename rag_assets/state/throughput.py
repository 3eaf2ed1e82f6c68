"""The recent pace of a stage, and its remaining time.

Belongs here: the estimate, as a pure function of reports. Does not belong here: showing it (`progress`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW_S = 30.0
WINDOW_REPORTS = 8
LEAST_REPORTS = 3
LEAST_S = 3.0
_CLOSEST_S = 0.25  # closer reports are merged, so that a window has some hundred at most


class WorkDone(NamedTuple):
    """The work done at a moment: `done` in the units that people count, `share` of the stage's work from 0 to 1."""

    at: float  # seconds of a clock that never goes back
    done: int
    share: float


class RemainingTime(NamedTuple):
    """Units a second, and seconds until the stage ends."""

    rate: float
    seconds_left: float


def estimate(reports: Sequence[WorkDone]) -> RemainingTime | None:
    """Return the estimate from the recent reports, oldest first; None before enough is known.

    The time before the first report is ignored: models are loaded and connections opened then. The moving average runs
    over the last `WINDOW_S` seconds, or over the last `WINDOW_REPORTS` reports if those take longer.
    """
    if len(reports) < LEAST_REPORTS or reports[-1].at - reports[0].at < LEAST_S:
        return None
    last = reports[-1]
    first = next(report for report in reports if last.at - report.at <= WINDOW_S)
    first = min(first, reports[max(0, len(reports) - 1 - WINDOW_REPORTS)])
    seconds, share = last.at - first.at, last.share - first.share
    if seconds <= 0 or share <= 0:
        return None
    return RemainingTime((last.done - first.done) / seconds, max(0.0, 1 - last.share) / share * seconds)


@dataclass
class Throughput:
    """Keeps the reports of one stage."""

    clock: Callable[[], float] = time.monotonic
    _reports: deque[WorkDone] = field(default_factory=deque)

    def report(self, done: int, total: int, share: float | None = None) -> None:
        """Take in how much is done; `share` of the work where units differ in it, else the share of the units."""
        report = WorkDone(self.clock(), done, share if share is not None else done / total if total else 1.0)
        if len(self._reports) > 1 and report.at - self._reports[-2].at < _CLOSEST_S:
            self._reports.pop()
        self._reports.append(report)
        while len(self._reports) > WINDOW_REPORTS + 1 and report.at - self._reports[1].at > WINDOW_S:
            self._reports.popleft()

    @property
    def estimate(self) -> RemainingTime | None:
        """The estimate now; None before enough is known."""
        return estimate(self._reports)

    @property
    def line(self) -> str:
        """The estimate for people, such as `29.1/s, 12 s left`; empty before enough is known."""
        now = self.estimate
        return f"{now.rate:.1f}/s, {duration(now.seconds_left)} left" if now else ""


def duration(seconds: float) -> str:
    """Return seconds for people: `12 s`, `5 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
