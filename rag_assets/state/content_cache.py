"""SQLite files of what can be computed again: safe to delete, safe to kill at any moment, safe to share."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_assets.steps.dedup import FINGERPRINT, SIGNATURE_VERSION, Fingerprints, fingerprints
from rag_serving.artifacts.secret import SEAL_BYTES, Seal
from rag_serving.artifacts.store import write_ahead
from rag_serving.models.protocols import Embedder, ModelError

Result = TypeVar("Result")
LOOKUP_KEYS = 500
"""Keys that are looked up at once: SQLite limits the number of parameters."""
_BUSY_S = 60.0
# SQLITE_ERROR is what a missing table gives.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_log = logging.getLogger(__name__)


class ContentCache:
    """The file at a path, with the tables of one schema version."""

    def __init__(self, path: Path, schema: str, version: int) -> None:
        self.path, self._schema, self._version = path, schema, version

    def run(self, work: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        """Return the result of `work`, whose changes are stored together; `otherwise` if the file is damaged. A damaged
        file is put aside, so that the next use begins a new one. Raises ModelError: the file cannot be used."""
        try:
            with self._opened() as database, database:
                return work(database)
        except sqlite3.DatabaseError as error:
            damaged = (
                isinstance(error, _OtherVersionError) or (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED
            )
            if not damaged:
                raise ModelError(
                    f"the cache {self.path} cannot be used ({error}); free space or mend its rights"
                ) from error
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
                number += 1
            for suffix in ("-wal", "-shm", ""):
                part = self.path.with_name(self.path.name + suffix)
                if part.exists():
                    part.replace(aside.with_name(aside.name + suffix))
            _log.warning("cache %s is damaged (%s): moved to %s and rebuilt", self.path, error, aside.name)
            return otherwise

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_BUSY_S)) as database:
            write_ahead(database)
            self._prepare(database)
            yield database

    def lookup(self, database: sqlite3.Connection, query: str, keys: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that ends in `IN ({marks})`, for any number of keys."""
        for start in range(0, len(keys), LOOKUP_KEYS):
            part = keys[start : start + LOOKUP_KEYS]
            yield from database.execute(query.format(marks=",".join("?" * len(part))), part)

    def _prepare(self, database: sqlite3.Connection) -> None:
        if database.execute("PRAGMA user_version").fetchone()[0] == self._version:
            return
        with database:
            database.execute("BEGIN IMMEDIATE")
            version = database.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
            if version == 0:
                for statement in filter(str.strip, self._schema.split(";")):
                    database.execute(statement)
                version = self._version
            database.execute(f"PRAGMA user_version = {version}")
        if version != self._version:
            raise _OtherVersionError(f"it has version {version}, this program uses {self._version}")


class _OtherVersionError(sqlite3.DatabaseError):
    """The file is of another program version."""


SIGNATURES_FILE = "signatures.sqlite"
_VERSION = 1
_RECORDS = "SELECT key, record FROM fingerprints WHERE key IN ({marks})"
_COMMIT_TEXTS = 2_000  # what a killed run loses at most
_TABLE = "CREATE TABLE fingerprints (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID"
logger = logging.getLogger(__name__)


class SignatureCache:
    """The fingerprints in a folder's `signatures.sqlite`."""

    def __init__(self, folder: Path, signed: bool = True) -> None:
        self.path, self._signed = folder / SIGNATURES_FILE, signed
        self._file = ContentCache(self.path, _TABLE, _VERSION)

    def fingerprints(self, texts: Sequence[str], hashes: Sequence[str]) -> tuple[Fingerprints, int]:
        """Return the fingerprint of each text [texts], and how many had to be computed. `hashes` are the texts' own
        digests (`text_hash`). An unusable file costs time and is reported, no more."""
        version = f"{SIGNATURE_VERSION}" if self._signed else f"{SIGNATURE_VERSION}-"
        by_key = {f"{version}:{digest}": text for digest, text in zip(hashes, texts, strict=True)}
        cached = self._lookup(list(by_key))
        missing = [key for key in by_key if key not in cached]
        for start in range(0, len(missing), _COMMIT_TEXTS):
            part = missing[start : start + _COMMIT_TEXTS]
            rows = fingerprints([by_key[key] for key in part], self._signed)
            made = {key: row.tobytes() for key, row in zip(part, rows, strict=True)}
            self._remember(made)
            cached.update(made)
        records = b"".join(cached[f"{version}:{digest}"] for digest in hashes)
        return np.frombuffer(records, FINGERPRINT), len(missing)

    def _lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        def read(database: sqlite3.Connection) -> dict[str, bytes]:
            rows = self._file.lookup(database, _RECORDS, keys)
            return {key: record[:-4] for key, record in rows if _is_sound(record)}

        try:
            return self._file.run(read, {})
        except ModelError as error:
            logger.warning("%s; fingerprints are computed", error)
            return {}

    def _remember(self, made: dict[str, bytes]) -> None:
        rows = [(key, record + _check(record)) for key, record in made.items()]
        try:
            self._file.run(lambda db: db.executemany("INSERT OR REPLACE INTO fingerprints VALUES (?, ?)", rows), None)
        except ModelError as error:
            logger.warning("%s; fingerprints are computed again", error)


