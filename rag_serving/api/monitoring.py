"""What Prometheus reads from the serving API.

Belongs here: gauges that are read when they are asked for, and their text format.
Does not belong here: the log of questions (`telemetry`), the sidecar's own metrics (`reranking.meters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rag_serving.breaker import Breaker, State
from rag_serving.telemetry.live import Today
from rag_serving.telemetry.telemetry import Telemetry

_SHARES = {
    "citation_precision": "Verified claims over claims of today's answers.",
    "not_found_rate": "Share of today's questions that were not found in the pages.",
    "fallback_rate": "Share of today's questions and searches in which something was degraded.",
}


class BreakerStates(Collector):
    """One series per breaker and state: 1 for the state it is in."""

    def __init__(self, breakers: Mapping[str, Breaker]) -> None:
        self._breakers = breakers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "citelock_breaker_state",
            "1 for the state that a server's circuit breaker is in.",
            labels=["server", "state"],
        )
        for server, breaker in self._breakers.items():
            now = breaker.state
            for state in get_args(State):
                family.add_metric([server, state], float(state == now))
        yield family


class TelemetryFigures(Collector):
    """How telemetry fares, and the figures of today's (UTC) questions since the server started, by tenant.

    All of it is counted while questions are asked: no database is read.
    """

    def __init__(self, telemetry: Mapping[str, Telemetry]) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterator[Metric]:
        yield from self._rows()
        day = datetime.now(UTC).date().isoformat()
        today = {tenant: telemetry.live.today(day) for tenant, telemetry in self._telemetry.items()}
        for name, help_text in _SHARES.items():
            shares = {tenant: getattr(figures, name) for tenant, figures in today.items()}
            family = GaugeMetricFamily(f"citelock_today_{name}", help_text, labels=["tenant"])
            for tenant, share in shares.items():
                if share is not None:
                    family.add_metric([tenant], share)
            yield family
        yield from _counted(today)
        yield _latencies(today)

    def _rows(self) -> Iterator[Metric]:
        counts = {tenant: telemetry.counts() for tenant, telemetry in self._telemetry.items()}
        rows = CounterMetricFamily(
            "citelock_telemetry_rows", "Rows of telemetry that were written, or dropped.", labels=["tenant", "fate"]
        )
        waiting = GaugeMetricFamily("citelock_telemetry_waiting", "Rows that are not written yet.", labels=["tenant"])
        for tenant, count in counts.items():
            rows.add_metric([tenant, "recorded"], count.recorded)
            rows.add_metric([tenant, "dropped"], count.dropped)
            waiting.add_metric([tenant], count.waiting)
        yield rows
        yield waiting


def _counted(today: Mapping[str, Today]) -> Iterator[Metric]:
    """Gauges, because they begin anew with each day."""
    asked = GaugeMetricFamily("citelock_today_questions", "Questions of today.", labels=["tenant", "status"])
    judged = GaugeMetricFamily("citelock_today_feedback", "Readers' verdicts of today.", labels=["tenant", "verdict"])
    for tenant, figures in today.items():
        for status, count in sorted(figures.status.items()):
            asked.add_metric([tenant, status], count)
        for verdict, count in sorted(figures.feedback.items()):
            judged.add_metric([tenant, verdict], count)
    yield asked
    yield judged


def _latencies(today: Mapping[str, Today]) -> Metric:
    family = GaugeMetricFamily(
        "citelock_today_stage_seconds",
        "Time of each stage of today's last questions.",
        labels=["tenant", "stage", "quantile"],
    )
    for tenant, figures in today.items():
        for stage, parts in sorted(figures.latency_ms.items()):
            for part, value in parts.items():
                family.add_metric([tenant, stage, str(part / 100)], value / 1000)
    return family


def exposition(*collectors: Collector) -> bytes:
    """What these collectors tell now, in Prometheus' text format."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)
