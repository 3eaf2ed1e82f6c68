"""Contexts remembered by content, so that only new passages are asked about.

Belongs here: the SQLite file. Does not belong here: how a context is made (`writer`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.llm_contexts.servers import ModelName
from rag_assets.state.content_cache import ContentCache
from rag_assets.steps.contexts.contextualize import WrittenContext
from rag_serving.artifacts.signatures import Seal

FILE = "contexts.sqlite"
SEAL_PURPOSE = "contexts"
_VERSION = 3
_ADDED = ("length REAL", "relevance REAL", "coherence REAL", "specificity REAL", "place TEXT")
_SCHEMA = """
CREATE TABLE contexts (key TEXT PRIMARY KEY, prompt_version INTEGER NOT NULL, model TEXT NOT NULL,
    context TEXT NOT NULL, quality REAL NOT NULL, issues TEXT NOT NULL, tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL, tokens_cached INTEGER NOT NULL, made_at REAL NOT NULL) WITHOUT ROWID
"""
_UPGRADE = ";".join(
    [*(f"ALTER TABLE contexts ADD COLUMN {column}" for column in _ADDED), "CREATE INDEX places ON contexts (place)"]
)
_SEALS = "ALTER TABLE contexts ADD COLUMN seal BLOB"
_COLUMNS = "prompt_version, model, context, quality, issues, tokens_in, tokens_out, tokens_cached, made_at"
_MADE_AT = 10  # of an entry: key, place, and the columns above
_SCORES = "length, relevance, coherence, specificity"
_ROWS = f"SELECT {{column}}, key, place, {_COLUMNS}, {_SCORES}, seal FROM contexts WHERE {{column}} IN ({{{{marks}}}})"
_INSERT = f"INSERT OR REPLACE INTO contexts (key, place, {_COLUMNS}, {_SCORES}, seal) VALUES ({', '.join('?' * 16)})"


class ContextCache:
    """The contexts of some models in a folder's `contexts.sqlite`, which other models may share.

    A context has two addresses: its `key` covers all that the model was asked, its `place` leaves out the page's title.
    Of several models' contexts the one of the model named first is taken, and of one model's the newest.
    """

    def __init__(self, folder: Path, *models: str, seal: Seal | None = None) -> None:
        """`seal`: contexts without it are as good as absent; None: whoever may write the file is trusted."""
        self.path = folder / FILE
        self.models = models
        self._seal = seal
        self._file = ContentCache(self.path, f"{_SCHEMA};{_UPGRADE};{_SEALS}", _VERSION, {1: _UPGRADE, 2: _SEALS})

    def lookup(self, keys: Sequence[str], oldest_prompt: int = 0) -> dict[str, WrittenContext]:
        """Return the contexts of these passages that were asked for by a prompt of at least this version.

        Raises:
            ModelError: the file cannot be used.
        """
        return self._lookup("key", keys, oldest_prompt)

    def lookup_places(self, places: Sequence[str], oldest_prompt: int = 0) -> dict[str, WrittenContext]:
        """Return contexts of the same text at the same place of the same page, under whatever title; see `lookup`."""
        return self._lookup("place", places, oldest_prompt)

    def remember(self, written: Mapping[str, WrittenContext], places: Mapping[str, str]) -> None:
        """Keep contexts by the keys of their passages, whose places are given by key, in one transaction.

        Raises:
            ModelError: the file cannot be used.
        """
        rows = [(*row, self._seal_of(row)) for row in _rows(written, places)]
        self._file.run(lambda database: database.executemany(_INSERT, rows), None)

    def _lookup(self, column: str, keys: Sequence[str], oldest_prompt: int) -> dict[str, WrittenContext]:
        addresses = {_address(model, key): (rank, key) for rank, model in enumerate(self.models) for key in keys}
        cached: dict[str, tuple[tuple[int, float], WrittenContext]] = {}

        def read(database: sqlite3.Connection) -> None:
            for address, *row in self._file.lookup(database, _ROWS.format(column=column), list(addresses)):
                *entry, seal = row
                if self._seal and not self._seal.holds(seal, _sealed(entry)):
                    continue
                (rank, key), context = addresses[address], _context(entry[2:])
                order = rank, -context.made_at
                if context.prompt_version >= oldest_prompt and (key not in cached or order < cached[key][0]):
                    cached[key] = order, context

        self._file.run(read, None)
        return {key: context for key, (_, context) in cached.items()}

    def _seal_of(self, row: Sequence[object]) -> bytes | None:
        return self._seal.of(_sealed(row)) if self._seal else None


def _sealed(row: Sequence[object]) -> bytes:
    """Return what the seal of an entry covers: all but when it was made, numbers as the file gives them back."""
    covered = [*row[:_MADE_AT], *row[_MADE_AT + 1 :]]
    return json.dumps([float(value) if isinstance(value, int) else value for value in covered]).encode()


def _address(model: str, key: str) -> str:
    return hashlib.sha256(f"{model}\0{key}".encode()).hexdigest()[:32]


def _rows(written: Mapping[str, WrittenContext], places: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    for key, context in written.items():
        model = ModelName(context.provider, context.model).key
        yield (
            _address(model, key),
            _address(model, places[key]),
            context.prompt_version,
            model,
            context.text,
            context.quality,
            json.dumps(context.issues),
            context.tokens_in,
            context.tokens_out,
            context.tokens_cached,
            context.made_at,
            *(context.scores or (None,) * 4),
        )


def _context(row: Sequence[Any]) -> WrittenContext:
    version, model, text, quality, issues, tokens_in, tokens_out, tokens_cached, made_at, *scores = row
    name = ModelName.of(model)
    return WrittenContext(
        text,
        quality,
        tuple(json.loads(issues)),
        version,
        tokens_in,
        tokens_out,
        tokens_cached,
        name.provider,
        name.model,
        made_at,
        None if None in scores else tuple(scores),
    )
