"""Fingerprints of texts remembered by content, so that only new text is fingerprinted.

Belongs here: the SQLite file, what happens when it is damaged.
Does not belong here: how a fingerprint is made (`rag_assets.steps.dedup.minhash`).

The file may be deleted at any time and a process using it killed at any moment; the worst that happens is that
fingerprints are computed again.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag_assets.state.content_cache import ContentCache
from rag_assets.steps.dedup.minhash import FINGERPRINT, VERSION, Fingerprints, fingerprints
from rag_serving.models.protocols import ModelError

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
        by_key = {f"{VERSION}:{digest}": text for digest, text in zip(hashes, texts, strict=True)}
        cached = self._lookup(list(by_key))
        missing = [key for key in by_key if key not in cached]
        for start in range(0, len(missing), _COMMIT_TEXTS):
            part = missing[start : start + _COMMIT_TEXTS]
            made = {key: row.tobytes() for key, row in zip(part, fingerprints([by_key[k] for k in part]), strict=True)}
            self._remember(made)
            cached.update(made)
        records = b"".join(cached[f"{VERSION}:{digest}"] for digest in hashes)
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
