"""A stand-in for a Qdrant server: its REST interface over loopback, the engine's own shards behind it, faults included.

Belongs here: HTTP, keys, collections and aliases by name. Does not belong here: points (`qdrant_engine`).

It is one node: no cluster, no write-ahead log that is read after a crash, no limits of a cloud.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from support.qdrant_engine import Collection, RefusedError


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


class QdrantServer:
    """Collections with points, behind an address. `requests`: (method, path, body) of all that came."""

    def __init__(self, api_key: str | None = None, read_only_key: str | None = None) -> None:
        in_memory = Path("/dev/shm")  # what the engine syncs to disk takes most of a test's time
        self.folder = Path(tempfile.mkdtemp(prefix="citelock-qdrant-", dir=in_memory if in_memory.is_dir() else None))
        self.api_key, self.read_only_key = api_key, read_only_key
        self.collections: dict[str, Collection] = {}
        self.aliases: dict[str, str] = {}
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, str, Any]] = []
        self.lock = threading.Lock()
        self._made = 0
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
        for collection in self.collections.values():
            collection.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def answer(self, method: str, path: str, body: Any) -> Any:
        """The result of a request."""
        match method, [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case "GET", [""]:
                return {"title": "qdrant - vector search engine", "version": "1.18.0"}
            case "GET", ["aliases"]:
                return {"aliases": [{"alias_name": a, "collection_name": c} for a, c in sorted(self.aliases.items())]}
            case "GET", ["collections"]:
                return {"collections": [{"name": name} for name in sorted(self.collections)]}
            case "POST", ["collections", "aliases"]:
                return self._move(body["actions"])
            case _, ["collections", name, *rest]:
                return self._of_collection(method, name, rest, body)
        raise RefusedError(404, f"{method} {path} is not known here")

    def _of_collection(self, method: str, name: str, rest: list[str], body: Any) -> Any:
        if method == "GET" and rest == ["exists"]:
            return {"exists": self.aliases.get(name, name) in self.collections}
        if method == "PUT" and not rest:
            return self._create(name, body)
        if method == "DELETE" and not rest:
            return self._drop(name)
        collection = self.collections.get(self.aliases.get(name, name))
        if collection is None:
            raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")
        calls: dict[tuple[str, str], Callable[[Any], Any]] = {
            ("PUT", "index"): collection.index,
            ("PUT", "points"): collection.upsert,
            ("POST", "points/delete"): collection.delete,
            ("POST", "points/payload"): collection.set_payload,
            ("POST", "points/scroll"): collection.scroll,
            ("POST", "points/count"): collection.count,
            ("POST", "points/query"): collection.query,
            ("POST", "points/query/batch"): collection.query_batch,
            ("GET", ""): lambda _: collection.info(),
        }
        call = calls.get((method, "/".join(rest)))
        if call is None:
            raise RefusedError(404, f"{method} {'/'.join(rest)} is not known here")
        try:
            result = call(body)
        except (ValueError, TypeError, KeyError) as error:
            raise RefusedError(400, f"Wrong input: {error}") from error
        return {"operation_id": 0, "status": "completed"} if result is None else result

    def _create(self, name: str, body: Any) -> bool:
        with self.lock:
            if name in self.collections or name in self.aliases:
                raise RefusedError(409, f"Wrong input: Collection `{name}` already exists!")
            self._made += 1
            self.collections[name] = Collection(self.folder / f"shard-{self._made}", body)
        return True

    def _drop(self, name: str) -> bool:
        with self.lock:
            collection = self.collections.pop(name, None)
            self.aliases = {alias: named for alias, named in self.aliases.items() if named != name}
        if collection:
            collection.close()
        return collection is not None

    def _move(self, actions: list[dict[str, Any]]) -> bool:
        """All actions, or none."""
        with self.lock:
            aliases = dict(self.aliases)
            for action in actions:
                match action:
                    case {"delete_alias": {"alias_name": alias}}:
                        if aliases.pop(alias, None) is None:
                            raise RefusedError(404, f"Not found: Alias {alias} does not exists!")
                    case {"create_alias": {"alias_name": alias, "collection_name": name}}:
                        if name not in self.collections:
                            raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")
                        aliases[alias] = name
                    case _:
                        raise RefusedError(400, f"action {action!r} is not known here")
            self.aliases = aliases
        return True

    def refuses(self, key: str | None, method: str, path: str) -> int | None:
        """The status by which a key is refused."""
        if self.api_key is None or key == self.api_key:
            return None
        if key is None or key != self.read_only_key:
            return 401
        asking = method == "GET" or path.endswith(("/scroll", "/query", "/query/batch", "/count"))
        return None if asking else 403

    def take_fault(self, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if path.endswith(fault.only):
                    self.faults.remove(fault)
                    return fault
        return None


@contextmanager
def started_qdrant(api_key: str | None = None, read_only_key: str | None = None) -> Iterator[QdrantServer]:
    """A server of our own, until it is left."""
    server = QdrantServer(api_key, read_only_key)
    try:
        yield server
    finally:
        server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, stand_in: QdrantServer, port: int) -> None:
        self.stand_in = stand_in
        self.open: set[Any] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def close_connections(self) -> None:
        for connection in list(self.open):
            self.shutdown_request(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what tests are about."""


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
        body = json.loads(content) if content else None
        stand_in.requests.append((self.command, path, body))
        fault = stand_in.take_fault(path) or Fault()
        if status := stand_in.refuses(self.headers.get("api-key"), self.command, path):
            return self._send(status, b"Must provide an API key or an Authorization bearer token")
        if fault.cut and not fault.late:
            return self._cut()
        if fault.status:
            return self._send(fault.status, fault.body or _error("Service overloaded"), fault.retry_after)
        time.sleep(fault.slow_s)
        try:
            result = json.dumps({"result": stand_in.answer(self.command, self.path, body), "status": "ok", "time": 0.0})
        except RefusedError as error:
            return self._send(error.status, _error(str(error)))
        return self._cut() if fault.cut else self._send(200, fault.body or result.encode())

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

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
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client gave up waiting


def _error(message: str) -> bytes:
    return json.dumps({"status": {"error": message}, "time": 0.0}).encode()
