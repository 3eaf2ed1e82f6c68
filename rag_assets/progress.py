"""Progress of a long step and its remaining time, for people: in Dagster's log, on a terminal, as plain lines, or on
the web page."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.targets import for_log

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
    """Return the estimate from the recent reports, oldest first; None before enough is known. The time before the first
    report is ignored: models are loaded and connections opened then. The moving average runs over the last `WINDOW_S`
    seconds, or over the last `WINDOW_REPORTS` reports if those take longer."""
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


EVERY_SECONDS = 3.0
SHOWN_EVERY_SECONDS = 0.5


class Advance(Protocol):
    """Called with what is done, of how much, and the share of the work where units differ in what they take."""

    def __call__(self, done: int, total: int, share: float | None = None) -> None: ...


class Reporter:
    """Told what is being done; this one says nothing."""

    def begin(self, partition: str, step: str) -> None:
        """A step of a partition starts."""

    def track(self, what: str, log: Callable[[str], object]) -> Advance:  # noqa: ARG002
        """Return a function to call with (done, in all) during `what`; `log` is the run's log."""
        return lambda done, total, share=None: None  # noqa: ARG005


class LogReporter(Reporter):
    """Writes to the log of the run, as the Dagster UI shows it; Dagster logs the start of each step itself."""

    def track(self, what: str, log: Callable[[str], object]) -> Advance:
        return _throttled(what, log)


class LineReporter(Reporter):
    """Plain lines on standard error, for a build without a terminal."""

    def begin(self, partition: str, step: str) -> None:
        print(for_log(f"{partition}: {step}"), file=sys.stderr, flush=True)

    def track(self, what: str, log: Callable[[str], object]) -> Advance:  # noqa: ARG002
        return _throttled(what, lambda line: print(f"  {for_log(line)}", file=sys.stderr, flush=True))


class ShownReporter(Reporter):
    """Tells another reporter, and operators who look at the first sync of a source."""

    def __init__(self, reporter: Reporter, noted: NotedPages) -> None:
        self._reporter, self._noted, self._step = reporter, noted, ""

    def begin(self, partition: str, step: str) -> None:
        self._step = step
        self._noted.show(step)
        self._reporter.begin(partition, step)

    def track(self, what: str, log: Callable[[str], object]) -> Advance:
        tell, shown = self._reporter.track(what, log), float("-inf")

        def advance(done: int, total: int, share: float | None = None) -> None:
            nonlocal shown
            if (now := time.monotonic()) - shown >= SHOWN_EVERY_SECONDS:
                shown = now
                self._noted.show(self._step, done=done, total=total)
            tell(done, total, share)

        return advance


class BarReporter(Reporter):
    """One line that is rewritten, with a bar if the step can be counted."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, pace="")
        self._label = ""

    def begin(self, partition: str, step: str) -> None:
        self._label = f"{partition}: {step}"
        self._bar.reset(self._task, description=self._label, total=None, pace="")

    def track(self, what: str, log: Callable[[str], object]) -> Advance:  # noqa: ARG002
        throughput = Throughput()

        def advance(done: int, total: int, share: float | None = None) -> None:
            throughput.report(done, total, share)
            self._bar.update(self._task, description=self._label, total=total, completed=done, pace=throughput.line)

        return advance

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw the line while the block runs."""
        with self._bar:
            yield


def _throttled(what: str, say: Callable[[str], object]) -> Advance:
    throughput = Throughput()
    said = time.monotonic()
    reported = -1

    def advance(done: int, total: int, share: float | None = None) -> None:
        nonlocal said, reported
        throughput.report(done, total, share)
        now = time.monotonic()
        if done == reported or (done < total and now - said < EVERY_SECONDS):
            return
        said, reported = now, done
        say(f"{what} {done}/{total}" + (f" ({throughput.line})" if throughput.line else ""))

    return advance
