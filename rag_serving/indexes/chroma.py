"""Dense search: exact by the codes of the vectors, or by Chroma's graphs, as `indexing.dense_search` says. Chroma is
embedded in the tenant's folder, or a server; one client per process and place, with its telemetry off. A collection
never changes once it has its name. Access is decided before anything is scored. With `auto` up to `EXACT_ROWS` rows
that a caller may read are searched exactly: with `codes` that is faster than asking Chroma, needs less memory, and does
not reveal the rest of a shard by the misses of an approximate search. Above that, and always with `chroma`, Chroma's
graphs are walked, which were made of all chunks; if one is unusable, search is exact again. Chroma is loaded with the
first search."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.index import DenseSearch
from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes import exact
from rag_serving.indexes.exact import Vectors, VectorTable, WindowMap, chunk_id_of
from rag_serving.indexes.readable_rows import Hit, Readable, best
from rag_serving.indexes.shard_files import DATABASE, database_fault, file_fault
from rag_serving.models.breaker import Breaker

if TYPE_CHECKING:
    import httpx


FORMAT = 1
_READ_AT_ONCE = 50_000


@dataclass(frozen=True)
class ShardCollections:
    """All collections of one tenant."""

    client: Any
    folder: Path | None  # of their files; None: a server has them

    @classmethod
    def open(cls, place: ChromaLocation) -> Self:
        """Connect; raises DenseError."""
        return cls(open_client(place), None if place.url else place.folder)

    def file_fault(self, name: str) -> str | None:
        """Return the fault of a collection's files, which must not be read then; None if none is known."""
        return file_fault(self.folder, name, thorough=True) if self.folder else None

    def get(self, name: str) -> Any | None:
        """Return a collection by name, None if there is none."""
        from chromadb.errors import NotFoundError

        try:
            return self.client.get_collection(name, embedding_function=None)
        except NotFoundError:
            return None


def stored_readers(collections: ShardCollections, name: str) -> Iterator[tuple[str, str]]:
    """Yield every (vector id, reader class) of a collection. Raises DenseError: it is gone or damaged."""
    try:
        collection = collections.get(name)
        if collection is None:
            raise DenseError(f"collection {name} is missing")
        offset = 0
        while (found := collection.get(include=["metadatas"], limit=_READ_AT_ONCE, offset=offset))["ids"]:
            offset += len(found["ids"])
            readers = [metadata["readers"] for metadata in found["metadatas"]]
            yield from zip(found["ids"], readers, strict=True)
    except DenseError:
        raise
    except Exception as error:  # Chroma raises its own, its transport's and plain ValueErrors
        raise DenseError(f"collection {name} cannot be read ({one_line(error)})") from error


def query(collection: Any, vector: NDArray[np.float32], k: int, readers: Sequence[str] | None) -> list[str]:
    """Return ids of the k nearest, only those of the given reader classes (None: all). Raises DenseError: the
    collection is gone or damaged."""
    where = {} if readers is None else {"where": {"readers": {"$in": list(readers)}}}
    try:
        found = collection.query(query_embeddings=vector[None], n_results=k, include=[], **where)
        ids: list[str] = found["ids"][0]
    except Exception as error:  # Chroma raises its own, its transport's and plain ValueErrors
        raise DenseError(f"collection {collection.name} cannot be searched ({one_line(error)})") from error
    return ids


EXACT_ROWS = 1_000_000
_NO_GRAPHS = "dense index searched exactly: it was built without Chroma's graphs; run `citelock build`"
RETRY_S = 30.0  # how long a shard that failed is left alone before Chroma is tried again

Rows = NDArray[np.int64]
RowOf = Callable[[str], int | None]


@dataclass(frozen=True)
class ShardRows:
    """A shard's place in the chunk table: its collection's name, its rows (ascending), the classes among them."""

    collection: str
    rows: Rows
    classes: frozenset[str]