def _is_sound(record: object) -> bool:
    """Return whether a stored record is whole: a fingerprint and its check sum."""
    return isinstance(record, bytes) and len(record) == FINGERPRINT.itemsize + 4 and record[-4:] == _check(record[:-4])


def _check(record: bytes) -> bytes:
    return zlib.crc32(record).to_bytes(4, "little")


Progress = Callable[[int, int, float], None]
"""Called with texts done, texts in all, and the share of their characters."""


class EmbeddingObserver(Protocol):
    """Receives embedded texts, each with its page."""

    def expect(self, pages: Sequence[str]) -> None:
        """Texts of these pages, one each, are not known and have to be embedded."""

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """These pages' texts were embedded, and their vectors kept."""

    def flush(self) -> None:
        """Write down the usage so far: embedding pauses."""


FILE = "vectors.sqlite"
COMMIT_TEXTS = 64  # kept at once, so that a killed run loses no more; many more where they take less than a second
_MOST_COMMIT_TEXTS = 2048
_COMMIT_S = 1.0
VERSION = 1
_KNOWN_AT_ONCE = 20_000
_SCHEMA = """
CREATE TABLE models (model TEXT PRIMARY KEY, dimension INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL);
"""
_ROWS = "SELECT key, vector FROM vectors WHERE key IN ({marks})"

SEAL_PURPOSE = "vectors"


@dataclass(frozen=True)
class EmbeddedTexts:
    """Vectors [n, d] of texts in their order, the texts' content addresses, and how many had to be computed."""

    vectors: NDArray[np.float32]
    keys: list[str]
    computed: int


class TextVectors(Protocol):
    """Gives the vectors of texts, of which it embeds or has embedded what it does not know."""

    def embed(
        self, embedder: Embedder, texts: Sequence[str], progress: Progress | None = None, pages: Sequence[str] = ()
    ) -> EmbeddedTexts:
        """Return the vectors of texts; see `VectorCache.embed`."""


