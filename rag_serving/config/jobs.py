"""The section `jobs` of `config/app.yaml`: embedding by worker processes.

Belongs here: who embeds, and within which bounds. Does not belong here: the model (`models.Embedding`), the queue
(`citelock_scale.embedding_jobs`).
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rag_serving.config.sources import Section


class JobLimits(NamedTuple):
    """What one tenant may take of the workers; a rate of 0 is no limit."""

    concurrency: int
    jobs_per_minute: float
    tokens_per_minute: float


class TenantJobs(Section):
    """Settings for one tenant; null: as `jobs` says."""

    concurrency: int | None = Field(None, ge=1, le=1000)
    """Jobs of the tenant that are processed at the same time."""
    jobs_per_minute: float | None = Field(None, ge=0)
    """Jobs started per minute; 0: no limit."""
    tokens_per_minute: float | None = Field(None, ge=0)
    """Tokens embedded per minute; 0: no limit."""


class Jobs(Section):
    """Who embeds passages: the build itself, or `citelock worker` processes that share a queue in the database of
    `telemetry.url`. The tenant that received the least work recently is next, so that a large upload does not delay a
    small one."""

    embedding: Literal["in_process", "workers"] = "in_process"
    """in_process: the build embeds, without a queue; workers: the build enqueues missing texts and waits for workers,
    which use the same `home`. If the home is an object store, `telemetry.url` must name a database that all machines
    can reach."""
    texts_per_job: int = Field(64, ge=1, le=1024)
    """Most texts in a job. A killed worker loses at most one job, and on each worker a tenant waits for at most one job
    of another tenant."""
    tokens_per_job: int = Field(32_768, ge=1)
    """Most tokens in a job; a longer text is a job by itself."""
    concurrency: int = Field(4, ge=1, le=1000)
    """Jobs of one tenant that are processed at the same time."""
    jobs_per_minute: float = Field(0, ge=0)
    """Jobs of a tenant started per minute; 0: no limit."""
    tokens_per_minute: float = Field(0, ge=0)
    """Tokens of a tenant embedded per minute; 0: no limit."""
    # Jobs of one tenant that may wait. A build with more reports this and enqueues the rest as jobs finish.
    max_waiting: ClassVar[int] = 500
    lease_s: float = Field(60, ge=0.1, le=3600)
    """Seconds without a heartbeat until a worker loses its job. The clocks of machines that share a queue must differ
    by less."""
    attempts: int = Field(5, ge=1, le=100)
    """Attempts to embed a text before it becomes a dead letter. While the model does not respond at all, jobs wait and
    no attempt is counted."""
    backoff_s: ClassVar[float] = 2  # seconds before a retry, doubled up to 5 minutes
    without_workers: Literal["embed", "fail"] = "embed"
    """Without workers: embed in the build, or fail."""
    without_workers_s: float = Field(30, ge=0, le=86_400)
    """Seconds that a build waits for a worker to start."""
    # Seconds without any finished job after which builds fail; its jobs stay in the queue.
    stalled_s: ClassVar[float] = 900
    keep_days: ClassVar[int] = 30  # days that finished jobs and dead letters are kept

    def limits_of(self, own: TenantJobs) -> JobLimits:
        """Return what holds for a tenant with settings of its own."""
        return JobLimits(
            self.concurrency if own.concurrency is None else own.concurrency,
            self.jobs_per_minute if own.jobs_per_minute is None else own.jobs_per_minute,
            self.tokens_per_minute if own.tokens_per_minute is None else own.tokens_per_minute,
        )