class DenseIndex:
    """The shards of one generation, opened; safe to search from several threads."""

    def __init__(
        self,
        place: ChromaLocation,
        shards: Sequence[ShardRows],
        table: VectorTable,
        row_of: RowOf,
        mode: DenseSearch = "auto",
    ) -> None:
        """`row_of` gives the row of a chunk id."""
        self._shards = [OpenShard(place, shard, row_of, table.windows) for shard in shards]
        self._table, self._mode = table, mode
        self._exact_rows = {"auto": EXACT_ROWS, "exact": table.rows, "chroma": 0}[mode]
        self._pool: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()
        if table.rows > self._exact_rows:
            self.connect()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why shards are searched exactly instead of by Chroma, one line per shard."""
        if self._mode == "chroma" and not self._shards and self._table.rows:
            return (_NO_GRAPHS,)
        return tuple(shard.problem for shard in self._shards if shard.problem)

    def connect(self) -> tuple[str, ...]:
        """Open every collection; returns the problems."""
        for shard in self._shards:
            shard.connect()
        return self.problems

    def search(
        self,
        vector: Vectors,
        k: int,
        classes: frozenset[str],
        readable: Readable,
        among: NDArray[np.bool_] | None = None,
    ) -> list[Hit]:
        """Return the k nearest rows by cosine similarity to `vector` [d], best first. `classes` are the reader classes
        that may be seen, `readable` the rows they cover. `among` [chunks] narrows the search to some rows, which are
        then compared one by one."""
        if among is not None:
            return exact.search(self._table, vector, k, np.flatnonzero(readable.mask & among))
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        many = len(readable.rows) > self._exact_rows
        found = self._by_chroma(vector, k, classes, readable.mask) if many else None
        if found is None:
            return exact.search(self._table, vector, k, readable.rows)
        return best(found, exact.similarities(self._table, vector, found), k)

    def similarities(self, vector: Vectors, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector` [d]."""
        return exact.similarities(self._table, vector, rows)

    def mean(self, rows: Rows) -> Vectors:
        """Return an L2-normalized vector for each of some rows [n, d], the mean of its windows."""
        return self._table.mean(rows)

    def approximate(self, vector: Vectors, k: int) -> list[Hit]:
        """Return the k nearest that Chroma alone finds. Raises DenseError: it cannot search a shard."""
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        rows = np.concatenate([np.zeros(0, np.int64), *(shard.approximate(vector, k) for shard in self._shards)])
        return best(rows, exact.similarities(self._table, vector, rows), k)

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=False)

    def _by_chroma(self, vector: Vectors, k: int, classes: frozenset[str], allowed: NDArray[np.bool_]) -> Rows | None:
        """Return the k nearest of every shard by its graph, None if one of them cannot answer."""
        shards = [shard for shard in self._shards if shard.classes & classes]
        search = self._threads().map if len(shards) > 1 else map
        found = [*search(lambda shard: shard.nearest(vector, k, classes, allowed), shards)]
        whole = [rows for rows in found if rows is not None]
        return np.concatenate(whole) if whole and len(whole) == len(found) else None

    def _threads(self) -> ThreadPoolExecutor:
        with self._starting:
            self._pool = self._pool or ThreadPoolExecutor(min(8, len(self._shards)), "shard")
            return self._pool


class OpenShard:
    """One shard and its collection, which is opened with the first search."""

    def __init__(self, place: ChromaLocation, shard: ShardRows, row_of: RowOf, windows: WindowMap | None) -> None:
        self.classes = shard.classes
        self.problem: str | None = None
        self._place, self._name, self._rows, self._row_of = place, shard.collection, shard.rows, row_of
        self._windows = windows
        self._collection: Any = None
        self._breaker = Breaker(failures=1, reset_s=RETRY_S)

    def nearest(self, vector: Vectors, k: int, classes: frozenset[str], allowed: NDArray[np.bool_]) -> Rows | None:
        """Return rows of the k nearest that the classes may see; None if it cannot be used or finds too few."""
        if self._collection is None and not (self._breaker.allow() and self.connect()):
            return None
        everything = self.classes <= classes
        rows = self._rows if everything else self._rows[allowed[self._rows]]
        k = min(k, len(rows))
        try:
            found = self._distinct(vector, k, rows, None if everything else sorted(self.classes & classes))
        except DenseError as error:
            self._fail(one_line(error))
            return None
        found = found[allowed[found]]  # access to a row never depends on Chroma's metadata
        return found if len(found) == k else None

    def approximate(self, vector: Vectors, k: int) -> Rows:
        """Return rows that Chroma alone finds; raises DenseError if it cannot."""
        if self._collection is None and not self.connect():
            raise DenseError(self.problem)
        return self._distinct(vector, min(k, len(self._rows)), self._rows, None)

    def connect(self) -> bool:
        """Open the collection and compare its files and count; a shard that cannot be used says why in `problem`."""
        if self._place.url is None and (fault := file_fault(self._place.folder, self._name, thorough=True)):
            self._fail(f"collection {self._name} is damaged: {fault}")
            return False
        try:
            collection = ShardCollections.open(self._place).get(self._name)
            count = None if collection is None else collection.count()
        except Exception as error:  # from Chroma's storage or transport, of any class
            self._fail(one_line(error))
            return False
        if count != (expected := self._vectors_of(self._rows)):
            state = "is missing" if count is None else f"holds {count} of {expected} vectors"
            self._fail(f"collection {self._name} {state}")
            return False
        self._collection, self.problem = collection, None
        self._breaker.succeed()
        return True

    def _distinct(self, vector: Vectors, k: int, rows: Rows, readers: Sequence[str] | None) -> Rows:
        """Return the k rows of the nearest vectors, each once; more vectors are fetched until they cover k rows.
        `rows`: those visible to the readers; their vectors are all that can be found."""
        asked, most = k, self._vectors_of(rows)
        while True:
            found = self._known(query(self._collection, vector, asked, readers))
            if len(found) >= k or asked >= most:
                return found[:k]
            asked = min(2 * asked, most)

    def _vectors_of(self, rows: Rows) -> int:
        return len(rows) if self._windows is None else int(self._windows.counts[rows].sum())

    def _known(self, ids: Sequence[str]) -> Rows:
        """Return rows of those ids that the generation has, each once, in the order of its nearest vector."""
        chunk_ids = ids if self._windows is None else dict.fromkeys(map(chunk_id_of, ids))
        rows = (self._row_of(chunk_id) for chunk_id in chunk_ids)
        return np.array([row for row in rows if row is not None], dtype=np.int64)

    def _fail(self, reason: str) -> None:
        self._collection = None
        self._breaker.fail()
        self.problem = f"dense index searched exactly: {reason}; `citelock generations repair` mends it"


