"""Pairs of several requests scored together, in one thread that owns the model.

Belongs here: the queue, what is merged, whose failure it is, whether the thread still gets on.
Does not belong here: batches for the device (`batches`), HTTP (`api`).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rag_serving.rerank_service.batches import ScoringError

Pair = TypeVar("Pair")
FAILING_AFTER = 3  # runs in a row: a device that broke stays broken until the process starts again


@dataclass
class Job(Generic[Pair]):
    """The pairs of one request, and where its scores go."""

    pairs: Sequence[Pair]
    scores: Future[list[float]] = field(default_factory=Future)


class MicroBatcher(Generic[Pair]):
    """Scores what comes in within `wait_s` of each other in one run of at most `max_pairs` pairs, unless one has more.

    A run that fails is repeated for each of its requests alone, once, so that nobody fails for somebody else.
    """

    def __init__(self, score: Callable[[Sequence[Pair]], list[float]], max_pairs: int, wait_s: float) -> None:
        self._score = score
        self._max_pairs = max_pairs
        self._wait_s = wait_s
        self._jobs: queue.SimpleQueue[Job[Pair] | None] = queue.SimpleQueue()
        self._held: Job[Pair] | None = None  # came in, but no longer fitted
        self._failed_runs = 0
        self._run_since: float | None = None
        self._thread = threading.Thread(target=self._work, name="rerank", daemon=True)
        self._thread.start()

    def submit(self, pairs: Sequence[Pair]) -> Future[list[float]]:
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

    def _gather(self) -> list[Job[Pair]]:
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

    def _run(self, jobs: Sequence[Job[Pair]]) -> None:
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
