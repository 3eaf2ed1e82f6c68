"""The section `orchestration`: where the steps of `ingest` and `publish` run.

Belongs here: keys, types, defaults. Does not belong here: executors (`rag_assets.executors`), Dagster's instance with
its storage and run launcher (`dagster.yaml`, of which `deploy/dagster` has examples).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, PositiveInt

from rag_serving.config.sources import Section

ExecutorKind = Literal["in_process", "multiprocess", "celery", "docker", "k8s"]
Pool = Literal["confluence", "context", "embedding"]


class TenantOrchestration(Section):
    """What is otherwise for one tenant; null: as `orchestration` says."""

    executor: ExecutorKind | None = None
    """Where steps for the tenant run, and those for its sources."""


class CelerySteps(Section):
    """Steps as tasks of Celery workers (`celery --app rag_assets.executors.celery_app worker`)."""

    broker_env: str = "CELERY_BROKER_URL"
    """Environment variable with the broker's URL, such as redis://host:6379/0. Workers read the same one."""
    backend_env: str = "CELERY_RESULT_BACKEND"
    """Environment variable with the URL of the results, such as redis://host:6379/1."""
    queue: str = Field("dagster", pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    """Queue that the workers listen to (`--queues`). Another one than that of a Celery run launcher, whose runs would
    take the workers that their own steps wait for."""
    lost_after_s: float = Field(30, ge=0.5, le=3600)
    """Seconds for which no worker says that it has a step, before the step is handed out again."""
    attempts: int = Field(5, ge=1, le=100)
    """Times that a step is handed out until the run fails, because its workers were lost."""


class Orchestration(Section):
    """Where the steps of `ingest` and `publish` run that Dagster starts; `citelock build` runs them in its own process.
    Every process needs the same configuration and `CITELOCK_SECRET`, and the same home: a folder that supports POSIX
    locks, or an object store, where each machine has a cache folder of its own. How to choose: executors.md."""

    executor: ExecutorKind = "in_process"
    """in_process: one after the other in the process of the run. multiprocess: in processes of its machine. celery: in
    Celery workers. docker, k8s: each in a container or a pod of its own. The last three need `citelock[cluster]`."""
    max_concurrent: int = Field(0, ge=0, le=1000)
    """Steps of one run at once, where they are more than one process; 0: as Dagster does. Not for celery, whose workers
    are the limit."""
    pools: dict[Pool, PositiveInt] = Field({})
    """Steps of all runs at once that sync from Confluence, ask for contexts, or embed; what is not named is as
    `dagster.yaml` says (`concurrency.pools.default_limit`). A build whose texts are embedded by workers
    (`jobs.embedding`) waits for them within its place in the pool."""
    image: str | None = None
    """Image of docker's and k8s' steps; null: that of the run."""
    celery: CelerySteps = CelerySteps()
    """Steps in Celery workers."""
    docker: dict[str, JsonValue] = Field({})
    """Further options of Dagster's `docker_executor`, such as `networks`, `env_vars`, `container_kwargs`."""
    k8s: dict[str, JsonValue] = Field({})
    """Further options of Dagster's `k8s_job_executor`, such as `job_namespace`, `env_secrets`, `step_k8s_config`."""
