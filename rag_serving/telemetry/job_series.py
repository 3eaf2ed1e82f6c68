"""Embedding jobs of a tenant for Prometheus: how many wait, run, were done of late, and were put aside.

Belongs here: the series. Does not belong here: the queue (`rag_assets.embedding_jobs`), metrics that are counted in
this process (`metrics`).

They are read from the database when they are asked for: processes of one server would add up what they all see.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from sqlalchemy import Connection, func, select

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.telemetry.guarded import GuardedDatabase
from rag_serving.telemetry.job_tables import JOBS, METADATA, STATES
from rag_serving.telemetry.recorder import TelemetryError


class JobSeries:
    """Tells of the jobs of one installation; of nothing where no workers are configured, or the database is away."""

    def __init__(self, config: Config) -> None:
        self._is_used = config.jobs.embedding == "workers"
        self._database = GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA)

    def exposition(self, tenant: str) -> bytes:
        """Return the series of a tenant in Prometheus' text format."""
        if not self._is_used:
            return b""
        try:
            counts = self._database.ask(lambda connection: jobs_by_state(connection, tenant))
        except TelemetryError:
            return b""
        registry = CollectorRegistry()
        help_text = "Embedding jobs: waiting, running, done of late, and put aside (dead)."
        gauge = Gauge("citelock_embedding_jobs", help_text, ["tenant", "state"], registry=registry)
        for state, count in counts.items():
            gauge.labels(tenant, state).set(count)
        return generate_latest(registry)

    def close(self) -> None:
        self._database.close()


def jobs_by_state(connection: Connection, tenant: str) -> dict[str, int]:
    """Return how many embedding jobs a tenant has in each state."""
    query = select(JOBS.c.state, func.count()).where(JOBS.c.tenant == tenant).group_by(JOBS.c.state)
    counts = {str(state): int(count) for state, count in connection.execute(query)}
    return {state: counts.get(state, 0) for state in STATES}
