"""The section `jobs` of `config/app.yaml`: embedding by worker processes.

Belongs here: who embeds, and within which bounds. Does not belong here: the model (`sections.Embedding`), the queue
(`rag_assets.embedding_jobs`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from rag_serving.config.sources import Section


class JobLimits(NamedTuple):
    """What one tenant may take of the workers; a rate of 0 is no limit."""

    concurrency: int
    jobs_per_minute: float
    tokens_per_minute: float


class TenantJobs(Section):
    """What is otherwise for one tenant; null: as `jobs` says."""

    concurrency: int | None = Field(None, ge=1, le=1000)
    """Jobs of the tenant that are under way at once."""
    jobs_per_minute: float | None = Field(None, ge=0)
    """Jobs of the tenant that are begun in a minute; 0: no limit."""
    tokens_per_minute: float | None = Field(None, ge=0)
    """Tokens of the tenant that are embedded in a minute; 0: no limit."""


class Jobs(Section):
    """Who embeds passages: the build itself, or `citelock worker` processes that share a queue in the database of
    `telemetry.url`. Tenants take turns by what they were given: a large upload does not hold up a small one."""

    embedding: Literal["in_process", "workers"] = "in_process"
    """in_process: the build embeds, no queue is used; workers: it enqueues what is missing and waits for workers, which
    have the same `home`. Where that is an object store, `telemetry.url` must name a database that all of them reach."""
    texts_per_job: int = Field(64, ge=1, le=1024)
    """Texts of a job, at most. A worker that is killed loses at most one job's work, and a tenant waits for at most one
    job of another on each worker."""
    tokens_per_job: int = Field(32_768, ge=1)
    """Tokens of a job, at most (four characters count as one); a longer text is a job of its own."""
    concurrency: int = Field(4, ge=1, le=1000)
    """Jobs of one tenant that are under way at once."""
    jobs_per_minute: float = Field(0, ge=0)
    """Jobs of one tenant that are begun in a minute; 0: no limit."""
    tokens_per_minute: float = Field(0, ge=0)
    """Tokens of one tenant that are embedded in a minute, evenly spread; 0: no limit."""
    max_waiting: int = Field(500, ge=1, le=100_000)
    """Jobs of one tenant that may wait. A build that has more says so, and enqueues them as others are done."""
    lease_s: float = Field(60, ge=0.1, le=3600)
    """Seconds after its last sign of life when a worker has lost its job to another one. Clocks of machines that
    share a queue must not differ by as much."""
    attempts: int = Field(5, ge=1, le=100)
    """Times that a text is tried before it is put aside with the reason (`citelock jobs list`). A model that does not
    answer at all counts for none: its jobs wait."""
    backoff_s: float = Field(2, ge=0, le=3600)
    """Seconds before a job is tried again, doubled each time up to 5 minutes."""
    without_workers: Literal["embed", "fail"] = "embed"
    """What a build does that finds no worker for `without_workers_s`: embed itself, or fail."""
    without_workers_s: float = Field(30, ge=0, le=86_400)
    """Seconds that a build waits for a worker to come (back)."""
    stalled_s: float = Field(900, ge=1, le=86_400)
    """Seconds without a finished job, of any tenant, after which a build fails and says why; its jobs stay."""
    keep_days: int = Field(30, ge=1)
    """Days that finished jobs and those put aside are kept."""

    def limits_of(self, own: TenantJobs) -> JobLimits:
        """Return what holds for a tenant with settings of its own."""
        return JobLimits(
            self.concurrency if own.concurrency is None else own.concurrency,
            self.jobs_per_minute if own.jobs_per_minute is None else own.jobs_per_minute,
            self.tokens_per_minute if own.tokens_per_minute is None else own.tokens_per_minute,
        )
