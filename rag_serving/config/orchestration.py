"""The section `orchestration`: where the steps of `ingest` and `publish` run.

Belongs here: keys, types, defaults. Does not belong here: executors (`rag_assets.definitions`), Dagster's instance with
its storage and run launcher (`dagster.yaml`, of which `deploy/dagster` has examples).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, JsonValue, PositiveInt

from rag_serving.config.sources import Section

ExecutorKind = Literal["in_process", "multiprocess", "celery", "docker", "k8s"]
Pool = Literal["confluence", "context", "embedding"]


class TenantOrchestration(Section):
    """Settings for one tenant; null: as `orchestration` says."""

    executor: ExecutorKind | None = None
    """Where the steps of the tenant and of its sources run."""


class CelerySteps(Section):
    """Steps as tasks of Celery workers (`celery --app citelock_scale.executors.celery_app worker`)."""

    # Environment variable with the broker's URL, such as redis://host:6379/0. Workers read the same variable.
    broker_env: ClassVar[str] = "CELERY_BROKER_URL"
    backend_env: ClassVar[str] = "CELERY_RESULT_BACKEND"  # environment variable with the result backend's URL
    queue: str = Field("dagster", pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    """Queue of the workers, never that of a run launcher. It must differ from the queue of a Celery run launcher,
    otherwise runs occupy the workers that their own steps wait for."""
    lost_after_s: float = Field(30, ge=0.5, le=3600)
    """Seconds without a worker until a step is handed out again."""
    attempts: ClassVar[int] = 5  # times that a lost step is handed out


class Orchestration(Section):
    """Where Dagster runs the steps of `ingest` and `publish`; `citelock build` runs them in its own process. Every
    process needs the same configuration, the same `CITELOCK_SECRET` and the same home: a folder that supports POSIX
    locks, or an object store, where each machine has its own cache folder. How to choose: deploy.md."""

    executor: ExecutorKind = "in_process"
    """Where steps run; the last three need `citelock[executors]`. docker, k8s: each in its own container or pod."""
    max_concurrent: int = Field(0, ge=0, le=1000)
    """Concurrent steps of one run; 0: Dagster's default. Not for celery, where the workers are the limit."""
    pools: dict[Pool, PositiveInt] = Field({})
    """Concurrent steps of all runs, by pool; for pools not named here `dagster.yaml` applies
    (`concurrency.pools.default_limit`). A build whose texts workers embed (`jobs.embedding`) keeps its slot in the pool
    while it waits."""
    image: str | None = None
    """Image for the steps of docker and k8s; null: the image of the run."""
    celery: CelerySteps = CelerySteps()
    """Steps in Celery workers."""
    docker: dict[str, JsonValue] = Field({})
    """Further options of Dagster's `docker_executor`, such as `networks`, `env_vars`, `container_kwargs`."""
    k8s: dict[str, JsonValue] = Field({})
    """Further options of Dagster's `k8s_job_executor`, such as `job_namespace`, `env_secrets`, `step_k8s_config`."""
