"""A stand-in for an OpenSearch server: the documented REST interface over loopback, faults included.

Belongs here: indexes and aliases by name, `_bulk`, keys. Does not belong here: documents and queries
(`opensearch_engine`), HTTP and its faults (`stand_in_http`).

It is one node: no shards, no graphs, no memory that is used up but as told. No real server was at hand to compare it
with: it does what the documentation says.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.opensearch_engine import StoredIndex
from support.stand_in_http import RefusedError, StandIn

REJECTED = {"type": "rejected_execution_exception", "reason": "rejected execution of coordinating operation"}
SPOILT = {"type": "mapper_parsing_exception", "reason": "failed to parse"}


class OpenSearchServer(StandIn):
    """Indexes with documents, behind an address.

    `item_faults`: (count, status) by which the first documents of the next `_bulk` are refused. `failed_shards`: how
    many searches are answered by some shards alone.
    """

    def __init__(self, user: str | None = None, read_only_user: str | None = None) -> None:
        self.user, self.read_only_user = user, read_only_user
        self.indexes: dict[str, StoredIndex] = {}
        self.aliases: dict[str, set[str]] = {}
        self.item_faults: deque[tuple[int, int]] = deque()
        self.failed_shards = 0
        super().__init__()

    def body_of(self, path: str, content: bytes) -> Any:
        if path.endswith("/_bulk"):
            return [json.loads(line) for line in content.splitlines() if line]
        return super().body_of(path, content)

    def error(self, status: int, message: str) -> bytes:
        kind, _, reason = message.partition(": ")
        cause = {"type": kind, "reason": reason or message}
        return json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()

    def refuses(self, headers: Mapping[str, str], method: str, path: str) -> int | None:
        if self.user is None:
            return None
        given = headers.get("Authorization") or ""
        if given == _basic(self.user):
            return None
        if self.read_only_user is None or given != _basic(self.read_only_user):
            return 401
        return None if method in {"GET", "HEAD"} or path.endswith(("/_search", "/_count")) else 403

    def answer(self, method: str, path: str, body: Any) -> Any:
        address = urlsplit(path)
        params = {name: values[-1] for name, values in parse_qs(address.query).items()}
        match method, [unquote(part) for part in address.path.strip("/").split("/")]:
            case "GET", ["_alias", name]:
                return self._aliases(lambda _, alias: alias == name, named=name)
            case "GET", [pattern, "_alias"]:
                return self._aliases(lambda index, _: fnmatchcase(index, pattern))
            case "POST", ["_aliases"]:
                return self._move(body["actions"])
            case "PUT", [name]:
                return self._create(name, body)
            case "DELETE", [name]:
                return self._drop(name)
            case "HEAD", [name]:
                return self._index(name) and {}
            case (("POST" | "PUT"), [name, "_bulk"]):
                return self._bulk(self._index(name), body, params)
            case "POST", [name, "_refresh"]:
                self._index(name).refresh()
                return {"_shards": _SHARDS}
            case "POST", [name, "_count"]:
                return {"count": self._index(name).count(body), "_shards": _SHARDS}
            case "POST", [name, "_search"]:
                return self._search(self._index(name), body, params)
            case "POST", [name, "_update", document]:
                index = self._index(name)
                index.update(document, body["doc"])
                if params.get("refresh") == "true":
                    index.refresh()
                return {"_index": name, "_id": document, "result": "updated"}
            case "GET", [name, "_stats", "store"]:
                return {"indices": {name: {"primaries": {"store": {"size_in_bytes": self._index(name).size}}}}}
        raise RefusedError(400, f"illegal_argument_exception: {method} {path} is not known here")

    def forget(self) -> None:
        """Lose everything."""
        self.indexes.clear()
        self.aliases.clear()

    def _index(self, name: str) -> StoredIndex:
        held = [index for index, aliases in self.aliases.items() if name in aliases]
        index = self.indexes.get(held[0] if len(held) == 1 else name)
        if index is None:
            raise RefusedError(404, f"index_not_found_exception: no such index [{name}]")
        return index

    def _create(self, name: str, body: Any) -> Any:
        with self.lock:
            if name in self.indexes:
                raise RefusedError(400, f"resource_already_exists_exception: index [{name}] already exists")
            if name != name.lower() or name.startswith(("_", "-", "+")) or set(name) & set('\\/*?"<>| ,#:'):
                raise RefusedError(400, f"invalid_index_name_exception: Invalid index name [{name}]")
            self.indexes[name] = StoredIndex(name, body)
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def _drop(self, name: str) -> Any:
        with self.lock:
            if self.indexes.pop(name, None) is None:
                raise RefusedError(404, f"index_not_found_exception: no such index [{name}]")
            self.aliases.pop(name, None)
        return {"acknowledged": True}

    def _aliases(self, wanted: Any, named: str | None = None) -> Any:
        found = {}
        for index in self.indexes:
            names = sorted(self.aliases.get(index, ()))
            if named is None and wanted(index, ""):
                found[index] = {"aliases": {name: {} for name in names}}
            elif named in names:
                found[index] = {"aliases": {str(named): {}}}
        if named is not None and not found:
            raise RefusedError(404, f"aliases_not_found_exception: alias [{named}] missing")
        return found

    def _move(self, actions: list[dict[str, Any]]) -> Any:
        """All actions, or none."""
        with self.lock:
            aliases = {index: set(names) for index, names in self.aliases.items()}
            for action in actions:
                ((what, which),) = action.items()
                index, alias = which["index"], which["alias"]
                if index not in self.indexes:
                    raise RefusedError(404, f"index_not_found_exception: no such index [{index}]")
                if what == "add":
                    aliases.setdefault(index, set()).add(alias)
                elif what == "remove" and alias in aliases.get(index, ()):
                    aliases[index].remove(alias)
                else:
                    raise RefusedError(404, f"aliases_not_found_exception: aliases [{alias}] missing")
            self.aliases = aliases
        return {"acknowledged": True}

    def _bulk(self, index: StoredIndex, lines: list[Any], params: dict[str, str]) -> Any:
        with self.lock:
            refused, status = self.item_faults.popleft() if self.item_faults else (0, 0)
        items = []
        for place, (action, source) in enumerate(zip(lines[::2], lines[1::2], strict=True)):
            name = action["index"]["_id"]
            item: dict[str, Any] = {"_index": index.name, "_id": name}
            if place < refused:
                item |= {"status": status, "error": REJECTED if status == 429 else SPOILT}
            else:
                try:
                    index.write(name, source)
                    item |= {"status": 201, "result": "created"}
                except RefusedError as error:
                    kind, _, reason = str(error).partition(": ")
                    item |= {"status": error.status, "error": {"type": kind, "reason": reason}}
            items.append({"index": item})
        if params.get("refresh") == "true":
            index.refresh()
        return {"took": 1, "errors": any("error" in item["index"] for item in items), "items": items}

    def _search(self, index: StoredIndex, body: Any, params: dict[str, str]) -> Any:
        with self.lock:
            failed, self.failed_shards = self.failed_shards, max(0, self.failed_shards - 1)
        if failed and params.get("allow_partial_search_results") == "false":
            raise RefusedError(503, "search_phase_execution_exception: all shards failed")
        shards = {**_SHARDS, "failed": 1 if failed else 0}
        return {"took": 1, "timed_out": False, "_shards": shards, "hits": {"hits": index.search(body)}}


_SHARDS = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}


def _basic(user: str) -> str:
    return f"Basic {base64.b64encode(user.encode()).decode()}"


@contextmanager
def started_opensearch(user: str | None = None, read_only_user: str | None = None) -> Iterator[OpenSearchServer]:
    """A server of our own, until it is left."""
    server = OpenSearchServer(user, read_only_user)
    try:
        yield server
    finally:
        server.close()
