"""A SQLite file of what can be computed again: safe to delete, safe to kill at any moment, safe to share.

Belongs here: opening it, its version, what happens when it is damaged; fingerprints of texts remembered by content, so
that only new text is fingerprinted. Does not belong here: how a fingerprint is made
(`rag_assets.steps.dedup`), what else is remembered and how that is sealed (`vector_cache`,
`llm_contexts.writer`).
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rag_assets.steps.dedup import FINGERPRINT, SIGNATURE_VERSION, Fingerprints, fingerprints
from rag_serving.models.protocols import ModelError

Result = TypeVar("Result")

LOOKUP_KEYS = 500
"""Keys that are looked up at once: SQLite limits the number of parameters."""

_BUSY_S = 60.0
# SQLITE_ERROR is what a missing table gives.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

_log = logging.getLogger(__name__)


class ContentCache:
    """The file at a path, with the tables of one schema version.

    `upgrades` are the statements that lead from an older version to the next one, where what the file has is worth it.
    """

    def __init__(self, path: Path, schema: str, version: int, upgrades: Mapping[int, str] | None = None) -> None:
        self.path = path
        self._schema = schema
        self._version = version
        self._upgrades = upgrades or {}

    def run(self, work: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        """Return what `work` returns, whose changes are kept together; `otherwise` where the file is damaged.

        A damaged file is put aside, so that the next use begins a new one.

        Raises:
            ModelError: the file cannot be used.
        """
        try:
            with self._opened() as database, database:
                return work(database)
        except sqlite3.DatabaseError as error:
            if self._put_aside(error):
                return otherwise
            raise ModelError(
                f"the cache {self.path} cannot be used ({error}); free space or mend its rights"
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_BUSY_S)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            self._prepare(database)
            yield database

    def lookup(self, database: sqlite3.Connection, query: str, keys: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that ends in `IN ({marks})`, for any number of keys."""
        for start in range(0, len(keys), LOOKUP_KEYS):
            part = keys[start : start + LOOKUP_KEYS]
            yield from database.execute(query.format(marks=",".join("?" * len(part))), part)

    def _put_aside(self, error: sqlite3.DatabaseError) -> bool:
        """Move a damaged file, or one of another version, out of the way; False where the trouble is another one."""
        damaged = isinstance(error, _OtherVersionError) or (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED
        if damaged:
            aside = _moved(self.path)
            _log.warning("cache %s is damaged (%s): moved to %s and rebuilt", self.path, error, aside.name)
        return damaged

    def _prepare(self, database: sqlite3.Connection) -> None:
        if database.execute("PRAGMA user_version").fetchone()[0] == self._version:
            return
        with database:
            database.execute("BEGIN IMMEDIATE")
            version = database.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
            for script in self._scripts(version):
                for statement in filter(str.strip, script.split(";")):
                    database.execute(statement)
                version = self._version
            database.execute(f"PRAGMA user_version = {version}")
        if version != self._version:
            raise _OtherVersionError(f"it has version {version}, this program uses {self._version}")

    def _scripts(self, version: int) -> list[str]:
        """Return what brings a file of a version to this program's; nothing where there is no way."""
        if version == 0:
            return [self._schema]
        steps = range(version, self._version)
        return [self._upgrades[step] for step in steps] if all(step in self._upgrades for step in steps) else []


class _OtherVersionError(sqlite3.DatabaseError):
    """The file is of another program version."""


def _moved(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    return aside


FILE = "signatures.sqlite"
_VERSION = 1
_ROWS = "SELECT key, record FROM fingerprints WHERE key IN ({marks})"
_COMMIT_TEXTS = 2_000  # what a killed run loses at most
_TABLE = "CREATE TABLE fingerprints (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID"

logger = logging.getLogger(__name__)


class SignatureCache:
    """The fingerprints in a folder's `signatures.sqlite`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._file = ContentCache(self.path, _TABLE, _VERSION)

    def fingerprints(self, texts: Sequence[str], hashes: Sequence[str]) -> tuple[Fingerprints, int]:
        """Return the fingerprint of each text [texts], and how many had to be computed.

        `hashes` are the texts' own digests (`text_hash`). A file that cannot be used costs time and is told, no more.
        """
        by_key = {f"{SIGNATURE_VERSION}:{digest}": text for digest, text in zip(hashes, texts, strict=True)}
        cached = self._lookup(list(by_key))
        missing = [key for key in by_key if key not in cached]
        for start in range(0, len(missing), _COMMIT_TEXTS):
            part = missing[start : start + _COMMIT_TEXTS]
            made = {key: row.tobytes() for key, row in zip(part, fingerprints([by_key[k] for k in part]), strict=True)}
            self._remember(made)
            cached.update(made)
        records = b"".join(cached[f"{SIGNATURE_VERSION}:{digest}"] for digest in hashes)
        return np.frombuffer(records, FINGERPRINT), len(missing)

    def _lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        def read(database: sqlite3.Connection) -> dict[str, bytes]:
            rows = self._file.lookup(database, _ROWS, keys)
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
    whole = isinstance(record, bytes) and len(record) == FINGERPRINT.itemsize + 4
    return whole and isinstance(record, bytes) and record[-4:] == _check(record[:-4])


def _check(record: bytes) -> bytes:
    return zlib.crc32(record).to_bytes(4, "little")
