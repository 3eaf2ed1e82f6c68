"""What stand-in model servers on loopback have in common: faults in order, requests kept, answers written.

Belongs here: HTTP. Does not belong here: what a model answers (`stand_in_chat`, `models.stand_in_embeddings`).
"""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


@dataclass(frozen=True)
class Fault:
    """What the next request meets instead of an answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang_s: float = 0


class StandInModel(ThreadingHTTPServer):
    """`faults` are met in order, one a request; `requests` are (path, body, headers), `times` when they came."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: type[ModelHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.times: list[float] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body, _ in self.requests]


class ModelHandler(BaseHTTPRequestHandler):
    """A request's way to the method that answers its path: `gets` and `posts` name it."""

    wbufsize = -1
    gets: ClassVar[dict[str, object]] = {}
    posts: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        if self.path in self.gets:
            return self.write_json(200, self.gets[self.path])
        return self.write_json(404, {"error": "no such page"})

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append((self.path, body, dict(self.headers)))
        server.times.append(time.monotonic())
        if server.faults:
            fault = server.faults.popleft()
            time.sleep(fault.hang_s)
            return self.write(fault.status, fault.body, fault.headers)
        if self.path in self.posts:
            return getattr(self, self.posts[self.path])(body)
        return self.write_json(404, {"error": "no such page"})

    def write_json(self, status: int, value: object) -> None:
        self.write(status, json.dumps(value).encode(), {})

    def write(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        usual = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        try:
            self.send_response(status)
            for name, value in {**usual, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client gave up waiting

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
