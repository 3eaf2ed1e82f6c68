"""One generation in the database, read in the name of one principal.

Belongs here: what the protocol asks, statement by statement. Does not belong here: the nearest vectors (`nearest`),
who may read what: row policies decide (`migrations.versions`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from citelock_stores.postgres.claims import SignedClaims, Signer, is_storable
from citelock_stores.postgres.generations import StoredGeneration
from citelock_stores.postgres.nearest import NearestSearch
from citelock_stores.postgres.packing import unpack_vectors
from citelock_stores.postgres.sessions import Sessions
from citelock_stores.remote.packing import term_hash, unpack_numbers, unpack_tables
from citelock_stores.remote.protocol import (
    Nearest,
    PostingKind,
    Postings,
    RemoteManifest,
    Rows,
    Vector,
    WindowVectors,
)
from citelock_stores.remote.seals import RESEND
from citelock_stores.remote.tables import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    REMOTE_SENTENCES,
    REMOTE_TERMS,
    REMOTE_TEXTS,
    TEXT_COLUMNS,
)
from rag_serving.access.principals import Principal
from rag_serving.config.index import Index
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import RemoteDataError

WHERE = "tenant_id = %s AND placement = %s AND generation = %s"
_TEXTS = "content, context_before, context_after, structure"


class PostgresGeneration:
    """One published generation of a tenant. Safe to use from several threads."""

    def __init__(
        self, stored: StoredGeneration, manifest: RemoteManifest, sessions: Sessions, signer: Signer, settings: Index
    ) -> None:
        self.stored, self.manifest = stored, manifest
        self._sessions, self._signer, self._settings = sessions, signer, settings

    def reader(self, principal: Principal) -> PostgresReader:
        """Return what reads in the name of a principal."""
        return PostgresReader(self.stored, principal, self._sessions, self._signer, self._settings)


class PostgresReader:
    """One generation in the name of one principal. Safe to use from several threads."""

    def __init__(
        self, stored: StoredGeneration, principal: Principal, sessions: Sessions, signer: Signer, settings: Index
    ) -> None:
        self._stored, self._principal = stored, principal
        self._sessions, self._signer, self._settings = sessions, signer, settings

    def classes(self) -> frozenset[str]:
        """Return the reader classes of the generation that the principal satisfies."""
        return frozenset(self._chunks_of_classes)

    def chunks(self) -> pa.Table:
        """Return REMOTE_CHUNKS of every chunk that may be read, by `row`."""
        return self._catalog("chunks", REMOTE_CHUNKS.columns, ["row"])

    def places(self) -> pa.Table:
        """Return REMOTE_PLACES of every place that may be told of, by `row` and `place`."""
        return self._catalog("places", REMOTE_PLACES.columns, ["row", "place"])

    def originals(self) -> pa.Table:
        """Return REMOTE_ORIGINALS of every page all of whose text may be read, by `page_id`."""
        return self._catalog("originals", REMOTE_ORIGINALS.columns, ["page_id"])

    def original(self, sha256: str) -> bytes:
        """Return the bytes of one of the `originals`; RemoteDataError where it is none of them."""
        rows = self._rows(
            "SELECT f.content FROM citelock.original_files f WHERE f.tenant_id = %s AND f.sha256 = %s AND EXISTS "
            "(SELECT FROM citelock.original_rights r WHERE r.tenant_id = %s AND r.generation = %s AND r.sha256 = %s)",
            (self._stored.tenant_id, sha256, self._stored.tenant_id, self._stored.id, sha256),
        )
        if not rows:
            raise RemoteDataError("the file of a page is not in the database of `index`")
        return bytes(rows[0][0])

    def seals(self) -> pa.Table:
        """Return REMOTE_SEALS of the satisfied classes, by `readers` and `part`."""
        return self._catalog("seals", REMOTE_SEALS.columns, ["readers", "part"])

    def texts(self, rows: Sequence[int]) -> pa.Table:
        """Return REMOTE_TEXTS of some chunks, in any order."""
        found = self._of_rows(f'"row"::bigint, {_TEXTS}, exact', "document_chunks", rows)
        try:
            texts = [
                {"row": row, **(json.loads(bytes(exact)) if exact else dict(zip(TEXT_COLUMNS, texts, strict=True)))}
                for row, *texts, exact in found
            ]
            return pa.Table.from_pylist(texts, schema=REMOTE_TEXTS.columns)
        except (ValueError, TypeError, RecursionError, pa.ArrowException) as error:
            raise RemoteDataError(f"a text in the database is damaged ({one_line(error)}); {RESEND}") from error

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        """Return REMOTE_SENTENCES of some chunks, in any order."""
        found = self._of_rows('"row"::bigint, records', "sentence_vectors", rows)
        numbers, records = zip(*found, strict=True) if found else ((), ())
        return pa.table([list(numbers), list(records)], schema=REMOTE_SENTENCES.columns)

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        """Return the k chunks nearest to `vector` [d], of those in `among`."""
        search = NearestSearch(self._stored, self._settings, self._rows)
        return search.nearest(vector, k, sum(self._chunks_of_classes.values()), among)

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        """Return the vectors of some chunks, in the order of `rows`."""
        held: dict[int, list[bytes]] = defaultdict(list)
        one = self._of_rows('"row", vector_send(embedding)', "document_chunks", rows, "AND embedding IS NOT NULL")
        for row, packed in one:
            held[row].append(packed)
        if self._stored.windows and len(held) < len(set(rows)):
            columns = '"row", vector_send(embedding)'
            for row, packed in self._of_rows(columns, "chunk_windows", rows, 'ORDER BY "row", "window"'):
                held[row].append(packed)
        if any(row not in held for row in rows):
            raise RemoteDataError("a passage has no vector that its reader may see")
        counts = np.array([len(held[row]) for row in rows], dtype=np.int64)
        packed_vectors = [packed for row in rows for packed in held[row]]
        return WindowVectors(counts, unpack_vectors(packed_vectors, self._stored.dimension))

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> Mapping[str, Postings]:
        """Return which chunks have some terms, those of none left out."""
        wanted = [term for term in set(terms) if is_storable(term)]
        if not wanted:
            return {}
        found = self._rows(
            f'SELECT term, "rows", counts FROM citelock.postings WHERE {WHERE} AND kind = %s '
            "AND term_hash = ANY(%s::bigint[]) AND term = ANY(%s::text[])",
            (*self._stored.key, kind, [term_hash(term) for term in wanted], wanted),
        )
        parts: dict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
        for term, rows, counts in found:
            parts[term].append((rows, counts))
        return {term: _merged(classes) for term, classes in parts.items()}

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        """Return REMOTE_TERMS, by `term` in code point order."""
        found = self._rows(
            f"SELECT term, sum(chunks)::bigint FROM citelock.postings WHERE {WHERE} AND kind = %s "
            'GROUP BY term ORDER BY term COLLATE "C"',
            (*self._stored.key, kind),
        )
        terms, chunks = zip(*found, strict=True) if found else ((), ())
        return pa.table([list(terms), list(chunks)], schema=REMOTE_TERMS.columns)

    @cached_property
    def _chunks_of_classes(self) -> dict[str, int]:
        """How many chunks each of the satisfied classes has."""
        if self._principal.tenant != self._stored.tenant:
            return {}
        found = self._rows(
            "SELECT c.class, g.chunks FROM citelock.generation_classes g "
            "JOIN citelock.reader_classes c ON c.tenant_id = g.tenant_id AND c.id = g.reader_class "
            "WHERE g.tenant_id = %s AND g.generation = %s",
            (self._stored.tenant_id, self._stored.id),
        )
        return {readers: int(chunks) for readers, chunks in found}

    def _catalog(self, kind: str, schema: pa.Schema, order: list[str]) -> pa.Table:
        found = self._rows(
            "SELECT content FROM citelock.catalog_blocks WHERE tenant_id = %s AND generation = %s AND kind = %s",
            (self._stored.tenant_id, self._stored.id, kind),
        )
        return unpack_tables([content for (content,) in found], schema, order)

    def _of_rows(self, columns: str, table: str, rows: Sequence[int], rest: str = "") -> list[tuple[Any, ...]]:
        wanted = [int(row) for row in dict.fromkeys(rows) if 0 <= row < 1 << 31]
        if not wanted:
            return []
        return self._rows(
            f'SELECT {columns} FROM citelock.{table} WHERE {WHERE} AND "row" = ANY(%s::int[]) {rest}',
            (*self._stored.key, wanted),
        )

    def _rows(
        self, statement: str, values: Sequence[object], local: Mapping[str, str] | None = None
    ) -> list[tuple[Any, ...]]:
        return self._sessions.rows(self._claims, statement, values, local)

    def _claims(self, seconds: float) -> SignedClaims:
        return self._signer.for_reader(self._principal, seconds)


def _merged(classes: Sequence[tuple[bytes, bytes]]) -> Postings:
    """Return the postings of one term in several reader classes as one; counts are 1 where none are kept."""
    rows = np.concatenate([unpack_numbers(rows) for rows, _ in classes]).astype(np.int64)
    counts = np.concatenate(
        [unpack_numbers(counts) if counts else np.ones(len(rows) // 4, np.int32) for rows, counts in classes]
    )
    order = np.argsort(rows, kind="stable")
    return Postings(rows[order], counts[order])
