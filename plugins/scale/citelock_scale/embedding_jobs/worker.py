"""A worker: takes the job whose turn it is, embeds its texts, keeps their vectors where the build finds them. A worker
may be killed at any moment: its lease ends, and another one takes the job; vectors that were kept are not computed
again. One that was only slow and lost its job changes nothing of the job; its vectors are kept, and what they took is
counted."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, insert, select, update

from citelock_scale.embedding_jobs.job_files import JobResults, PayloadError, Payloads
from citelock_scale.embedding_jobs.queue import EmbeddingText, Failure, JobClaim, JobQueue
from rag_assets.embedding_usage import JobsError, PageUsage, UsageCounter
from rag_serving.artifacts.store import StoreError
from rag_serving.hooks import BudgetError, TenantBudget
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.telemetry.usage import WORKERS

BEATS_A_LEASE = 4
_PROBE = "ready"
IDLE_S = 0.25
"""Seconds between two looks at a queue in which nothing is due."""
AWAY_S = 5.0
"""Seconds that a job waits, and its worker, when the model, the database or the disk is away."""
SPENT_S = 60.0
"""Seconds that a job of a tenant whose budget is spent waits."""

_log = logging.getLogger(__name__)


class Heartbeat:
    """Renews a job's lease, and the worker's own sign of life, until the block is left."""

    def __init__(self, queue: JobQueue, claim: JobClaim, sign: Callable[[], object]) -> None:
        """`sign`: gives the worker's own sign of life."""
        self._queue, self._claim, self._sign = queue, claim, sign
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.is_lost = False

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        pause_s = self._queue.settings.lease_s / BEATS_A_LEASE
        while not self._ended.wait(pause_s):
            try:
                if not self._queue.renew(self._claim):
                    self.is_lost = True
                    return
                self._sign()
            except JobsError as error:  # the next beat may be in time
                _log.warning("a lease could not be renewed: %s", error)


class ModelAwayError(ModelError):
    """The model embeds nothing at all; no text is to blame."""


class IsolatedVectors(NamedTuple):
    """Texts that were embedded with their vectors [n, d], and those that were not."""

    items: list[EmbeddingText]
    vectors: list[NDArray[np.float32]]
    failures: list[Failure]


def embed_isolated(embedder: Embedder, items: Sequence[EmbeddingText]) -> IsolatedVectors:
    """Return the vectors of a batch; a failing one is halved until the refused texts are isolated. With p refused texts
    of n, about 2 p log2(n) calls are made, each beside one for a harmless text. Raises ModelAwayError: it does not
    embed a harmless text either."""
    if not items:
        return IsolatedVectors([], [], [])
    try:
        vectors = embedder.embed_documents([item.text for item in items])
        # Raise if there are not so many vectors of length one: others would be as good as absent in the cache
        count = len(items)
        if vectors.ndim != 2 or len(vectors) != count:
            raise ModelError(f"the model gave vectors of shape {vectors.shape} for {count} texts")
        if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=5e-4):
            raise ModelError("the model gave a vector that has not length one, or is not a number")
    except Exception as error:  # a library's own, of a local model, as well
        try:
            embedder.embed_documents([_PROBE])
        except Exception as away:
            raise ModelAwayError(str(away) or type(away).__name__) from away
        if len(items) == 1:
            return IsolatedVectors([], [], [Failure((items[0].key,), str(error) or type(error).__name__)])
        middle = len(items) // 2
        first, second = (embed_isolated(embedder, half) for half in (items[:middle], items[middle:]))
        return IsolatedVectors(
            first.items + second.items, first.vectors + second.vectors, first.failures + second.failures
        )
    return IsolatedVectors([*items], [*vectors], [])


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that gave a sign of life. `note`: why it does no work, if that is so."""

    name: str
    model: str
    seen_at: float
    note: str | None


def new_name() -> str:
    """Return a name for a worker of this process: machine, process number, and something that no other one has."""
    return f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"


class WorkerRegister:
    """The workers of one installation. Every method may raise JobsError."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def sign(self, name: str, model: str, note: str | None = None) -> None:
        """Note that a worker lives."""
        now = self._queue.clock()
        values = {"model": model, "seen_at": now, "note": note}
        with self._queue.database.writing() as connection:
            connection.execute(delete(WORKERS).where(WORKERS.c.seen_at < now - 10 * self._queue.settings.lease_s))
            if not connection.execute(update(WORKERS).where(WORKERS.c.name == name).values(values)).rowcount:
                connection.execute(insert(WORKERS).values(name=name, started_at=now, **values))

    def leave(self, name: str) -> None:
        """Note that a worker has ended."""
        with self._queue.database.writing() as connection:
            connection.execute(delete(WORKERS).where(WORKERS.c.name == name))

    def living(self) -> list[WorkerInfo]:
        """Return the workers that gave a sign of life within a lease's time."""
        since = self._queue.clock() - self._queue.settings.lease_s
        with self._queue.database.reading() as connection:
            rows = connection.execute(select(WORKERS).where(WORKERS.c.seen_at >= since)).all()
        return [WorkerInfo(row.name, row.model, row.seen_at, row.note) for row in rows]


