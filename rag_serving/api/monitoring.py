"""What Prometheus reads from the serving API.

Belongs here: what a process tells of itself, those of all processes as gauges, their text format.
Does not belong here: the log of questions (`telemetry`), how processes ask each other (`siblings`), the sidecar's own
metrics (`rerank_service.metrics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rag_serving.models.breaker import State
from rag_serving.pipeline import Pipeline
from rag_serving.telemetry.live import Sums, Today, figures
from rag_serving.telemetry.recorder import Counts

_SHARES = {
    "citation_precision": "Verified claims over claims of today's answers.",
    "not_found_rate": "Share of today's questions that were not found in the pages.",
    "fallback_rate": "Share of today's questions and searches in which something was degraded.",
}


@dataclass(frozen=True)
class Reading:
    """What one process tells of a tenant."""

    breakers: dict[str, State] = field(default_factory=dict)
    rows: Counts = field(default_factory=lambda: Counts(0, 0, 0))
    today: Sums | None = None  # None: telemetry is off


def read(pipeline: Pipeline) -> Reading:
    """Return what this process tells of the tenant now. No database is read."""
    breakers = {"reranker": pipeline.reranker.breaker.state} if pipeline.reranker else {}
    if not pipeline.telemetry:
        return Reading(breakers)
    day = datetime.now(UTC).date().isoformat()
    return Reading(breakers, pipeline.telemetry.counts(), pipeline.telemetry.live.sums(day))


def exposition(tenant: str, readings: Sequence[Reading]) -> bytes:
    """Return what the processes of a server tell of a tenant, added up, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Figures(tenant, readings))
    return generate_latest(registry)


class _Figures(Collector):
    """The tenant's figures, as families of metrics."""

    def __init__(self, tenant: str, readings: Sequence[Reading]) -> None:
        self._tenant, self._readings = tenant, readings

    def collect(self) -> Iterator[Metric]:
        yield self._breakers()
        parts = [reading.today for reading in self._readings if reading.today is not None]
        if not parts:
            return
        yield from self._rows()
        today = figures(parts)
        for name, help_text in _SHARES.items():
            family = GaugeMetricFamily(f"citelock_today_{name}", help_text, labels=["tenant"])
            share = getattr(today, name)
            if share is not None:
                family.add_metric([self._tenant], share)
            yield family
        yield from self._counted(today)
        yield self._latencies(today)

    def _breakers(self) -> Metric:
        """Return one series per breaker and state: how many processes have it in that state."""
        family = GaugeMetricFamily(
            "citelock_breaker_state",
            "Processes of this server for which a server's circuit breaker is in that state.",
            labels=["server", "state"],
        )
        for server in sorted({server for reading in self._readings for server in reading.breakers}):
            for state in get_args(State):
                count = sum(reading.breakers.get(server) == state for reading in self._readings)
                family.add_metric([server, state], count)
        return family

    def _rows(self) -> Iterator[Metric]:
        rows = CounterMetricFamily(
            "citelock_telemetry_rows", "Rows of telemetry that were written, or dropped.", labels=["tenant", "fate"]
        )
        waiting = GaugeMetricFamily("citelock_telemetry_waiting", "Rows that are not written yet.", labels=["tenant"])
        rows.add_metric([self._tenant, "recorded"], sum(reading.rows.recorded for reading in self._readings))
        rows.add_metric([self._tenant, "dropped"], sum(reading.rows.dropped for reading in self._readings))
        waiting.add_metric([self._tenant], sum(reading.rows.waiting for reading in self._readings))
        yield rows
        yield waiting

    def _counted(self, today: Today) -> Iterator[Metric]:
        """Gauges, because they begin anew with each day."""
        asked = GaugeMetricFamily("citelock_today_questions", "Questions of today.", labels=["tenant", "status"])
        judged = GaugeMetricFamily(
            "citelock_today_feedback", "Readers' verdicts of today.", labels=["tenant", "verdict"]
        )
        for status, count in sorted(today.status.items()):
            asked.add_metric([self._tenant, status], count)
        for verdict, count in sorted(today.feedback.items()):
            judged.add_metric([self._tenant, verdict], count)
        yield asked
        yield judged

    def _latencies(self, today: Today) -> Metric:
        family = GaugeMetricFamily(
            "citelock_today_stage_seconds",
            "Time of each stage of today's last questions.",
            labels=["tenant", "stage", "quantile"],
        )
        for stage, parts in sorted(today.latency_ms.items()):
            for part, value in parts.items():
                family.add_metric([self._tenant, stage, str(part / 100)], value / 1000)
        return family
