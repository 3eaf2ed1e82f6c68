"""Which workers there are: each tells from time to time that it lives.

Belongs here: their rows. Does not belong here: leases of jobs (`queue`), what workers do (`worker`).
"""

from __future__ import annotations

import os
import platform
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from citelock_scale.embedding_jobs.queue import JobQueue
from rag_serving.telemetry.job_tables import WORKERS


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that gave a sign of life. `note`: why it does no work, where that is so."""

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
        values = {"name": name, "model": model, "started_at": now, "seen_at": now, "note": note}
        with self._queue.database.writing() as connection:
            connection.execute(delete(WORKERS).where(WORKERS.c.seen_at < now - 10 * self._queue.settings.lease_s))
            before = connection.execute(select(WORKERS.c.started_at).where(WORKERS.c.name == name)).scalar()
            connection.execute(delete(WORKERS).where(WORKERS.c.name == name))
            connection.execute(insert(WORKERS).values({**values, "started_at": now if before is None else before}))

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
