"""What gives a build its vectors: this process, or workers, as the configuration says.

Belongs here: putting the parts together. Does not belong here: the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rag_assets.embedding_jobs.database import JobsDatabase
from rag_assets.embedding_jobs.job_files import SEAL_PURPOSE as JOBS_SEAL
from rag_assets.embedding_jobs.job_files import FolderFiles, ObjectFiles
from rag_assets.embedding_jobs.payloads import FOLDER, Payloads
from rag_assets.embedding_jobs.queue import JobQueue
from rag_assets.embedding_jobs.records import JobsError
from rag_assets.embedding_jobs.results import CachedResults, Results, SharedResults
from rag_assets.embedding_jobs.usage import UsageCounter, UsageLog
from rag_assets.embedding_jobs.usage_rows import PageUsage, forget_usage, read_usage, since
from rag_assets.embedding_jobs.waiting import WaitFigures, WorkerVectors
from rag_assets.embedding_jobs.worker import JobShelf, MeteredModel, Worker
from rag_assets.state.vector_cache import SEAL_PURPOSE, EmbeddingObserver, TextVectors, VectorCache
from rag_serving.artifacts.signatures import Seal
from rag_serving.artifacts.store import Store
from rag_serving.budgets.opening import open_budgets
from rag_serving.config.loading import Config
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.object_home.shared_home import shared_home


@dataclass
class BuildVectors:
    """What a build embeds with, and what that took. `waits` is None where the build embeds itself."""

    vectors: TextVectors
    usage: Callable[[], dict[str, PageUsage]]
    waits: WaitFigures | None


class _Observers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[EmbeddingObserver]) -> None:
        self._observers = observers

    def expect(self, pages: Sequence[str]) -> None:
        for observer in self._observers:
            observer.expect(pages)

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        for observer in self._observers:
            observer.count(computed)

    def flush(self) -> None:
        for observer in self._observers:
            observer.flush()


@contextmanager
def build_vectors(
    config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver, tell: Callable[[str], object]
) -> Iterator[BuildVectors]:
    """Yield what embeds the texts of a tenant's build, and counts what it takes; `tell` is the run's log.

    Raises:
        ModelError: the database of jobs cannot be used.
        SecretError: the installation's secret cannot be used.
    """
    opened = (
        _by_workers(config, tenant, embedder, observer, tell)
        if config.jobs.embedding == "workers"
        else _in_process(config, tenant, embedder, observer)
    )
    with opened as vectors:
        try:
            yield vectors
        finally:
            observer.flush()


def open_worker(config: Config, queue: JobQueue, embedder: Embedder, tenant: str | None = None) -> Worker:
    """Return a worker on an installation's queue; `tenant`: whose jobs alone it takes.

    Raises:
        ModelError: the model's name is a server's to tell, which does not answer.
        ObjectHomeError: the store of a shared home cannot be used.
    """
    budgets = open_budgets(config, config.tenants if tenant is None else [tenant])
    model = MeteredModel(embedder, UsageCounter(config.embedding), budgets)
    shelf = JobShelf(open_payloads(config), _results(config, queue, embedder.name))
    return Worker(queue, shelf, model, tenant)


def open_payloads(config: Config) -> Payloads:
    """Return the texts of jobs: files of the home, or objects of the store that is the home.

    Raises:
        ObjectHomeError: the store cannot be used.
    """
    home = shared_home(config)
    if home is None:
        return Payloads(FolderFiles(Store(config.home), FOLDER))
    return Payloads(ObjectFiles(home.objects, Seal(config.home, JOBS_SEAL), "texts"))


def _results(config: Config, queue: JobQueue, model: str) -> Results:
    home = shared_home(config)
    if home is None:
        return CachedResults(Store(config.home), model)
    return SharedResults(ObjectFiles(home.objects, Seal(config.home, JOBS_SEAL), "vectors"), queue)


@contextmanager
def _by_workers(
    config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver, tell: Callable[[str], object]
) -> Iterator[BuildVectors]:
    queue = JobQueue.of(config)
    helper = open_worker(config, queue, embedder, tenant)
    try:
        state = queue.state(tenant, embedder.name)
        cache = _cache(config, tenant, embedder)
        helper.payloads.sweep(tenant, [*state.open, *state.dead])
        helper.results.sweep(cache, tenant)
        with queue.database.writing() as connection:
            forget_usage(connection, config.telemetry.retention_days, queue.clock())
        before = _usage(queue, tenant, embedder.name)
        vectors = WorkerVectors(queue, cache, helper, tell, observer)
        taken = partial(_taken_since, queue, tenant, embedder.name, before)
        yield BuildVectors(vectors, taken, vectors.figures)
    except JobsError as error:
        raise ModelError(str(error)) from error
    finally:
        helper.close()
        queue.database.close()


@contextmanager
def _in_process(config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver) -> Iterator[BuildVectors]:
    database = JobsDatabase(config)
    counter, keep_days = UsageCounter(config.embedding), config.telemetry.retention_days
    log = UsageLog(database, counter, tenant, embedder.name, keep_days)
    try:
        cache = _cache(config, tenant, embedder, _Observers([log, observer]))
        yield BuildVectors(cache, lambda: log.pages, None)
    finally:
        log.flush()
        database.close()


def _cache(config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver | None = None) -> VectorCache:
    store = Store(config.home)
    return VectorCache(store.cache(tenant), embedder.name, Seal(store.home, SEAL_PURPOSE), observer)


def _usage(queue: JobQueue, tenant: str, model: str) -> dict[str, PageUsage]:
    with queue.database.reading() as connection:
        return read_usage(connection, tenant, model)


def _taken_since(queue: JobQueue, tenant: str, model: str, before: Mapping[str, PageUsage]) -> dict[str, PageUsage]:
    return since(_usage(queue, tenant, model), before)