def vector_key(model: str, text: str) -> str:
    """Return the content address of a text's vector: SHA-256 over model and text, 32 hexadecimal digits."""
    return hashlib.sha256(f"{model}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _next_size(texts: int, seconds: float) -> int:
    if seconds < _COMMIT_S / 2:
        return min(2 * texts, _MOST_COMMIT_TEXTS)
    return max(texts // 2, COMMIT_TEXTS) if seconds > 2 * _COMMIT_S else texts


class VectorCache:
    """The vectors of one model in a folder's `vectors.sqlite`, which other models may share."""

    def __init__(
        self, folder: Path, model: str, seal: Seal | None = None, observer: EmbeddingObserver | None = None
    ) -> None:
        """`seal`: vectors without it count as absent; None: writers of the file are trusted."""
        self.path = folder / FILE
        self._observer = observer
        self._seal = seal
        self.model = model
        self._file = ContentCache(self.path, _SCHEMA, VERSION)

    def embed(
        self, embedder: Embedder, texts: Sequence[str], progress: Progress | None = None, pages: Sequence[str] = ()
    ) -> EmbeddedTexts:
        """Return the texts' vectors, each different text computed at most once and soon remembered. A killed run loses
        at most 64 texts, or a second's work of a faster model: a GPU is not kept waiting for 64 texts to be written.
        `progress` also receives the finished share of the characters: a text takes as long as it is. `pages`: the page
        of each text, for the observer; a repeated text counts for the first one. Raises ModelError: the model fails, is
        another than this cache's, or the file cannot be written."""
        if embedder.name != self.model:
            raise ModelError(f"vectors of {self.model!r} are asked of {embedder.name!r}; open the cache for that model")
        keys = [vector_key(self.model, text) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        page_of = pages_by_key(keys, pages)
        found = self._lookup(list(by_key))
        missing = longest_first(by_key, found)
        if self._observer:
            self._observer.expect([page_of.get(key, "") for key in missing])
        work, worked = sum(len(by_key[key]) for key in missing), 0
        done, size = 0, COMMIT_TEXTS
        while part := missing[done : done + size]:
            began = time.monotonic()
            vectors = embedder.embed_documents([by_key[key] for key in part])
            found.update(zip(part, vectors, strict=True))
            self.keep(part, vectors)
            if self._observer:
                self._observer.count([(page_of.get(key, ""), by_key[key]) for key in part])
            worked += sum(len(by_key[key]) for key in part)
            done += len(part)
            if progress:
                progress(done, len(missing), worked / work if work else 1.0)
            size = _next_size(size, time.monotonic() - began)
        if not keys:
            return EmbeddedTexts(np.empty((0, embedder.dimension), np.float32), [], 0)
        return EmbeddedTexts(np.stack([found[key] for key in keys]), keys, len(missing))

    def remembered(self, keys: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the vectors [n, d] of some keys in their order; None unless each of them is there. Raises ModelError:
        the file cannot be used."""
        found = self._lookup(sorted(set(keys))) if self.path.exists() and keys else {}
        return np.stack([found[key] for key in keys]) if keys and all(key in found for key in keys) else None

    def known(self, keys: Collection[str]) -> set[str]:
        """Return those of some keys with stored vectors. Raises ModelError: the file cannot be used."""
        if not self.path.exists():
            return set()
        ordered, known = sorted(keys), set[str]()
        for start in range(0, len(ordered), _KNOWN_AT_ONCE):  # whose vectors are in memory at once
            known.update(self._lookup(ordered[start : start + _KNOWN_AT_ONCE]))
        return known

    def _lookup(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:

        def read(database: sqlite3.Connection) -> dict[str, NDArray[np.float32]]:
            found: dict[str, NDArray[np.float32]] = {}
            dimension = self._dimension(database)
            for start in range(0, len(keys) if dimension else 0, LOOKUP_KEYS):
                part = [bytes.fromhex(key) for key in keys[start : start + LOOKUP_KEYS]]
                rows = [(key.hex(), blob) for key, blob in self._file.lookup(database, _ROWS, part)]
                found.update(_sound(self._sealed(rows), dimension or 0))
            return found

        return self._file.run(read, {})

    def keep(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Remember vectors [n, d] of length one by the keys of their texts, all or none. Raises ModelError: they have
        another dimension than those before, or the file cannot be written."""
        plain = [(key, vector.astype("<f4").tobytes()) for key, vector in zip(keys, vectors, strict=True)]
        rows = [(bytes.fromhex(key), vector + self._seal_of(key, vector)) for key, vector in plain]

        def write(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR IGNORE INTO models VALUES (?, ?)", [self.model, dimension := vectors.shape[1]])
            if (known := self._dimension(database)) != dimension:
                raise ModelError(
                    f"the model {self.model!r} now gives {dimension} dimensions, {known} before: another model has "
                    f"taken its name; name it otherwise or delete {self.path}"
                )
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

        self._file.run(write, None)

    def _seal_of(self, key: str, vector: bytes) -> bytes:
        return self._seal.of(self.model.encode(), key.encode(), vector) if self._seal else b""

    def _sealed(self, rows: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        if self._seal is None:
            return list(rows)
        parted = ((key, blob[:-SEAL_BYTES], blob[-SEAL_BYTES:]) for key, blob in rows)
        return [
            (key, vector)
            for key, vector, seal in parted
            if self._seal.holds(seal, self.model.encode(), key.encode(), vector)
        ]

    def _dimension(self, database: sqlite3.Connection) -> int | None:
        row = database.execute("SELECT dimension FROM models WHERE model = ?", [self.model]).fetchone()
        return int(row[0]) if row else None


def pages_by_key(keys: Sequence[str], pages: Sequence[str]) -> dict[str, str]:
    """Return the first page of each key's text; empty without pages."""
    return dict(zip(reversed(keys), reversed(pages), strict=True)) if pages else {}


def longest_first(by_key: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return the keys of unknown texts, the longest first: batches are of like length, and a text too large for memory
    fails at once."""
    return sorted((key for key in by_key if key not in known), key=lambda key: len(by_key[key]), reverse=True)


def _sound(rows: Sequence[tuple[str, bytes]], dimension: int) -> dict[str, NDArray[np.float32]]:
    """Return rows of the model's dimension and of length one; others are as good as absent."""
    kept = [row for row in rows if len(row[1]) == 4 * dimension]
    vectors = np.frombuffer(b"".join(vector for _, vector in kept), "<f4").reshape(-1, dimension)
    lengths = np.linalg.norm(vectors, axis=1)
    return {kept[row][0]: vectors[row] for row in np.flatnonzero(np.abs(lengths - 1) < 1e-3)}
