"""Workers, and what gives a build their vectors, as the configuration says.

Belongs here: putting the parts together. Does not belong here: the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from citelock_scale.embedding_jobs.job_files import (
    FOLDER,
    JOBS_SEAL,
    CachedResults,
    FolderFiles,
    JobResults,
    ObjectFiles,
    Payloads,
    SharedResults,
)
from citelock_scale.embedding_jobs.queue import JobQueue
from citelock_scale.embedding_jobs.waiting import WorkerVectors
from citelock_scale.embedding_jobs.worker import JobShelf, MeteredModel, Worker
from citelock_scale.object_home.home import object_home
from rag_assets.embedding_usage import (
    BuildVectors,
    JobsError,
    PageUsage,
    UsageCounter,
    forget_usage,
    open_cache,
    read_usage,
    since,
)
from rag_assets.state.content_cache import EmbeddingObserver
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.hooks import open_budgets
from rag_serving.models.protocols import Embedder, ModelError


def open_worker(config: Config, queue: JobQueue, embedder: Embedder, tenant: str | None = None) -> Worker:
    """Return a worker on an installation's queue; `tenant`: take only this one's jobs.

    Raises:
        ModelError: the server that gives the model's name does not answer.
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
    home = object_home(config)
    if home is None:
        return Payloads(FolderFiles(Store(config.home), FOLDER))
    return Payloads(ObjectFiles(home.objects, Seal(config.home, JOBS_SEAL), "texts"))


def _results(config: Config, queue: JobQueue, model: str) -> JobResults:
    home = object_home(config)
    if home is None:
        return CachedResults(Store(config.home), model)
    return SharedResults(ObjectFiles(home.objects, Seal(config.home, JOBS_SEAL), "vectors"), queue)


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
        before = _usage(queue, tenant, embedder.name)
        vectors = WorkerVectors(queue, cache, helper, tell, observer)
        taken = partial(_taken_since, queue, tenant, embedder.name, before)
        yield BuildVectors(vectors, taken, vectors.figures)
    except JobsError as error:
        raise ModelError(str(error)) from error
    finally:
        helper.close()
        queue.database.close()


def _usage(queue: JobQueue, tenant: str, model: str) -> dict[str, PageUsage]:
    with queue.database.reading() as connection:
        return read_usage(connection, tenant, model)


def _taken_since(queue: JobQueue, tenant: str, model: str, before: Mapping[str, PageUsage]) -> dict[str, PageUsage]:
    return since(_usage(queue, tenant, model), before)