@dataclass
class Tally:
    """A worker's totals."""

    jobs: int = 0
    texts: int = 0
    failed: int = 0
    lost: int = 0


class Worker:
    """One worker, which has one job at a time. Several of them share a queue and a home, in processes of their own."""

    def __init__(
        self,
        queue: JobQueue,
        payloads: Payloads,
        results: JobResults,
        embedder: Embedder,
        usage: UsageCounter,
        budgets: Mapping[str, TenantBudget],
        tenant: str | None = None,
    ) -> None:
        """`tenant`: take only this one's jobs; None: those of all, in turn. Raises ModelError: the server that gives
        the model's name does not answer."""
        self.name, self.model, self.tally = new_name(), embedder.name, Tally()
        self.payloads, self.results = payloads, results
        self._queue, self._embedder, self._usage, self._budgets = queue, embedder, usage, budgets
        self._register = None if tenant else WorkerRegister(queue)  # one tenant's helps no other build
        self._signed_at = float("-inf")
        self.tenant = tenant

    def run(self, stop: Event, until_idle: bool = False) -> Tally:
        """Work until stopped, or until nothing is due; a job under way is completed first."""
        try:
            while not stop.is_set():
                try:
                    self._sign()
                    has_worked = self._try_step(stop)
                except JobsError as error:
                    _log.warning("%s", error)
                    stop.wait(AWAY_S)
                    continue
                if not has_worked:
                    if until_idle:
                        break
                    stop.wait(IDLE_S)
        finally:
            self._leave()
        return self.tally

    def _try_step(self, stop: Event) -> bool:
        try:
            return self.step()
        except ModelError as error:
            self._sign(str(error))
            _log.warning("the job waits: %s", error)
            stop.wait(AWAY_S)
            return True

    def step(self) -> bool:
        """Do a job if one is due; return whether there was one. Raises JobsError: the database cannot be used; the job
        that was begun goes to another worker when its lease ends. Raises ModelError: the model, or the tenant's disk or
        store, is away; the job was given back, no text is to blame."""
        claim = self._queue.claim(self.name, self.model, self.tenant)
        if claim is None:
            return False
        try:
            items = self.payloads.load(claim)
            if claim.attempts >= self._queue.settings.attempts and len(items) > 1:
                self._halve(claim, items)
            else:
                self._work(claim, items)
        except PayloadError as error:  # the build that needs the texts writes them again
            _log.warning("job %s of %s: %s", claim.id, claim.tenant, error)
            self._queue.finish(claim, [], [Failure(claim.keys, str(error))])
            self.tally.failed += len(claim.keys)
        except BudgetError as error:  # other tenants' jobs go on
            self._queue.give_back(claim, str(error), SPENT_S)
        except (ModelError, OSError, StoreError) as error:
            self._queue.give_back(claim, str(error), AWAY_S)
            raise ModelError(str(error)) from error
        return True

    def close(self) -> None:
        """Write pending counts of budgets."""
        for budget in self._budgets.values():
            budget.close()

    def check_budget(self, tenant: str) -> None:
        """Look whether a tenant may have more embedded. Raises BudgetError: not now."""
        if budget := self._budgets.get(tenant):
            budget.check()

    def _work(self, claim: JobClaim, items: list[EmbeddingText]) -> None:
        self.check_budget(claim.tenant)
        with Heartbeat(self._queue, claim, self._sign) as heartbeat:
            known = self.results.known(claim)
            vectors = embed_isolated(self._embedder, [item for item in items if item.key not in known])
            # Even if the job was lost: its new worker need not compute them.
            self.results.keep(claim, [item.key for item in vectors.items], vectors.vectors)
        usage = self._usage.of([(item.page_id, item.text) for item in vectors.items])
        if budget := self._budgets.get(claim.tenant):
            budget.spend("embedding", sum(page.tokens for page in usage), sum(page.cost for page in usage))
        if heartbeat.is_lost:
            self._note_lost(claim, usage)
        else:
            self._finish(claim, items, vectors, usage)

    def _note_lost(self, claim: JobClaim, usage: list[PageUsage]) -> None:
        """Count the usage of a job that another worker has now."""
        self.tally.lost += 1
        self._queue.note_usage(claim, usage)

    def _finish(
        self, claim: JobClaim, items: list[EmbeddingText], vectors: IsolatedVectors, usage: list[PageUsage]
    ) -> None:
        by_key = {item.key: item for item in items}
        for failure in vectors.failures:
            self.payloads.save(claim.tenant, claim.model, [by_key[key] for key in failure.keys])
        if not self._noted(claim, usage, vectors.failures):
            self._note_lost(claim, usage)
            return
        if not _is_itself(claim, vectors.failures):
            self.payloads.remove(claim)
        self.tally.jobs += 1
        self.tally.texts += len(vectors.items)
        self.tally.failed += len(vectors.failures)

    def _noted(self, claim: JobClaim, usage: list[PageUsage], failures: list[Failure]) -> bool:
        """Record the outcome of a job; wait for an unavailable database as long as a lease: the usage is known here
        alone."""
        until = time.monotonic() + self._queue.settings.lease_s
        while True:
            try:
                return self._queue.finish(claim, usage, failures)
            except JobsError:
                if time.monotonic() > until:
                    raise
                time.sleep(IDLE_S)

    def _halve(self, claim: JobClaim, items: list[EmbeddingText]) -> None:
        """Split a job whose workers ended too often, to isolate the text that ends them."""
        halves = [items[: len(items) // 2], items[len(items) // 2 :]]
        for half in halves:
            self.payloads.save(claim.tenant, claim.model, half)
        if self._queue.split(claim, [[item.key for item in half] for half in halves]):
            self.payloads.remove(claim)

    def _sign(self, note: str | None = None) -> None:
        """Give a sign of life, unless the last one is not old."""
        now = time.monotonic()
        is_old = now - self._signed_at >= self._queue.settings.lease_s / BEATS_A_LEASE
        if self._register and (is_old or note is not None):
            self._register.sign(self.name, self.model, note)
            self._signed_at = now

    def _leave(self) -> None:
        try:
            if self._register:
                self._register.leave(self.name)
        except JobsError as error:
            _log.warning("%s", error)


def _is_itself(claim: JobClaim, failures: list[Failure]) -> bool:
    """Return whether the retried job is the same one, whose texts are still needed."""
    return any(set(failure.keys) == set(claim.keys) for failure in failures)
