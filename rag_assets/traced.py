"""Assets as spans of a trace: one for each, below it one for each batch of pages, chunks or texts.

Below `citelock build` an asset's span is below that of the build. Elsewhere Dagster runs assets in processes of their
own, which share nothing but the run: its id names the trace.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from rag_assets.progress import Advance, Reporter
from rag_serving.config.loading import ConfigError
from rag_serving.tracing.exporting import open_tracing, trace_of
from rag_serving.tracing.spans import ASSET, FIRST, LAST, PARTITION, RUN, TOTAL, UNIT, batch_span, is_on, span, trace_id

SERVICE = "citelock-build"
BATCH_S = 1.0
"""Seconds that a batch takes at least, but for the last one: what reports each page makes no span of each."""
Step = TypeVar("Step", bound=Callable[..., Any])


def traced(step: Step) -> Step:
    """Return an asset's function whose run is a span; without `tracing.endpoint` nothing else is done."""

    @wraps(step)
    def run(*given: Any, **named: Any) -> Any:
        context = given[0] if given else named["context"]
        _open(named.get("installation"))
        if not is_on():
            return step(*given, **named)
        if "reporter" in named:
            named["reporter"] = TracedReporter(named["reporter"])
        with asset_span(context.asset_key.to_user_string(), context.partition_key, context.run.run_id):
            return step(*given, **named)

    return run  # type: ignore[return-value]


@contextmanager
def asset_span(asset: str, partition: str, run_id: str) -> Iterator[None]:
    """Open the span of an asset: below the one that is open, else in the trace of its run."""
    attributes = {ASSET: asset, PARTITION: partition, RUN: run_id}
    named = hashlib.sha256(f"citelock run {run_id}".encode()).digest()[:16]
    if trace_id():
        with span(f"asset {asset}", attributes):
            yield
        return
    with trace_of(named), span(f"asset {asset}", attributes):
        yield


class TracedReporter(Reporter):
    """Tells another reporter, and makes a span of each batch that is done."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def begin(self, partition: str, step: str) -> None:
        self._reporter.begin(partition, step)

    def track(self, what: str, log: Callable[[str], object]) -> Advance:
        tell = self._reporter.track(what, log)
        before, started = 0, time.time_ns()

        def advance(done: int, total: int, share: float | None = None) -> None:
            nonlocal before, started
            tell(done, total, share)
            now = time.time_ns()
            if done <= before or (done < total and now - started < BATCH_S * 1e9):
                return
            batch_span(f"batch {what}", {UNIT: what, FIRST: before + 1, LAST: done, TOTAL: total}, started)
            before, started = done, now

        return advance


def _open(installation: Any) -> None:
    """Open tracing as configured; the step itself reports an unusable configuration."""
    if is_on() or installation is None:
        return
    try:
        open_tracing(installation.config().tracing, SERVICE)
    except ConfigError:
        return
