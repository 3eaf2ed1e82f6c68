"""A build whose missing texts are embedded by workers: it enqueues them, waits, and takes their vectors. Batches are
cut as the build itself would cut them, the longest texts first, by the number of texts and of tokens. The bound of the
queue delays the build (backpressure): the rest is enqueued as jobs are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from citelock_scale.embedding_jobs.job_files import (
    JOBS_SEAL,
    CachedResults,
    FolderFiles,
    JobResults,
    ObjectFiles,
    Payloads,
    SharedResults,
)
from citelock_scale.embedding_jobs.queue import Batch, EmbeddingText, JobQueue, QueueState
from citelock_scale.embedding_jobs.worker import Worker, WorkerRegister
from citelock_scale.object_home.home import object_home
from rag_assets.embedding_usage import (
    BuildVectors,
    DeadTextsError,
    JobsError,
    PageUsage,
    UsageCounter,
    WaitFigures,
    forget_usage,
    open_cache,
    read_usage,
    since,
)
from rag_assets.state.content_cache import (
    EmbeddedTexts,
    EmbeddingObserver,
    Progress,
    VectorCache,
    longest_first,
    pages_by_key,
    vector_key,
)
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.sections import Jobs
from rag_serving.hooks import open_budgets
from rag_serving.models.protocols import Embedder, ModelError


def open_worker(config: Config, queue: JobQueue, embedder: Embedder, tenant: str | None = None) -> Worker:
    """Return a worker on an installation's queue; `tenant`: take only this one's jobs. Raises ModelError: the server
    that gives the model's name does not answer. Raises ObjectHomeError: the store of a shared home cannot be used."""
    budgets = open_budgets(config, config.tenants if tenant is None else [tenant])
    home, usage = object_home(config), UsageCounter(config.embedding)
    results: JobResults = CachedResults(Store(config.home), embedder.name)
    if home is not None:
        results = SharedResults(ObjectFiles(home.objects, Seal(config.home, JOBS_SEAL), "vectors"), queue)
    return Worker(queue, open_payloads(config), results, embedder, usage, budgets, tenant)


def open_payloads(config: Config) -> Payloads:
    """Return the texts of jobs: files of the home, or objects of the store that is the home. Raises ObjectHomeError:
    the store cannot be used."""
    home = object_home(config)
    if home is None:
        return Payloads(FolderFiles(Store(config.home)))
    return Payloads(ObjectFiles(home.objects, Seal(config.home, JOBS_SEAL), "texts"))


@contextmanager
def by_workers(
    config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver, tell: Callable[[str], object]
) -> Iterator[BuildVectors]:
    """Yield an embedder by workers for a tenant's build: the entry point `workers` of `citelock.embedding`."""
    queue = JobQueue.of(config)
    helper = open_worker(config, queue, embedder, tenant)
    try:
        state = queue.state(tenant, embedder.name)
        cache = open_cache(config, tenant, embedder)
        helper.payloads.sweep(tenant, [*state.open, *state.dead])
        helper.results.sweep(cache, tenant)
        with queue.database.writing() as connection:
            forget_usage(connection, config.telemetry.retention_days, queue.clock())

        def usage() -> dict[str, PageUsage]:
            with queue.database.reading() as connection:
                return read_usage(connection, tenant, embedder.name)

        before = usage()
        vectors = WorkerVectors(queue, cache, helper, tell, observer)
        yield BuildVectors(vectors, lambda: since(usage(), before), vectors.figures)
    except JobsError as error:
        raise ModelError(str(error)) from error
    finally:
        helper.close()
        queue.database.close()


CHARS_PER_TOKEN = 4
FIRST_LOOK_S, LOOK_S = 0.05, 0.5
"""Seconds between two looks at the queue: more while nothing is done."""
_NAMED = 3
Tell = Callable[[str], object]