_CONNECT_S, _ANSWER_S = 3.0, 60.0


class DenseError(RedactedError):
    """Chroma or a collection cannot be used; the message says which and why."""


@dataclass(frozen=True)
class ChromaLocation:
    """The location of a tenant's collections: a folder, or a database of the server at `url`."""

    folder: Path
    tenant: str
    url: str | None = None

    def __str__(self) -> str:
        return self.url or str(self.folder)


_clients: dict[ChromaLocation, tuple[object, Any]] = {}
_lock = threading.Lock()


def open_client(place: ChromaLocation) -> Any:
    """Return the process's one client of a place; a folder that was replaced since is opened anew. Raises DenseError:
    the server does not answer or the folder cannot be opened."""
    with _lock:
        try:
            stamp = _stamp(place)
            known = _clients.get(place)
            if known and known[0] == stamp:
                return known[1]
            if known:
                del _clients[place]
                _close(known[1])
            client = _connect_server(place) if place.url else _open_folder(place)
            _clients[place] = _stamp(place), client
        except DenseError as error:
            raise DenseError(f"Chroma at {place} cannot be opened: {error}") from None
        except Exception as error:  # Chroma raises plain ValueError, its own and its transport's errors
            raise DenseError(f"Chroma at {place} cannot be opened ({one_line(error)})") from error
        return client


def close_clients() -> None:
    """Close all clients of this process, some 5 MB per opened collection, which the next search opens again."""
    with _lock:
        for _, client in _clients.values():
            _close(client)
        _clients.clear()


def _stamp(place: ChromaLocation) -> object:
    """Changes when the folder is deleted and made again: an open client would go on writing to the deleted one."""
    if place.url:
        return None
    try:
        return (place.folder / DATABASE).stat().st_ino
    except FileNotFoundError:
        return None


def _library() -> Any:
    """Return the package, which only a generation with graphs needs. Raises DenseError: it is not installed."""
    try:
        import chromadb
    except ModuleNotFoundError as error:
        raise DenseError(f"{error.name} is not installed: pip install 'citelock[chroma]'") from None
    return chromadb


def _settings() -> Any:
    """Settings that send no telemetry and read no stray `.env` file, of one client: it alters them."""
    return _read_settings().model_copy()


@cache
def _read_settings() -> Any:
    """To ask the environment for each takes as long as to open a folder."""
    return _library().config.Settings(_env_file=None, anonymized_telemetry=False)


def _open_folder(place: ChromaLocation) -> Any:
    """Return a client of the folder; other files are not even shown to Chroma, which would remember its failure."""
    chromadb = _library()
    if fault := database_fault(place.folder):
        raise DenseError(fault)
    place.folder.mkdir(parents=True, exist_ok=True)
    return chromadb.PersistentClient(str(place.folder), settings=_settings())


def _connect_server(place: ChromaLocation) -> Any:
    """Return a client of the tenant's own database on the server, which is made when it is not there yet."""
    chromadb = _library()
    parts = urlsplit(place.url or "")
    ssl = parts.scheme == "https"
    server: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1",
        "port": parts.port or (443 if ssl else 8000),
        "ssl": ssl,
    }
    database = f"citelock-{place.tenant}"
    default: Any = chromadb.HttpClient(**server, settings=_settings())
    _limit_waiting(default)
    try:
        default._admin_client.create_database(database)
    except Exception as error:
        if "exist" not in str(error):
            raise
    client = chromadb.HttpClient(**server, settings=_settings(), database=database)
    _close(default)
    _limit_waiting(client)
    return client


def _limit_waiting(client: Any) -> None:
    """Chroma's client waits for ever by default; a hung server must not hang questions."""
    import httpx

    for session in _sessions(client):
        session.timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)


def _close(client: Any) -> None:
    """Close a client and, which Chroma leaves open, its connections."""
    sessions = _sessions(client)
    client.close()
    for session in sessions:
        session.close()


def _sessions(client: Any) -> list[httpx.Client]:
    """A server's client has connections, and the second one that it makes to administer; a folder's has none."""
    import httpx

    servers = [getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))]
    sessions = (getattr(server, "_session", None) for server in servers)
    return [session for session in sessions if isinstance(session, httpx.Client)]


def one_line(error: BaseException) -> str:
    """Return an error's message without line breaks, at most 200 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
