"""What Prometheus reads from the sidecar.

Belongs here: names, help lines and buckets of the metrics. Does not belong here: what is measured by them.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Meters:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("citelock_rerank_requests", "Requests to /rerank.", ["status"], registry=self._registry)
        self.seconds = Histogram(
            "citelock_rerank_request_seconds",
            "From the body to the scores, for requests that got some.",
            registry=self._registry,
            buckets=_SECONDS,
        )
        self.in_progress = Gauge(
            "citelock_rerank_requests_in_progress", "Requests not answered yet.", registry=self._registry
        )
        self.pairs = Counter("citelock_rerank_pairs", "Pairs of query and passage scored.", registry=self._registry)
        self.tokens = Counter("citelock_rerank_tokens", "Tokens scored, without padding.", registry=self._registry)
        self.run_pairs = Histogram(
            "citelock_rerank_run_pairs",
            "Pairs scored in one run of the model.",
            registry=self._registry,
            buckets=_PAIRS,
        )
        self.run_seconds = Histogram(
            "citelock_rerank_run_seconds", "One run of the model.", registry=self._registry, buckets=_SECONDS
        )
        self.failures = Counter("citelock_rerank_failed_runs", "Runs that gave no scores.", registry=self._registry)

    def exposition(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        return generate_latest(self._registry)
