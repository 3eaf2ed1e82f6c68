"""Embedding jobs, and what embedding took, for those who look after them.

Belongs here: reading rows for people. Does not belong here: printing (`jobs_command`), changing jobs (`queue`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from rag_assets.embedding_usage import JobsDatabase
from rag_serving.telemetry.job_tables import JOBS


@dataclass(frozen=True)
class JobRow:
    """A job as it is stored. Times are seconds since 1970; `keys` are content addresses of texts."""

    id: str
    tenant: str
    model: str
    state: str
    keys: tuple[str, ...]
    tokens: int
    attempts: int
    created_at: float
    claimed_at: float | None
    finished_at: float | None
    lease_until: float | None
    worker: str | None
    reason: str | None

    def payload(self) -> dict[str, Any]:
        """Return the job for JSON, with the number of its texts in place of their addresses."""
        shown = {name: value for name, value in vars(self).items() if name != "keys"}
        return {**shown, "texts": len(self.keys)}


def list_jobs(database: JobsDatabase, tenant: str | None, state: str | None, most: int) -> list[JobRow]:
    """Return jobs of a tenant in a state, or of all and in any, those that were put aside first, then by age.

    Raises:
        JobsError: the database cannot be used.
    """
    query = select(JOBS).order_by(JOBS.c.state != "dead", JOBS.c.created_at, JOBS.c.id).limit(most)
    query = query.where(JOBS.c.tenant == tenant) if tenant is not None else query
    query = query.where(JOBS.c.state == state) if state is not None else query
    with database.reading() as connection:
        return [_job(row) for row in connection.execute(query).all()]


def find_jobs(database: JobsDatabase, beginning: str) -> list[JobRow]:
    """Return the jobs whose ids begin so, two at most.

    Raises:
        JobsError: the database cannot be used.
    """
    query = select(JOBS).where(JOBS.c.id.startswith(beginning, autoescape=True)).limit(2)
    with database.reading() as connection:
        return [_job(row) for row in connection.execute(query).all()]


def _job(row: Any) -> JobRow:
    names = [name for name in JobRow.__dataclass_fields__ if name != "keys"]
    return JobRow(keys=tuple(row.text_keys), **{name: getattr(row, name) for name in names})
