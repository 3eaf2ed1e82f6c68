"""Vectors remembered by the content they were made from.

Belongs here: the SQLite file, its keys, what happens when it is damaged.
Does not belong here: which texts are embedded, and by what.

The file may be deleted at any time and a process using it killed at any moment; the worst that happens is that vectors
are computed again. Several processes may use it at once.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_assets.state.content_cache import LOOKUP_KEYS, ContentCache
from rag_serving.artifacts.signatures import SEAL_BYTES, Seal
from rag_serving.models.protocols import Embedder, ModelError

Progress = Callable[[int, int, float], None]
"""Called with texts done, texts in all, and the share of their characters."""


class EmbeddingObserver(Protocol):
    """Told of texts that are embedded, each with the page that it stands on."""

    def expect(self, pages: Sequence[str]) -> None:
        """Texts of these pages, one each, are not known and have to be embedded."""
        ...

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """These pages' texts were embedded, and their vectors kept."""
        ...

    def flush(self) -> None:
        """No more is embedded for now: what was told is written down."""
        ...


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
        self,
        embedder: Embedder,
        texts: Sequence[str],
        progress: Progress | None = None,
        pages: Sequence[str] = (),
    ) -> EmbeddedTexts:
        """Return the vectors of texts; see `VectorCache.embed`."""
        ...


def vector_key(model: str, text: str) -> str:
    """Return the content address of a text's vector: SHA-256 over model and text, 32 hexadecimal digits."""
    return hashlib.sha256(f"{model}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _next_size(texts: int, seconds: float) -> int:
    """Return how many texts are kept at once next, where so many took so long."""
    if seconds < _COMMIT_S / 2:
        return min(2 * texts, _MOST_COMMIT_TEXTS)
    return max(texts // 2, COMMIT_TEXTS) if seconds > 2 * _COMMIT_S else texts


class VectorCache:
    """The vectors of one model in a folder's `vectors.sqlite`, which other models may share."""

    def __init__(
        self, folder: Path, model: str, seal: Seal | None = None, observer: EmbeddingObserver | None = None
    ) -> None:
        """`seal`: vectors without it are as good as absent; None: whoever may write the file is trusted."""
        self.path = folder / FILE
        self._observer = observer
        self._seal = seal
        self.model = model
        self._file = ContentCache(self.path, _SCHEMA, VERSION)

    def embed(
        self,
        embedder: Embedder,
        texts: Sequence[str],
        progress: Progress | None = None,
        pages: Sequence[str] = (),
    ) -> EmbeddedTexts:
        """Return the texts' vectors, each different text computed at most once and soon remembered.

        A killed run loses at most 64 texts, or a second's work of a model that is faster than that: a GPU is not kept
        waiting for 64 texts to be written.

        `progress` is also told which share of the characters is done: a text takes as long as it is. `pages`: the page
        that each text stands on, which the observer is told; a text that several have is the first one's.

        Raises:
            ModelError: the model fails, is another than this cache's, or the file cannot be written.
        """
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
        """Return the vectors [n, d] of some keys in their order; None unless each of them is there.

        Raises:
            ModelError: the file cannot be used.
        """
        found = self._lookup(sorted(set(keys))) if self.path.exists() and keys else {}
        return np.stack([found[key] for key in keys]) if keys and all(key in found for key in keys) else None

    def known(self, keys: Collection[str]) -> set[str]:
        """Return those of some keys whose vectors are there.

        Raises:
            ModelError: the file cannot be used.
        """
        if not self.path.exists():
            return set()
        ordered, known = sorted(keys), set[str]()
        for start in range(0, len(ordered), _KNOWN_AT_ONCE):  # whose vectors are in memory at once
            known.update(self._lookup(ordered[start : start + _KNOWN_AT_ONCE]))
        return known

    def _lookup(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the sound vectors among those of the keys."""

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
        """Remember vectors [n, d] of length one by the keys of their texts, all or none.

        Raises:
            ModelError: they have another dimension than those before, or the file cannot be written.
        """
        plain = [(key, vector.astype("<f4").tobytes()) for key, vector in zip(keys, vectors, strict=True)]
        rows = [(bytes.fromhex(key), vector + self._seal_of(key, vector)) for key, vector in plain]

        def write(database: sqlite3.Connection) -> None:
            self._claim(database, vectors.shape[1])
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

        self._file.run(write, None)

    def _seal_of(self, key: str, vector: bytes) -> bytes:
        return self._seal.of(self.model.encode(), key.encode(), vector) if self._seal else b""

    def _sealed(self, rows: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Keys and vectors of the rows that this installation wrote."""
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

    def _claim(self, database: sqlite3.Connection, dimension: int) -> None:
        """Write down the model's dimension, or refuse to mix two."""
        database.execute("INSERT OR IGNORE INTO models VALUES (?, ?)", [self.model, dimension])
        known = self._dimension(database)
        if known != dimension:
            raise ModelError(
                f"the model {self.model!r} now gives {dimension} dimensions, {known} before: another model has taken "
                f"its name; name it otherwise or delete {self.path}"
            )


def pages_by_key(keys: Sequence[str], pages: Sequence[str]) -> dict[str, str]:
    """Return the first page that each key's text stands on; none where no page is told."""
    return dict(zip(reversed(keys), reversed(pages), strict=True)) if pages else {}


def longest_first(by_key: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return the keys of texts that are not known, the longest first: batches are of like length, and what does not fit
    into memory fails at once."""
    return sorted((key for key in by_key if key not in known), key=lambda key: len(by_key[key]), reverse=True)


def _sound(rows: Sequence[tuple[str, bytes]], dimension: int) -> dict[str, NDArray[np.float32]]:
    """Return rows of the model's dimension and of length one; others are as good as absent."""
    kept = [row for row in rows if len(row[1]) == 4 * dimension]
    vectors = np.frombuffer(b"".join(vector for _, vector in kept), "<f4").reshape(-1, dimension)
    lengths = np.linalg.norm(vectors, axis=1)
    return {kept[row][0]: vectors[row] for row in np.flatnonzero(np.abs(lengths - 1) < 1e-3)}
