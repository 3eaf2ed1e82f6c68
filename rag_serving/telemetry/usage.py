"""The table of what tenants used, the same in SQLite and in Postgres. A count is one statement that adds to a row and
returns it: processes that count at once lose nothing, and each sees its own place in the order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy.dialects import postgresql, sqlite

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.telemetry.metrics import gauge_of
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import GuardedDatabase

JOBS_METADATA = sa.MetaData()

STATES = ("waiting", "running", "done", "dead")

JOBS = sa.Table(
    "embedding_jobs",
    JOBS_METADATA,
    sa.Column("id", sa.String(32), primary_key=True),  # digest of tenant, model and keys: the same batch is one job
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),  # the embedder's name
    sa.Column("state", sa.String(8), nullable=False),  # one of STATES
    sa.Column("text_keys", sa.JSON, nullable=False),  # content addresses of its texts
    sa.Column("tokens", sa.Integer, nullable=False),  # about so many
    sa.Column("created_at", sa.Float, nullable=False),  # seconds since 1970, UTC, as all times
    sa.Column("not_before", sa.Float, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),  # that failed, or whose worker ended
    sa.Column("fence", sa.BigInteger, nullable=False),  # higher with each claim: a lower one has lost the job
    sa.Column("worker", sa.Text),
    sa.Column("lease_until", sa.Float),
    sa.Column("reason", sa.Text),  # of the last failure
    sa.Column("claimed_at", sa.Float),  # the last time
    sa.Column("finished_at", sa.Float),
    sa.Index("embedding_jobs_due", "state", "tenant", "created_at"),
)

SHARES = sa.Table(
    "embedding_shares",
    JOBS_METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),  # the empty name: the clock of all
    sa.Column("served", sa.Float, nullable=False),  # virtual time up to which the tenant was served, in tokens
    sa.Column("free_at", sa.Float, nullable=False),  # when its rate limits let it begin another job
)

WORKERS = sa.Table(
    "embedding_workers",
    JOBS_METADATA,
    sa.Column("name", sa.String(200), primary_key=True),  # host:process:random
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("started_at", sa.Float, nullable=False),
    sa.Column("seen_at", sa.Float, nullable=False),
    sa.Column("note", sa.Text),  # why it does no work, where that is so
)

EMBEDDED = sa.Table(
    "embedding_usage",
    JOBS_METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("page_id", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("day", sa.String(10), primary_key=True),  # as 2026-01-31
    sa.Column("texts", sa.Integer, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("cost", sa.Float, nullable=False),  # by `embedding.prices`
)


def build_usage(connection: sa.Connection, tenant: str, day: str) -> Mapping[str, tuple[float, float]]:
    """Return tokens and cost of each part of the builds of a day."""
    used = by_part(connection, tenant, day) if sa.inspect(connection).has_table(USAGE.name) else {}
    contexts = used.get("contexts", {})
    sums = sa.select(sa.func.sum(EMBEDDED.c.tokens), sa.func.sum(EMBEDDED.c.cost))
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


class BuildSeries:
    """Tells of the builds of one installation, of their tokens and jobs; of nothing while its database is away."""

    def __init__(self, config: Config) -> None:
        self._config, self._serving_db = config, Store(config.home).serving_db()
        self._database = GuardedDatabase(config.telemetry.url, self._serving_db, JOBS_METADATA)

    def exposition(self, tenant: str) -> bytes:
        """Return the series of a tenant in Prometheus' text format: of jobs if there are workers, of tokens and cost if
        a build used a model today."""
        registry = CollectorRegistry()
        with suppress(TelemetryError):
            if self._config.jobs.embedding == "workers":
                self._add_jobs(registry, tenant)
            if self._config.telemetry.url is not None or self._serving_db.exists():
                self._add_usage(registry, tenant)
        return generate_latest(registry)

    def _add_jobs(self, registry: CollectorRegistry, tenant: str) -> None:
        lease_s = self._config.jobs.lease_s
        figures = self._database.ask(lambda connection: queue_figures(connection, tenant, lease_s))
        jobs = gauge_of("embedding_jobs", registry)
        for state, count in figures.jobs.items():
            jobs.labels(tenant, state).set(count)
        gauge_of("embedding_oldest_job_seconds", registry).labels(tenant).set(figures.oldest_s)
        gauge_of("embedding_workers", registry).labels(tenant).set(figures.workers)

    def _add_usage(self, registry: CollectorRegistry, tenant: str) -> None:
        day = datetime.now(UTC).date().isoformat()
        used = self._database.ask(lambda connection: build_usage(connection, tenant, day))
        if any(tokens for tokens, _ in used.values()):
            tokens, cost = gauge_of("build_tokens", registry), gauge_of("build_cost", registry)
            for part, (count, price) in used.items():
                tokens.labels(tenant, part).set(count)
                cost.labels(tenant, part).set(price)

    def is_database_up(self) -> bool | None:
        """Return whether the installation's database answers; None if it is a file of the home folder."""
        if self._config.telemetry.url is None:
            return None
        try:
            self._database.ask(lambda connection: connection.execute(sa.select(1)).scalar())
        except TelemetryError:
            return False
        return True

    def close(self) -> None:
        self._database.close()


