"""What Prometheus reads from the sidecar.

Belongs here: names, meanings and buckets of the metrics. Does not belong here: what is measured by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rag_serving.telemetry.series import PREFIX, Kind, Series, Unit, plain_text

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def _series(name: str, kind: Kind, text: str, unit: Unit = "count", **labels: str) -> Series:
    return Series(f"rerank_{name}", kind, "The reranker sidecar", text, labels, unit, has_tenant=False)


SIDECAR_SERIES: Mapping[str, Series] = {
    series.name: series
    for series in (
        _series("requests", "counter", "Requests to `/rerank`.", status=""),
        _series("request_seconds", "histogram", "From the body to the scores, for requests that got some.", "seconds"),
        _series("requests_in_progress", "gauge", "Requests not answered yet."),
        _series("pairs", "counter", "Pairs of query and passage scored."),
        _series("tokens", "counter", "Tokens scored, without padding."),
        _series("run_pairs", "histogram", "Pairs scored in one run of the model."),
        _series("run_seconds", "histogram", "One run of the model.", "seconds"),
        _series("failed_runs", "counter", "Runs that gave no scores."),
    )
}


class Meters:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter("rerank_requests")
        self.seconds = self._histogram("rerank_request_seconds", _SECONDS)
        self.in_progress = self._gauge("rerank_requests_in_progress")
        self.pairs = self._counter("rerank_pairs")
        self.tokens = self._counter("rerank_tokens")
        self.run_pairs = self._histogram("rerank_run_pairs", _PAIRS)
        self.run_seconds = self._histogram("rerank_run_seconds", _SECONDS)
        self.failures = self._counter("rerank_failed_runs")

    def _counter(self, name: str) -> Counter:
        series = SIDECAR_SERIES[name]
        return Counter(f"{PREFIX}{name}", plain_text(series), series.all_labels, registry=self._registry)

    def _gauge(self, name: str) -> Gauge:
        return Gauge(f"{PREFIX}{name}", plain_text(SIDECAR_SERIES[name]), registry=self._registry)

    def _histogram(self, name: str, buckets: Sequence[float]) -> Histogram:
        text = plain_text(SIDECAR_SERIES[name])
        return Histogram(f"{PREFIX}{name}", text, registry=self._registry, buckets=buckets)

    def exposition(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        return generate_latest(self._registry)
