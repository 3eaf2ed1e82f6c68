"""Progress of a long step, for people: in Dagster's log, on a terminal, as plain lines, or on the web page.

Belongs here: the listener, the frequency, and the reported rate and remaining time.
Does not belong here: the steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rag_assets.state.throughput import Throughput
from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.targets import for_log

EVERY_SECONDS = 3.0
SHOWN_EVERY_SECONDS = 0.5


class Advance(Protocol):
    """Called with what is done, of how much, and the share of the work where units differ in what they take."""

    def __call__(self, done: int, total: int, share: float | None = None) -> None: ...


class Reporter(Protocol):
    """Told what is being done."""

    def begin(self, partition: str, step: str) -> None:
        """A step of a partition starts."""
        ...

    def track(self, what: str, log: Callable[[str], object]) -> Advance:
        """Return a function to call with (done, in all) during `what`; `log` is the run's log."""
        ...


class LogReporter:
    """Writes to the log of the run, as the Dagster UI shows it."""

    def begin(self, partition: str, step: str) -> None:
        """Dagster logs the start of each step itself."""

    def track(self, what: str, log: Callable[[str], object]) -> Advance:
        return _throttled(what, log)


class LineReporter:
    """Plain lines on standard error, for a build without a terminal."""

    def begin(self, partition: str, step: str) -> None:
        print(for_log(f"{partition}: {step}"), file=sys.stderr, flush=True)

    def track(self, what: str, log: Callable[[str], object]) -> Advance:  # noqa: ARG002
        return _throttled(what, lambda line: print(f"  {for_log(line)}", file=sys.stderr, flush=True))


class SilentReporter:
    """Says nothing."""

    def begin(self, partition: str, step: str) -> None:
        """Nobody listens."""

    def track(self, what: str, log: Callable[[str], object]) -> Advance:  # noqa: ARG002
        return lambda done, total, share=None: None  # noqa: ARG005


class ShownReporter:
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


class BarReporter:
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
    """Says the first, the last, and every few seconds one between."""
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
