"""A stand-in embedding server on loopback that speaks Ollama's and OpenAI's wire formats, faults included."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIGEST = "0123456789abcdef" * 4


@dataclass(frozen=True)
class Fault:
    """What the next request meets instead of an answer."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    hang_s: float = 0


def true_vector(text: str, dimension: int = 8) -> np.ndarray:
    """What the stand-in's model gives for a text; not normalized, as a real server's may not be."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=dimension) * 3


class StandIn(ThreadingHTTPServer):
    """Answers for the model `bge-m3`; `faults` are met in order, one a request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.times: list[float] = []
        self.dimension = 8
        self.shuffle = False
        self.spoil: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        if self.path == "/api/tags":
            models = [{"model": "bge-m3:latest", "name": "bge-m3:latest", "digest": DIGEST}]
            return self._send(200, {"models": models})
        return self._send(404, {"error": "no such page"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, dict(self.headers)))
        self.server.times.append(time.monotonic())
        if self.server.faults:
            fault = self.server.faults.popleft()
            time.sleep(fault.hang_s)
            return self._write(fault.status, fault.body, fault.headers)
        if self.path == "/api/embed":
            return self._ollama(body)
        if self.path == "/v1/embeddings":
            return self._openai(body)
        return self._send(404, {"error": "no such page"})

    def _ollama(self, body: dict[str, Any]) -> None:
        if body["model"] != "bge-m3":
            return self._send(404, {"error": f'model "{body["model"]}" not found, try pulling it first'})
        return self._send(200, {"model": body["model"], "embeddings": self._vectors(body["input"])})

    def _openai(self, body: dict[str, Any]) -> None:
        if body["model"] != "bge-m3":
            return self._send(404, {"error": {"message": "The model does not exist.", "code": "model_not_found"}})
        vectors = self._vectors(body["input"])
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        if self.server.shuffle:
            data.reverse()
        return self._send(200, {"object": "list", "data": data, "model": body["model"], "usage": {}})

    def _vectors(self, texts: list[str]) -> list[Any]:
        vectors: list[Any] = [true_vector(text, self.server.dimension).tolist() for text in texts]
        return self.server.spoil(vectors) if self.server.spoil else vectors

    def _send(self, status: int, value: object) -> None:
        self._write(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _write(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client gave up waiting

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
