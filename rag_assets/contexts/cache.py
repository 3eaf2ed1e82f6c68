"""Contexts remembered by content, so that only new passages are asked about.

Belongs here: the SQLite file. Does not belong here: how a context is made (`writer`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rag_assets.steps.contextualize import WrittenContext
from rag_serving.cache_file import CacheFile
from rag_serving.models.protocols import ModelError

FILE = "contexts.sqlite"
_VERSION = 1
_SCHEMA = """
CREATE TABLE contexts (key TEXT PRIMARY KEY, prompt_version INTEGER NOT NULL, model TEXT NOT NULL,
    context TEXT NOT NULL, quality REAL NOT NULL, issues TEXT NOT NULL, tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL, tokens_cached INTEGER NOT NULL, made_at REAL NOT NULL) WITHOUT ROWID
"""
_ROWS = """
SELECT key, prompt_version, context, quality, issues, tokens_in, tokens_out, tokens_cached
FROM contexts WHERE key IN ({marks})
"""


class ContextCache:
    """The contexts of one model in a folder's `contexts.sqlite`, which other models may share."""

    def __init__(self, folder: Path, model: str) -> None:
        self.path = folder / FILE
        self.model = model
        self._file = CacheFile(self.path, _SCHEMA, _VERSION)

    def lookup(self, keys: Sequence[str], oldest_prompt: int = 0) -> dict[str, WrittenContext]:
        """The contexts of these passages that were asked for by a prompt of at least this version.

        Raises:
            ModelError: the file cannot be used.
        """
        addresses = {self._address(key): key for key in keys}
        try:
            with self._file.open() as database:
                rows = self._file.lookup(database, _ROWS, list(addresses))
                return {
                    addresses[address]: WrittenContext(text, quality, tuple(json.loads(issues)), version, *tokens)
                    for address, version, text, quality, issues, *tokens in rows
                    if version >= oldest_prompt
                }
        except sqlite3.DatabaseError as error:
            self._recover(error)
            return {}

    def remember(self, written: Mapping[str, WrittenContext]) -> None:
        """Keep contexts by the keys of their passages, in one transaction.

        Raises:
            ModelError: the file cannot be used.
        """
        try:
            with self._file.open() as database, database:
                database.executemany(
                    "INSERT OR REPLACE INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._rows(written)
                )
        except sqlite3.DatabaseError as error:
            self._recover(error)

    def _rows(self, written: Mapping[str, WrittenContext]) -> Iterable[tuple[object, ...]]:
        for key, context in written.items():
            yield (
                self._address(key),
                context.prompt_version,
                self.model,
                context.text,
                context.quality,
                json.dumps(context.issues),
                context.tokens_in,
                context.tokens_out,
                context.tokens_cached,
                time.time(),
            )

    def _address(self, key: str) -> str:
        return hashlib.sha256(f"{self.model}\0{key}".encode()).hexdigest()[:32]

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        if not self._file.put_aside(error):
            raise ModelError(f"the context cache {self.path} cannot be used ({error}); free space or mend its rights")
