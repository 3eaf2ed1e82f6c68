"""A stand-in for a server that is asked over HTTP by JSON: loopback, keys, faults.

Belongs here: HTTP and what goes wrong with it. Does not belong here: what is answered (`qdrant_server`).
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class RefusedError(Exception):
    """What a server answers with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Fault:
    """What the next request meets whose path ends in `only`. `cut`: the connection ends before an answer, after the
    work is done where `late`; `status`: an answer of this status; `slow_s`: a pause before a good answer."""

    only: str = ""
    status: int = 0
    retry_after: str | None = None
    slow_s: float = 0
    cut: bool = False
    late: bool = False
    body: bytes | None = None


class StandIn(ABC):
    """A server behind an address. `requests`: (method, path, body) of all that came."""

    def __init__(self) -> None:
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, str, Any]] = []
        self.lock = threading.Lock()
        self._server: _Server | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before, with all that was stored."""
        self._server = _Server(self, self.port)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._server:
            self._server.shutdown()
            self._server.close_connections()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        self.stop()

    @abstractmethod
    def answer(self, method: str, path: str, body: Any) -> Any:
        """The result of a request."""

    @abstractmethod
    def refuses(self, headers: Mapping[str, str], method: str, path: str) -> int | None:
        """The status by which a key is refused."""

    @abstractmethod
    def error(self, status: int, message: str) -> bytes:
        """A refusal as it is sent."""

    @abstractmethod
    def forget(self) -> None:
        """Lose everything."""

    def body_of(self, path: str, content: bytes) -> Any:  # noqa: ARG002
        """What a request says."""
        return json.loads(content) if content else None

    def wrapped(self, result: Any) -> bytes:
        """A result as it is sent."""
        return json.dumps(result).encode()

    def take_fault(self, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if path.endswith(fault.only):
                    self.faults.remove(fault)
                    return fault
        return None


class StandInServer(ThreadingHTTPServer):
    """Serves a stand-in. `open`: connections, which handlers note and which can be closed from outside."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        self.open: set[Any] = set()
        super().__init__(("127.0.0.1", port), handler)

    def close_connections(self) -> None:
        for connection in list(self.open):
            self.shutdown_request(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what tests are about."""


class _Server(StandInServer):
    def __init__(self, stand_in: StandIn, port: int) -> None:
        self.stand_in = stand_in
        super().__init__(_Handler, port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.request)

    def finish(self) -> None:
        self.server.open.discard(self.request)
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def handle_any(self) -> None:
        stand_in = self.server.stand_in
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        body = stand_in.body_of(path, content)
        stand_in.requests.append((self.command, path, body))
        fault = stand_in.take_fault(path) or Fault()
        if status := stand_in.refuses(self.headers, self.command, path):
            return self._send(status, b"Must provide an API key or an Authorization bearer token")
        if fault.cut and not fault.late:
            return self._cut()
        if fault.status:
            return self._send(
                fault.status, fault.body or stand_in.error(fault.status, "Service overloaded"), fault.retry_after
            )
        time.sleep(fault.slow_s)
        try:
            result = stand_in.wrapped(stand_in.answer(self.command, self.path, body))
        except RefusedError as error:
            return self._send(error.status, stand_in.error(error.status, str(error)))
        return self._cut() if fault.cut else self._send(200, fault.body or result)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def _cut(self) -> None:
        self.close_connection = True
        self.server.shutdown_request(self.request)

    def _send(self, status: int, content: bytes, retry_after: str | None = None) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if retry_after is not None:
                self.send_header("Retry-After", retry_after)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client gave up waiting
