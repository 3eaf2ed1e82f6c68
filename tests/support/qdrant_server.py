"""A stand-in for a Qdrant server: its REST interface over loopback, the engine's own shards behind it, faults included.

Belongs here: keys, collections and aliases by name. Does not belong here: points (`qdrant_engine`), HTTP and faults
(`stand_in_http`).

It is one node: no cluster, no write-ahead log that is read after a crash, no limits of a cloud.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from support.qdrant_engine import Collection
from support.stand_in_http import RefusedError, StandIn


class QdrantServer(StandIn):
    """Collections with points, behind an address."""

    def __init__(self, api_key: str | None = None, read_only_key: str | None = None) -> None:
        in_memory = Path("/dev/shm")  # what the engine syncs to disk takes most of a test's time
        self.folder = Path(tempfile.mkdtemp(prefix="citelock-qdrant-", dir=in_memory if in_memory.is_dir() else None))
        self.api_key, self.read_only_key = api_key, read_only_key
        self.collections: dict[str, Collection] = {}
        self.aliases: dict[str, str] = {}
        self._made = 0
        super().__init__()

    def close(self) -> None:
        super().close()
        for collection in self.collections.values():
            collection.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wrapped(self, result: Any) -> bytes:
        return super().wrapped({"result": result, "status": "ok", "time": 0.0})

    def error(self, status: int, message: str) -> bytes:  # noqa: ARG002
        return json.dumps({"status": {"error": message}, "time": 0.0}).encode()

    def forget(self) -> None:
        for name in [*self.collections]:
            self.answer("DELETE", f"/collections/{name}", None)

    def answer(self, method: str, path: str, body: Any) -> Any:
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

    def refuses(self, headers: Mapping[str, str], method: str, path: str) -> int | None:
        key = headers.get("api-key")
        if self.api_key is None or key == self.api_key:
            return None
        if key is None or key != self.read_only_key:
            return 401
        asking = method == "GET" or path.endswith(("/scroll", "/query", "/query/batch", "/count"))
        return None if asking else 403


@contextmanager
def started_qdrant(api_key: str | None = None, read_only_key: str | None = None) -> Iterator[QdrantServer]:
    """A server of our own, until it is left."""
    server = QdrantServer(api_key, read_only_key)
    try:
        yield server
    finally:
        server.close()