def queue_figures(connection: sa.Connection, tenant: str, lease_s: float) -> QueueFigures:
    """Return the figures of a tenant."""
    now = time.time()
    query = sa.select(JOBS.c.state, sa.func.count(), sa.func.min(JOBS.c.created_at)).where(JOBS.c.tenant == tenant)
    grouped = connection.execute(query.group_by(JOBS.c.state))
    rows = {str(state): (int(count), float(oldest)) for state, count, oldest in grouped}
    oldest = min((rows[state][1] for state in ("waiting", "running") if state in rows), default=now)
    seen = [float(at) for at in connection.execute(sa.select(WORKERS.c.seen_at)).scalars()]
    return QueueFigures(
        {state: rows[state][0] if state in rows else 0 for state in STATES},
        max(0.0, now - oldest),
        sum(at >= now - lease_s for at in seen),
        max(0.0, now - max(seen)) if seen else None,
    )


Measure = Literal["questions", "tokens", "cost", "documents"]
Part = Literal["questions", "contexts", "embedding", "uploads"]
"""What used something: answering, contexts that a model writes, vectors, uploads."""

METADATA = sa.MetaData()

USAGE = sa.Table(
    "usage",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("measure", sa.String(16), primary_key=True),  # questions, tokens, cost, documents
    sa.Column("span", sa.String(16), primary_key=True),  # 2026-01-31, or 2026-01-31T09:59 of questions
    sa.Column("part", sa.String(16), primary_key=True),  # questions, contexts, embedding, uploads
    sa.Column("amount", sa.Float, nullable=False),
)
_MINUTES_KEPT = timedelta(hours=1)


def add(connection: sa.Connection, tenant: str, measure: Measure, span: str, part: Part, amount: float) -> float:
    """Add to a tenant's usage, and return its part's total in the span."""
    inserting: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = inserting(USAGE).values(tenant=tenant, measure=measure, span=span, part=part, amount=amount)
    keys = [USAGE.c.tenant, USAGE.c.measure, USAGE.c.span, USAGE.c.part]
    sums = row.on_conflict_do_update(index_elements=keys, set_={"amount": USAGE.c.amount + row.excluded.amount})
    return float(connection.execute(sums.returning(USAGE.c.amount)).scalar_one())


def used(connection: sa.Connection, tenant: str, spans: Mapping[Measure, str]) -> dict[Measure, float]:
    """Return a tenant's usage of each measure in its span, all parts together."""
    query = (
        sa.select(USAGE.c.measure, USAGE.c.span, sa.func.sum(USAGE.c.amount))
        .where(USAGE.c.tenant == tenant, USAGE.c.span.in_(set(spans.values())))
        .group_by(USAGE.c.measure, USAGE.c.span)
    )
    sums = {(measure, span): float(amount) for measure, span, amount in connection.execute(query)}
    return {measure: sums.get((measure, span), 0.0) for measure, span in spans.items()}


def by_part(connection: sa.Connection, tenant: str, day: str) -> dict[Part, dict[Measure, float]]:
    """Return the usage of each part of a tenant's work on a day."""
    query = sa.select(USAGE.c.part, USAGE.c.measure, USAGE.c.amount).where(
        USAGE.c.tenant == tenant, USAGE.c.span == day
    )
    found: dict[Part, dict[Measure, float]] = {}
    for part, measure, amount in connection.execute(query.order_by(USAGE.c.part, USAGE.c.measure)):
        found.setdefault(part, {})[measure] = float(amount)
    return found


def prune(connection: sa.Connection, now: float, keep_days: int) -> None:
    """Forget minutes of more than an hour ago, and days before the last `keep_days`."""
    at = datetime.fromtimestamp(now, UTC)
    minute = (at - _MINUTES_KEPT).strftime("%Y-%m-%dT%H:%M")
    oldest = (at.date() - timedelta(days=keep_days)).isoformat()
    is_minute = USAGE.c.measure == "questions"
    connection.execute(sa.delete(USAGE).where(is_minute, USAGE.c.span < minute))
    connection.execute(sa.delete(USAGE).where(~is_minute, USAGE.c.span < oldest))
