"""The model of the sidecar while it is loaded, working, or failing.

Belongs here: loading in the background, a request's way from text to scores, the state that the probes report, the one
thread that owns the model and scores pairs of several requests together, what Prometheus reads. Does not belong here:
HTTP (`api`), tokens and tensors (`cross_encoder`), batches for the device (`batches`).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rag_serving.config.reranking import RerankService
from rag_serving.escaping.targets import one_line
from rag_serving.rerank_service.batches import ScoringError, score_all
from rag_serving.rerank_service.cross_encoder import Pair
from rag_serving.telemetry.series import PREFIX, Kind, Series, Unit, plain_text

State = Literal["loading", "ok", "failing"]

_log = logging.getLogger(__name__)


class Model(Protocol):
    """What the sidecar needs of a model; `cross_encoder.CrossEncoder` is one."""

    @property
    def max_seq_len(self) -> int: ...

    def encode(self, query: str, passages: Sequence[str], max_seq_len: int) -> list[Pair]: ...

    def score(self, pairs: Sequence[Pair]) -> list[float]: ...


class NotReadyError(Exception):
    """The model cannot be used now; the message says why."""


class Engine:
    """Loads the model in a thread of its own, then scores in another. Safe to use from several threads."""

    def __init__(
        self, open_model: Callable[[], Model], settings: RerankService, meters: Meters, on_failure: Callable[[], None]
    ) -> None:
        """`on_failure` is called when the model cannot be opened: nothing will ever be scored."""
        self._open_model = open_model
        self._settings = settings
        self._meters = meters
        self._on_failure = on_failure
        self._model: Model | None = None
        self._batcher: MicroBatcher[Pair] | None = None
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to load; returns at once."""
        threading.Thread(target=self._load, name="rerank-load", daemon=True).start()

    @property
    def state(self) -> State:
        if self.problem or (self._batcher and self._batcher.is_failing(self._settings.timeout_s)):
            return "failing"
        return "ok" if self._batcher else "loading"

    @property
    def max_seq_len(self) -> int:
        """Tokens of a pair that the model reads.

        Raises:
            NotReadyError: there is no model yet.
        """
        return self._ready()[0].max_seq_len

    def submit(self, query: str, passages: Sequence[str], max_seq_len: int) -> Future[list[float]]:
        """Return the scores of the passages in their order, later.

        Raises:
            NotReadyError: there is no model yet.
        """
        model, batcher = self._ready()
        return batcher.submit(model.encode(query, passages, max_seq_len))

    def close(self) -> None:
        """Finish what was submitted."""
        if self._batcher:
            self._batcher.close(self._settings.timeout_s)

    def _ready(self) -> tuple[Model, MicroBatcher[Pair]]:
        if self._model is None or self._batcher is None:
            raise NotReadyError(self.problem or "the model is being loaded")
        return self._model, self._batcher

    def _load(self) -> None:
        try:
            model = self._open_model()
            model.score(model.encode("warm", ["warm"], model.max_seq_len))
        except Exception as error:  # whatever a library raises, the probes must tell it
            self.problem = one_line(error, 1000) or type(error).__name__
            self._on_failure()
            return
        self._model = model
        self._batcher = MicroBatcher(self._run, self._settings.max_candidates, self._settings.batch_wait_ms / 1000)

    def _run(self, pairs: Sequence[Pair]) -> list[float]:
        model, _ = self._ready()
        lengths = [len(pair["input_ids"]) for pair in pairs]
        started = time.perf_counter()
        try:
            scores = score_all(pairs, lengths, model.score, self._settings.batch_size, self._settings.batch_tokens)
        except Exception as error:
            self._meters.failures.inc()
            _log.error("a run of %d pairs failed: %s", len(pairs), error)
            raise
        self._meters.run_seconds.observe(time.perf_counter() - started)
        self._meters.run_pairs.observe(len(pairs))
        self._meters.pairs.inc(len(pairs))
        self._meters.tokens.inc(sum(lengths))
        return scores


AnyPair = TypeVar("AnyPair")
FAILING_AFTER = 3  # runs in a row: a device that broke stays broken until the process starts again


@dataclass
class Job(Generic[AnyPair]):
    """The pairs of one request, and where its scores go."""

    pairs: Sequence[AnyPair]
    scores: Future[list[float]] = field(default_factory=Future)


