"""The parts of the HTTP API: routes, callers, streams, what Prometheus reads."""
