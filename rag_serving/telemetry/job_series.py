"""A tenant's figures in the database, for Prometheus: embedding jobs that wait, run, ended lately and were put aside,
workers, and today's use of models by builds.

Belongs here: the figures, those of jobs also for `citelock doctor`. Does not belong here: the queue (the plug-in for
scale), counting usage (`usage`), limits (`citelock_governance.budgets`), this process's own counters (`metrics`).

They are read from the database on demand: processes of one server would add up the same figures.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import Connection, func, inspect, select

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.telemetry.guarded import GuardedDatabase
from rag_serving.telemetry.job_tables import JOBS, METADATA, STATES, WORKERS
from rag_serving.telemetry.job_tables import USAGE as EMBEDDED
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.series import gauge_of
from rag_serving.telemetry.usage import USAGE, by_part


class BuildSeries:
    """Tokens and cost of builds in one installation; nothing while the database does not answer."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._database = GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA)

    def exposition(self, tenant: str) -> bytes:
        """Return the series of a tenant in Prometheus' text format; nothing if no build used a model today."""
        if self._config.telemetry.url is None and not Store(self._config.home).serving_db().exists():
            return b""
        day = datetime.now(UTC).date().isoformat()
        try:
            used = self._database.ask(lambda connection: build_usage(connection, tenant, day))
        except TelemetryError:
            return b""
        if not any(tokens for tokens, _ in used.values()):
            return b""
        registry = CollectorRegistry()
        tokens, cost = gauge_of("build_tokens", registry), gauge_of("build_cost", registry)
        for part, (count, price) in used.items():
            tokens.labels(tenant, part).set(count)
            cost.labels(tenant, part).set(price)
        return generate_latest(registry)

    def close(self) -> None:
        self._database.close()


def build_usage(connection: Connection, tenant: str, day: str) -> Mapping[str, tuple[float, float]]:
    """Return tokens and cost of each part of the builds of a day."""
    used = by_part(connection, tenant, day) if inspect(connection).has_table(USAGE.name) else {}
    contexts = used.get("contexts", {})
    sums = select(func.sum(EMBEDDED.c.tokens), func.sum(EMBEDDED.c.cost))
    tokens, cost = connection.execute(sums.where(EMBEDDED.c.tenant == tenant, EMBEDDED.c.day == day)).one()
    return {
        "contexts": (contexts.get("tokens", 0.0), contexts.get("cost", 0.0)),
        "embedding": (float(tokens or 0), float(cost or 0.0)),
    }


@dataclass(frozen=True)
class QueueFigures:
    """The queue's figures of one tenant, and the workers of all."""

    jobs: dict[str, int]  # by state
    oldest_s: float  # age of the oldest job that waits or runs; 0: there is none
    workers: int  # that gave a sign of life within the lease
    last_seen_s: float | None  # since the last sign of life of any worker; None: nobody knows of one


class JobSeries:
    """Tells of the jobs of one installation; of nothing if no workers are configured, or the database is away."""

    def __init__(self, config: Config) -> None:
        self._is_used, self._lease_s = config.jobs.embedding == "workers", config.jobs.lease_s
        self._has_server = config.telemetry.url is not None
        self._database = GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA)

    def exposition(self, tenant: str) -> bytes:
        """Return the series of a tenant in Prometheus' text format."""
        if not self._is_used:
            return b""
        try:
            figures = self._database.ask(lambda connection: queue_figures(connection, tenant, self._lease_s))
        except TelemetryError:
            return b""
        registry = CollectorRegistry()
        jobs = gauge_of("embedding_jobs", registry)
        for state, count in figures.jobs.items():
            jobs.labels(tenant, state).set(count)
        gauge_of("embedding_oldest_job_seconds", registry).labels(tenant).set(figures.oldest_s)
        gauge_of("embedding_workers", registry).labels(tenant).set(figures.workers)
        return generate_latest(registry)

    def is_database_up(self) -> bool | None:
        """Return whether the installation's database answers; None if it is a file of the home folder."""
        if not self._has_server:
            return None
        try:
            self._database.ask(lambda connection: connection.execute(select(1)).scalar())
        except TelemetryError:
            return False
        return True

    def close(self) -> None:
        self._database.close()


def queue_figures(connection: Connection, tenant: str, lease_s: float, now: float | None = None) -> QueueFigures:
    """Return the figures of a tenant; `now`: seconds since 1970."""
    now = time.time() if now is None else now
    query = select(JOBS.c.state, func.count(), func.min(JOBS.c.created_at)).where(JOBS.c.tenant == tenant)
    grouped = connection.execute(query.group_by(JOBS.c.state))
    rows = {str(state): (int(count), float(oldest)) for state, count, oldest in grouped}
    oldest = min((rows[state][1] for state in ("waiting", "running") if state in rows), default=now)
    seen = [float(at) for at in connection.execute(select(WORKERS.c.seen_at)).scalars()]
    return QueueFigures(
        {state: rows[state][0] if state in rows else 0 for state in STATES},
        max(0.0, now - oldest),
        sum(at >= now - lease_s for at in seen),
        max(0.0, now - max(seen)) if seen else None,
    )