class MicroBatcher(Generic[AnyPair]):
    """Scores what comes in within `wait_s` of each other in one run of at most `max_pairs` pairs, unless one has more.

    A run that fails is repeated for each of its requests alone, once, so that nobody fails for somebody else.
    """

    def __init__(self, score: Callable[[Sequence[AnyPair]], list[float]], max_pairs: int, wait_s: float) -> None:
        self._score = score
        self._max_pairs = max_pairs
        self._wait_s = wait_s
        self._jobs: queue.SimpleQueue[Job[AnyPair] | None] = queue.SimpleQueue()
        self._held: Job[AnyPair] | None = None  # came in, but no longer fitted
        self._failed_runs = 0
        self._run_since: float | None = None
        self._thread = threading.Thread(target=self._work, name="rerank", daemon=True)
        self._thread.start()

    def submit(self, pairs: Sequence[AnyPair]) -> Future[list[float]]:
        """Return the scores of the pairs in their order, later; ScoringError where the model fails."""
        job = Job(pairs)
        self._jobs.put(job)
        return job.scores

    def is_failing(self, longest_run_s: float) -> bool:
        """Return whether the last runs all failed, or one has been under way for longer than any should be."""
        since = self._run_since
        return self._failed_runs >= FAILING_AFTER or (since is not None and time.monotonic() - since > longest_run_s)

    def close(self, timeout_s: float = 30.0) -> None:
        """Score what was submitted before, then end the thread."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while jobs := self._gather():
            self._run_since = time.monotonic()
            self._run([job for job in jobs if job.scores.set_running_or_notify_cancel()])
            self._run_since = None

    def _gather(self) -> list[Job[AnyPair]]:
        """Return the next job and those that come in with it; empty at the end."""
        first = self._held or self._jobs.get()
        self._held = None
        if first is None:
            return []
        jobs, pairs = [first], len(first.pairs)
        until = time.monotonic() + self._wait_s
        while pairs < self._max_pairs:
            try:
                job = self._jobs.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)  # for the next round
                break
            if pairs + len(job.pairs) > self._max_pairs:
                self._held = job
                break
            jobs.append(job)
            pairs += len(job.pairs)
        return jobs

    def _run(self, jobs: Sequence[Job[AnyPair]]) -> None:
        if not jobs:
            return
        try:
            scores = self._score([pair for job in jobs for pair in job.pairs])
        except Exception as error:  # libraries fail in errors of any class; the thread must outlive them
            if len(jobs) > 1:
                for job in jobs:
                    self._run([job])
                return
            self._failed_runs += 1
            failure = error if isinstance(error, ScoringError) else ScoringError(f"{type(error).__name__}: {error}")
            jobs[0].scores.set_exception(failure)
            return
        self._failed_runs = 0
        start = 0
        for job in jobs:
            with suppress(InvalidStateError):
                job.scores.set_result(scores[start : start + len(job.pairs)])
            start += len(job.pairs)


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def _series(name: str, kind: Kind, text: str, unit: Unit = "count", **labels: str) -> Series:
    return Series(f"rerank_{name}", kind, "The reranker sidecar", text, labels, unit, has_tenant=False)


SIDECAR_SERIES: Mapping[str, Series] = {
    series.name: series
    for series in (
        _series("requests", "counter", "Requests to `/rerank`.", status=""),
        _series("request_seconds", "histogram", "From the body to the scores, for requests that got some.", "seconds"),
        _series("requests_in_progress", "gauge", "Requests not answered yet."),
        _series("pairs", "counter", "Pairs of query and passage scored."),
        _series("tokens", "counter", "Tokens scored, without padding."),
        _series("run_pairs", "histogram", "Pairs scored in one run of the model."),
        _series("run_seconds", "histogram", "One run of the model.", "seconds"),
        _series("failed_runs", "counter", "Runs that gave no scores."),
    )
}


class Meters:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter("rerank_requests")
        self.seconds = self._histogram("rerank_request_seconds", _SECONDS)
        self.in_progress = self._gauge("rerank_requests_in_progress")
        self.pairs = self._counter("rerank_pairs")
        self.tokens = self._counter("rerank_tokens")
        self.run_pairs = self._histogram("rerank_run_pairs", _PAIRS)
        self.run_seconds = self._histogram("rerank_run_seconds", _SECONDS)
        self.failures = self._counter("rerank_failed_runs")

    def _counter(self, name: str) -> Counter:
        series = SIDECAR_SERIES[name]
        return Counter(f"{PREFIX}{name}", plain_text(series), series.all_labels, registry=self._registry)

    def _gauge(self, name: str) -> Gauge:
        return Gauge(f"{PREFIX}{name}", plain_text(SIDECAR_SERIES[name]), registry=self._registry)

    def _histogram(self, name: str, buckets: Sequence[float]) -> Histogram:
        text = plain_text(SIDECAR_SERIES[name])
        return Histogram(f"{PREFIX}{name}", text, registry=self._registry, buckets=buckets)

    def exposition(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        return generate_latest(self._registry)
