"""A collector over loopback that takes spans as OTLP/HTTP has them (protobuf), and can be slow or refuse.

Belongs here: what came in. Does not belong here: which spans should (the tests).
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from support.running import served


@dataclass(frozen=True)
class Sent:
    """A span as it came in; ids are hexadecimal, `parent` is empty for one that begins a trace or goes on with it."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: int
    failed: bool
    attributes: dict[str, Any] = field(default_factory=dict)


class StandInCollector(ThreadingHTTPServer):
    """`status` answers every request; `pause_s` before it."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.status, self.pause_s, self.requests = 200, 0.0, 0
        self.bodies = b""
        self._spans: list[Sent] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[Sent]:
        with self._lock:
            return [*self._spans]

    def wait_for(self, name: str, seconds: float = 20) -> Sent:
        """Return the first span of a name, once it came in."""
        ends = time.monotonic() + seconds
        while True:
            for sent in self.spans():
                if sent.name == name:
                    return sent
            assert time.monotonic() < ends, [sent.name for sent in self.spans()]
            time.sleep(0.02)

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.requests += 1
            self.bodies += body
            for resource in request.resource_spans:
                service = _values(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    self._spans += [_sent(service, span) for span in scope.spans]


@contextmanager
def collector(port: int = 0) -> Iterator[StandInCollector]:
    with served(StandInCollector(port)) as opened:
        yield opened


class _Handler(BaseHTTPRequestHandler):
    server: StandInCollector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.pause_s)
        if self.path != "/v1/traces" or self.headers["Content-Type"] != "application/x-protobuf":
            self.send_error(404)
            return
        if self.server.status == 200:
            self.server.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _sent(service: str, span: Any) -> Sent:
    return Sent(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.status.code == 2,
        _values(span.attributes),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
