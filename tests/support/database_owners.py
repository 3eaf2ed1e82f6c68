"""Whoever owns a database of published generations, and alters what is in it without the installation's secret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pyarrow as pa
from qdrant_client import QdrantClient

from citelock_stores.postgres.sessions import KEY_PURPOSE, ClaimSigner
from citelock_stores.qdrant.points import point_id
from citelock_stores.remote.protocol import REMOTE_CHUNKS, TEXT_COLUMNS, pack_table
from rag_serving.artifacts.secret import derived_key
from rag_serving.config.loading import Config
from support.synthetic import TENANT

Row = dict[str, Any]
Change = Callable[[Row], Row]
"""What becomes of a row of REMOTE_CHUNKS, without its texts; another reader class opens it to others."""


class DatabaseOwner(ABC):
    """May read and write everything."""

    @abstractmethod
    def texts(self, generation: str, row: int) -> Row:
        """The texts of a chunk."""

    @abstractmethod
    def write_texts(self, generation: str, row: int, texts: Mapping[str, Any]) -> None:
        """Put other texts in their place."""

    @abstractmethod
    def change_rows(self, generation: str, change: Change) -> None:
        """Change the rows that say what a chunk is, all of them."""

    @abstractmethod
    def remove_seals(self, generation: str) -> None:
        """Remove every seal."""

    def rows(self, generation: str) -> dict[int, Row]:
        """The rows by number."""
        found: dict[int, Row] = {}
        self.change_rows(generation, lambda row: found.setdefault(row["row"], row))
        return found


def owner_of(config: Config) -> DatabaseOwner:
    """The owner of the database that a configuration names."""
    return PostgresOwner(config) if config.index.kind == "postgres" else QdrantOwner(config)


class PostgresOwner(DatabaseOwner):
    def __init__(self, config: Config) -> None:
        self._url = config.index.owner_url or ""
        self._signer = ClaimSigner(derived_key(config.home, KEY_PURPOSE))

    def texts(self, generation: str, row: int) -> Row:
        statement = 'SELECT {} FROM citelock.document_chunks WHERE generation = %s AND "row" = %s'
        columns = "content, context_before, context_after, structure"
        (found,) = self.run(statement.format(columns), generation, row)
        return dict(zip(TEXT_COLUMNS, found, strict=True))

    def write_texts(self, generation: str, row: int, texts: Mapping[str, Any]) -> None:
        self.run(
            "UPDATE citelock.document_chunks SET content = %s, context_before = %s, context_after = %s, structure = %s "
            'WHERE generation = %s AND "row" = %s RETURNING 1',
            *(texts[name] for name in TEXT_COLUMNS), generation, row,
        )  # fmt: skip

    def change_rows(self, generation: str, change: Change) -> None:
        columns = "reader_class, block, content"
        found = self.run(
            f"SELECT {columns} FROM citelock.catalog_blocks WHERE generation = %s AND kind = 'chunks'", generation
        )
        for readers, block, content in found:
            rows = unpacked(content)
            changed = [change(dict(row)) for row in rows]
            if changed == rows:
                continue
            target = self._signer.class_id(TENANT, changed[0]["readers"])
            self.run(
                "UPDATE citelock.catalog_blocks SET content = %s, reader_class = %s, block = %s "
                "WHERE generation = %s AND kind = 'chunks' AND reader_class = %s AND block = %s RETURNING 1",
                packed(changed), target, block + (100 if target != readers else 0), generation, readers, block,
            )  # fmt: skip

    def remove_seals(self, generation: str) -> None:
        self.run("DELETE FROM citelock.catalog_blocks WHERE generation = %s AND kind = 'seals' RETURNING 1", generation)

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, who is subject to no policy."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).fetchall()


class QdrantOwner(DatabaseOwner):
    def __init__(self, config: Config) -> None:
        self._client = QdrantClient(url=config.index.url, check_compatibility=False)
        self._base = config.index.collection

    def texts(self, generation: str, row: int) -> Row:
        (found,) = (payload for payload in self._payloads(generation, "chunk") if payload["row"] == row)
        return {name: found.get(name) for name in TEXT_COLUMNS}

    def write_texts(self, generation: str, row: int, texts: Mapping[str, Any]) -> None:
        self._write(generation, row, texts)

    def change_rows(self, generation: str, change: Change) -> None:
        for payload in self._payloads(generation, "chunk"):
            row = {name: payload.get(name) for name in REMOTE_CHUNKS.columns.names}
            changed = change(dict(row))
            if changed != row:
                self._write(generation, payload["row"], changed)

    def remove_seals(self, generation: str) -> None:
        ids = [point_id(TENANT, generation, "seal", number) for number in range(10)]
        self._client.delete(self._collection(generation), ids, wait=True)

    def _write(self, generation: str, row: int, fields: Mapping[str, Any]) -> None:
        point = point_id(TENANT, generation, "chunk", row)
        self._client.set_payload(self._collection(generation), dict(fields), [point], wait=True)

    def _payloads(self, generation: str, kind: str) -> Iterator[Row]:
        records, _ = self._client.scroll(self._collection(generation), limit=1000, with_payload=True)
        yield from (payload for record in records if (payload := record.payload or {}).get("point") == kind)

    def _collection(self, generation: str) -> str:
        return f"{self._base}.{TENANT}.{generation}"


def unpacked(content: bytes) -> list[Row]:
    """The rows of a block."""
    rows: list[Row] = pa.ipc.open_stream(content).read_all().to_pylist()
    return rows


def packed(rows: list[Row]) -> bytes:
    """A block of rows."""
    return pack_table(pa.Table.from_pylist(rows, REMOTE_CHUNKS.columns))