class Pending:
    """The texts of one call, the longest first, none twice."""

    def __init__(self, tenant: str, model: str, items: Sequence[EmbeddingText], settings: Jobs) -> None:
        self.model, self.items = model, {item.key: item for item in items}
        self._tenant, self._settings = tenant, settings
        self._unasked = dict.fromkeys(self.items)  # in no job so far, in order
        self._open: set[str] = set()
        self._over: set[str] = set()
        self._room = settings.max_waiting
        self.told_held_up = False

    @property
    def done(self) -> int:
        """The number of texts without a job: embedded, or put aside."""
        return len(self._over)

    @property
    def left(self) -> int:
        """The number of texts not enqueued yet: the bound of the queue delays them."""
        return len(self._unasked)

    @property
    def share(self) -> float:
        """The share of all characters that is done."""
        work = sum(len(item.text) for item in self.items.values())
        return sum(len(self.items[key].text) for key in self._over) / work if work else 1.0

    def note(self, state: QueueState) -> list[EmbeddingText]:
        """Take in the tenant's state in the queue; return the texts finished since the last time."""
        is_open = {key for keys in state.open.values() for key in keys} & self.items.keys()
        is_dead = {key for failure in state.dead.values() for key in failure.keys} & self.items.keys()
        for key in is_open | is_dead:
            self._unasked.pop(key, None)  # another build's job, or one of this build before it was killed, has it
        over = (self._open | is_dead) - is_open - self._over
        self._open = is_open | (self._open - over)
        self._over = (self._over | over) - is_open
        self._room = max(0, self._settings.max_waiting - (len(state.open) - state.running))
        return [self.items[key] for key in sorted(over)]

    def batches(self) -> list[Batch]:
        """Return batches of the texts not enqueued yet, as many as the queue has room for."""
        parts: list[list[str]] = []
        tokens = 0
        for key in self._unasked:
            own = len(self.items[key].text) // CHARS_PER_TOKEN
            is_full = tokens + own > self._settings.tokens_per_job
            if not parts or is_full or len(parts[-1]) == self._settings.texts_per_job:
                if len(parts) == self._room:
                    break
                parts.append([])
                tokens = 0
            parts[-1].append(key)
            tokens += own
        together = [tuple(self.items[key] for key in part) for part in parts]
        sizes = [max(1, sum(len(item.text) for item in items) // CHARS_PER_TOKEN) for items in together]
        return [Batch(self._tenant, self.model, *each) for each in zip(together, sizes, strict=True)]

    def accept(self, batches: Sequence[Batch]) -> None:
        """Note batches as enqueued."""
        for batch in batches:
            for item in batch.items:
                self._unasked.pop(item.key, None)
                self._open.add(item.key)

    def take_back(self, keys: Sequence[str]) -> None:
        """Note texts as in no job any more: they are enqueued again."""
        for key in keys:
            if key in self.items:
                self._open.discard(key)
                self._over.discard(key)
                self._unasked[key] = None


class WorkerVectors:
    """The vectors of one tenant, embedded by workers."""

    def __init__(
        self,
        queue: JobQueue,
        cache: VectorCache,
        helper: Worker,
        tell: Tell,
        observer: EmbeddingObserver | None = None,
    ) -> None:
        """`helper`: does the tenant's jobs in this process if there is no worker; `tell`: the run's log."""
        self._queue, self._cache, self._payloads, self._results = queue, cache, helper.payloads, helper.results
        self._helper, self._tell, self._observer = helper, tell, observer
        self._workers = WorkerRegister(queue)
        self._tenant = helper.tenant or ""
        self._written: dict[str, int] = {}  # jobs whose texts this build wrote again, with their tries
        self.figures = WaitFigures()

    def embed(
        self,
        embedder: Embedder,
        texts: Sequence[str],
        progress: Progress | None = None,
        pages: Sequence[str] = (),
    ) -> EmbeddedTexts:
        """Return the vectors of texts, like `VectorCache.embed`, once workers have embedded the missing ones. Raises
        DeadTextsError: some were put aside. Raises BudgetError: the tenant's budget is spent; enqueued jobs stay.
        Raises ModelError: there is no progress, or the database is away for longer than `jobs.stalled_s`."""
        model = self._cache.model
        keys = [vector_key(model, text) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        missing = longest_first(by_key, self._known(by_key))
        page_of = pages_by_key(keys, pages)
        items = [EmbeddingText(key, by_key[key], page_of.get(key, "")) for key in missing]
        if self._observer:
            self._observer.expect([item.page_id for item in items])
        if items:
            self._wait(Pending(self._tenant, model, items, self._queue.settings), progress)
            if lost := set(missing) - self._known({key: by_key[key] for key in missing}):
                self._tell(f"the vectors of {len(lost)} texts were lost: this build embeds them itself")
        embedded = self._cache.embed(embedder, texts)
        return EmbeddedTexts(embedded.vectors, embedded.keys, len(missing))

    def _wait(self, pending: Pending, progress: Progress | None) -> None:
        began = time.monotonic()
        patience = _WorkerPatience(self._queue.settings.stalled_s, self._queue.settings.without_workers_s)
        while True:
            try:
                state = self._mended(pending, self._queue.state(self._tenant, pending.model))
                self._report(pending, pending.note(state), progress)
                patience.note(pending.done, state)
                if pending.done == len(pending.items):
                    break
                self._helper.check_budget(self._tenant)
                self._enqueue(pending)
                if self._help(patience):
                    continue
            except JobsError as error:
                patience.last_reason = str(error)
            patience.refuse_stalled(pending)
            pause_s = min(LOOK_S, FIRST_LOOK_S + patience.unmoved_s)
            time.sleep(pause_s)
            self.figures.held_up_s += pause_s if pending.left else 0.0
        self.figures.waited_s += time.monotonic() - began
        self._refuse_dead(pending, state)

    def _known(self, keys: dict[str, str]) -> set[str]:
        """Return those of some keys that are in the cache, including the workers' results so far."""
        known = self._cache.known(keys)
        if len(known) == len(keys):
            return known
        has_more = self._results.collect(self._cache, self._tenant, keys.keys() - known)
        return self._cache.known(keys) if has_more else known

    def _mended(self, pending: Pending, state: QueueState) -> QueueState:
        """Write the texts of jobs that lack them again, once for each try; return the state as it is then."""
        news = {job: tries for job, tries in state.lacking.items() if self._written.get(job) != tries}
        for job, tries in news.items():
            keys = state.open[job] if job in state.open else state.dead[job].keys
            needed = [key for key in keys if key in pending.items]
            is_first = job not in self._written
            if needed:
                self._written[job] = tries
            if len(needed) == len(keys):
                self._payloads.save(self._tenant, pending.model, [pending.items[key] for key in keys])
                if job in state.dead and is_first:
                    self._queue.retry(self._tenant, [job])
            elif needed:  # nobody has the other texts any more
                self._queue.withdraw(self._tenant, [job])
                pending.take_back(needed)
        return self._queue.state(self._tenant, pending.model) if news else state

    def _report(self, pending: Pending, finished: Sequence[EmbeddingText], progress: Progress | None) -> None:
        if finished and self._observer:
            self._observer.count([(item.page_id, item.text) for item in finished])
        if finished and progress:
            progress(pending.done, len(pending.items), pending.share)

    def _enqueue(self, pending: Pending) -> None:
        batches = pending.batches()
        for batch in batches:
            self._payloads.save(self._tenant, pending.model, batch.items)
        accepted = set(self._queue.enqueue(batches))
        self.figures.jobs += len(accepted)
        pending.accept([batch for batch in batches if batch.id in accepted])
        if pending.left and not pending.told_held_up:
            pending.told_held_up = True
            most = self._queue.settings.max_waiting
            self._tell(f"the queue of {self._tenant} is full ({most} jobs): {pending.left} texts wait to be enqueued")

    def _help(self, patience: _WorkerPatience) -> bool:
        """Do a job if no worker came for long enough; return whether there was a job."""
        living = self._workers.living()
        if not patience.lacks_workers(any(worker.model == self._cache.model for worker in living)):
            return False
        others = sorted({worker.model for worker in living})
        known = f" (there are some for {', '.join(others)})" if others else ""
        lacking = f"no worker embeds with {self._cache.model}{known}"
        if not patience.told_lacking:
            patience.told_lacking = True
            self._tell(f"{lacking}: this build embeds itself until one comes")
        if self._helper.step():
            self.figures.own_jobs += 1
            return True
        return False

    def _refuse_dead(self, pending: Pending, state: QueueState) -> None:
        dead = {key: failure.reason for failure in state.dead.values() for key in failure.keys if key in pending.items}
        if not dead:
            return
        self.figures.dead_letters += len(dead)
        pages = sorted({pending.items[key].page_id for key in dead})
        named = ", ".join(pages[:_NAMED]) + (f" and {len(pages) - _NAMED} more" if len(pages) > _NAMED else "")
        raise DeadTextsError(
            f"{len(dead)} texts of the pages {named} could not be embedded: {next(iter(dead.values()))}; see `citelock "
            "jobs list --state dead`, mend the cause, and let them be tried again with `citelock jobs retry`"
        )


class _WorkerPatience:
    """The time without progress, and the time without a worker."""

    def __init__(self, stalled_s: float, without_workers_s: float) -> None:
        self._stalled_s, self._without_workers_s = stalled_s, without_workers_s
        self._moved_at = self._worker_at = time.monotonic()
        self._seen: tuple[int, float | None] = (0, None)
        self.last_reason: str | None = None
        self.told_lacking = False

    def note(self, done: int, state: QueueState) -> None:
        """Take in how much is done; a job of any tenant shows that the queue moves."""
        self.last_reason = state.last_reason
        if self._seen != (done, state.last_finished_at):
            self._seen = done, state.last_finished_at
            self._moved_at = time.monotonic()

    @property
    def unmoved_s(self) -> float:
        """The time without progress."""
        return time.monotonic() - self._moved_at

    def lacks_workers(self, has_worker: bool) -> bool:
        """Return whether there was no worker for long enough."""
        now = time.monotonic()
        if has_worker:
            self._worker_at, self.told_lacking = now, False
        return now - self._worker_at >= self._without_workers_s

    def refuse_stalled(self, pending: Pending) -> None:
        """Raise ModelError if nothing was done for too long."""
        if self.unmoved_s < self._stalled_s:
            return
        why = f": {self.last_reason}" if self.last_reason else "; see the workers' logs"
        raise ModelError(
            f"no text was embedded for {self._stalled_s:g} s, {len(pending.items) - pending.done} are still to come"
            f"{why}. Their jobs stay; run the build again"
        )
