"""What Prometheus reads from the serving API.

Belongs here: gauges that are read when they are asked for, and their text format.
Does not belong here: the log of questions (`telemetry`), the sidecar's own metrics (`reranking.meters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rag_serving.breaker import Breaker, State


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


def exposition(*collectors: Collector) -> bytes:
    """What these collectors tell now, in Prometheus' text format."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)
