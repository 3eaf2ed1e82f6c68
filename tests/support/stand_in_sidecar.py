"""A reranker sidecar over loopback that ranks by shared words, and misbehaves when it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.stand_in_http import StandInServer

FAULTS = (
    "killed",
    "hung",
    "slow",
    "dribbling",
    "garbage",
    "not HTTP",
    "NaN",
    "other ids",
    "too few",
    "failing",
    "endless",
)


class StandInSidecar:
    """`fault` None answers well; `requests` and `connections` count what came in, `last` is the last request."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self.requests = 0
        self.connections = 0
        self.last: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self._server = _Server(self)
        self.port = self._server.server_address[1]
        self._serve()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/rerank"

    def break_down(self, fault: str) -> None:
        self.fault = fault
        if fault == "killed":
            self.stop()

    def recover(self) -> None:
        if self.fault == "killed":
            self._server = _Server(self, self.port)
            self._serve()
        self.fault = None

    def stop(self) -> None:
        """Close the port and every connection."""
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()

    def _serve(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@contextmanager
def sidecar() -> Iterator[StandInSidecar]:
    stand_in = StandInSidecar()
    try:
        yield stand_in
    finally:
        if stand_in.fault != "killed":
            stand_in.stop()


class _Server(StandInServer):
    def __init__(self, stand_in: StandInSidecar, port: int = 0) -> None:
        self.stand_in = stand_in
        super().__init__(_Handler, port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.request)
        self.server.stand_in.connections += 1

    def finish(self) -> None:
        self.server.open.discard(self.request)
        super().finish()

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        stand_in = self.server.stand_in
        stand_in.requests += 1
        stand_in.headers = dict(self.headers)
        stand_in.last = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = _ranked(stand_in.last)
        match stand_in.fault:
            case "hung":
                time.sleep(30)
            case "slow":
                time.sleep(5)
                self._answer(results)
            case "dribbling":
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.02)
            case "garbage":
                self._send(200, b"\x00\xff{" * 50)
            case "not HTTP":
                self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
                self.close_connection = True
            case "NaN":
                self._answer([{**result, "score": float("nan")} for result in results])
            case "other ids":
                self._answer([{**result, "id": result["id"] + "x"} for result in results])
            case "too few":
                self._answer(results[:-1])
            case "failing":
                self._send(503, b'{"error": true, "code": "MODEL_FAILED"}')
            case "busy":
                self._send(429, b'{"error": true, "code": "BUSY"}')
            case "busy, late":
                time.sleep(0.5)
                self._send(429, b'{"error": true, "code": "BUSY"}')
            case "endless":
                self._send(200, b"[" * 5_000_000)
            case _:
                self._answer(results)

    def _answer(self, results: list[dict[str, Any]]) -> None:
        self._send(200, json.dumps({"results": results}).encode())

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _ranked(request: dict[str, Any]) -> list[dict[str, Any]]:
    words = set(request["query"].lower().split())
    scored = [
        {"id": candidate["id"], "score": float(len(words.intersection(candidate["text"].lower().split())))}
        for candidate in request["candidates"]
    ]
    return sorted(scored, key=lambda result: -result["score"])[: request["top_n"]]
