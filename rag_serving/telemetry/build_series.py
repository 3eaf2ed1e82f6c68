"""What builds of a tenant used of models on this day, for Prometheus.

Belongs here: reading it from the database when it is asked for, the series. Does not belong here: what questions used
(`metrics`), limits (`citelock_governance.budgets`), counting (`usage`, the writer's embedding jobs).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import Connection, func, inspect, select

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.telemetry.guarded import GuardedDatabase
from rag_serving.telemetry.job_tables import METADATA
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
        """Return the series of a tenant in Prometheus' text format; nothing where no build used a model today."""
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
