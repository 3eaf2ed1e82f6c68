"""The database of published generations, read on behalf of one principal. Nearest vectors: exact if few rows are
readable, else by HNSW and compared again. An HNSW index has all rows of a generation; row policies drop hidden ones
while it is walked, and the walk goes on until there are enough (`hnsw.iterative_scan`). If a caller may read few of the
rows, or filters leave few, all of them are compared instead. Scores are computed here from the stored vectors, as for a
generation on disk. A filter does not steer the walk, which would end among the first rows that pass, however near they
are. The thousand nearest rows are fetched, and if enough of them pass, these are the filter's nearest. Otherwise the
filtered rows are far from the question, and are compared row by row."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.postgres.migrations.upgrade import HEAD
from citelock_stores.postgres.publisher import GenerationPlace, Publisher, count_of_tenant, remove_tenant
from citelock_stores.postgres.sessions import KEY_PURPOSE, UNSIGNED, ClaimSigner, DatabaseSessions, is_storable
from citelock_stores.remote.generation import SearchedDatabase
from citelock_stores.remote.protocol import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    REMOTE_SENTENCES,
    REMOTE_TERMS,
    REMOTE_TEXTS,
    RESEND,
    TEXT_COLUMNS,
    Nearest,
    PostingKind,
    Postings,
    RemoteManifest,
    Rows,
    Vector,
    WindowVectors,
    unpack_tables,
)
from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.index import Index
from rag_serving.config.loading import Config, ConfigError
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import Figures, PublishedError, RemoteDataError, RemoteError, StoredInfo

_VECTOR_HEADER = 4  # bytes of vector_send before the components: dimension and an unused number, 16 bits each


def pack_vectors(vectors: NDArray[np.float32]) -> list[bytes]:
    """Return vectors [n, d] as pgvector's binary form, one each."""
    header = np.array([vectors.shape[1], 0], ">u2").tobytes()
    return [header + row.tobytes() for row in vectors.astype(">f4")]


def unpack_vectors(packed: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Return vectors [n, d] of pgvector's binary form. Raises RemoteDataError: one has another dimension."""
    size = _VECTOR_HEADER + 4 * dimension
    if any(len(vector) != size for vector in packed):
        raise RemoteDataError("a stored vector has another dimension than its generation; publish it again")
    joined = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), size)[:, _VECTOR_HEADER:]
    return np.ascontiguousarray(joined).view(">f4").astype(np.float32)


def pack_numbers(numbers: NDArray[np.int32]) -> bytes:
    """Return 32-bit numbers, little endian."""
    return numbers.astype("<i4").tobytes()


def unpack_numbers(packed: bytes) -> NDArray[np.int32]:
    """Return the numbers of `pack_numbers`."""
    return np.frombuffer(packed, "<i4").astype(np.int32)


def term_hash(term: str) -> int:
    """Return the key of a term: 64 bits with a sign."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def vector_text(vector: NDArray[np.float32]) -> str:
    """Return one vector [d] as pgvector reads it from text, to the last bit."""
    return "[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]"


_SPARE = 16  # candidates beyond k whose order the database, with other rounding, may see otherwise
_MOST_CANDIDATES = 1000  # pgvector's limit of hnsw.ef_search
_WALKED = 1000  # rows that a walk is worth: candidates that are looked at, each some times as dear as a comparison
_WHERE = "tenant_id = %s AND placement = %s AND generation = %s AND embedding IS NOT NULL"
_AMONG = ' AND "row" = ANY(%s::int[])'
_IN_BITMAP = ' AND get_bit(%s::bytea, "row") = 1'


RunQuery = Callable[[str, Sequence[object], Mapping[str, str] | None], list[tuple[Any, ...]]]
"""Runs a statement in the reader's name, with further settings of its transaction."""


class _Filter(NamedTuple):
    """A condition that some rows fulfil, and its value."""

    condition: str
    value: object


class NearestSearch:
    """Searches one generation by similarity in one reader's name."""

    def __init__(self, stored: GenerationPlace, settings: Index, read: RunQuery) -> None:
        self._stored, self._settings, self._read = stored, settings, read

    def nearest(self, vector: Vector, k: int, readable: int, among: Rows | None = None) -> Nearest:
        """Return the k nearest chunks of `readable` ones, of those in `among`, best first."""
        available = readable if among is None else min(readable, len(among))
        if k <= 0 or not available:
            return Nearest(np.zeros(0, np.int64), np.zeros(0, np.float32))
        if among is not None and len(among) >= self._stored.chunks:  # names every row there is
            among = None
        by_index = self._stored.ann != "none" and available >= self._fewest(among is not None)
        rows = None
        if among is not None:
            rows = _Filter(_IN_BITMAP, self._bitmap(among)) if by_index else _Filter(_AMONG, among.tolist())
        best: dict[int, float] = {}
        for table in ["document_chunks", *(["chunk_windows"] if self._stored.windows else [])]:
            for row, score in self._of_table(table, vector, (k, available), rows, by_index):
                best[row] = max(score, best.get(row, -np.inf))
        return _best(best, k)

    def _fewest(self, is_filtered: bool) -> int:
        """Return from how many rows on the index is walked. A walk costs as much as _WALKED / share comparisons, where
        a filter leaves that share of all rows."""
        few = self._settings.ann_chunks
        return min(few, math.isqrt(_WALKED * self._stored.chunks)) if is_filtered else few

    def _bitmap(self, rows: Rows) -> bytes:
        """Return a bit for each chunk, set for some: many numbers, one by one, take much longer to send and to read."""
        bits = np.zeros(self._stored.chunks, np.bool_)
        bits[rows[(rows >= 0) & (rows < len(bits))]] = True
        return np.packbits(bits, bitorder="little").tobytes()

    def _of_table(
        self, table: str, vector: Vector, size: tuple[int, int], among: _Filter | None, by_index: bool
    ) -> list[tuple[int, float]]:
        """Return rows of a table with their similarities: the nearest of k different ones at least, `size`: k, and how
        many there may be."""
        k, available = size
        if by_index and among:
            found = self._passing(table, vector, among)
            if len({row for row, _ in found}) >= min(k, available):
                return self._scored(found, vector)
            by_index = False
        limit = (2 if by_index else 1) * k + _SPARE
        while True:
            found = self._candidates(table, vector, limit, among, by_index)
            different = len({row for row, _ in found})
            if len(found) < limit or different >= min(k, available):
                return self._scored(found, vector)
            limit *= 2  # several windows of one chunk are among the nearest

    def _candidates(
        self, table: str, vector: Vector, limit: int, among: _Filter | None, by_index: bool
    ) -> list[tuple[Any, ...]]:
        statement = (
            f'SELECT "row", vector_send(embedding) FROM citelock.{table} WHERE {_WHERE}'
            f"{among.condition if among else ''} ORDER BY {self._distance(by_index)} LIMIT %s"
        )
        values = [*self._stored.key, *([among.value] if among else []), vector_text(vector), limit]
        candidates = max(self._settings.ef_search, limit)
        return self._read(statement, values, self._walk(candidates) if by_index else None)

    def _passing(self, table: str, vector: Vector, among: _Filter) -> list[tuple[int, bytes]]:
        """Return those of the nearest rows that pass a filter by a bitmap."""
        statement = (
            f'SELECT "row", CASE WHEN true{among.condition} THEN vector_send(embedding) END FROM citelock.{table} '
            f"WHERE {_WHERE} ORDER BY {self._distance(True)} LIMIT %s"
        )
        values = [among.value, *self._stored.key, vector_text(vector), _MOST_CANDIDATES]
        found = self._read(statement, values, self._walk(_MOST_CANDIDATES))
        return [(row, packed) for row, packed in found if packed is not None]

    def _distance(self, by_index: bool) -> str:
        """Return the distance of a row to a vector, in the words that the index is made for or in full precision."""
        kind, dimension = self._stored.ann, self._stored.dimension
        return (
            f"(embedding::{kind}({dimension})) <=> %s::{kind}({dimension})" if by_index else "embedding <=> %s::vector"
        )

    def _walk(self, candidates: int) -> dict[str, str]:
        """Return the settings of a walk through the index: until there are enough rows, whatever policies drop."""
        return {
            "hnsw.ef_search": str(min(_MOST_CANDIDATES, candidates)),
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(max(20_000, self._stored.chunks)),
            "enable_seqscan": "off",  # estimates know nothing of values: no statistics are kept of them
            "enable_sort": "off",
        }

    def _scored(self, found: Sequence[tuple[Any, ...]], vector: Vector) -> list[tuple[int, float]]:
        if not found:
            return []
        vectors = unpack_vectors([packed for _, packed in found], self._stored.dimension)
        scores = vectors @ np.asarray(vector, np.float32)
        return list(zip([row for row, _ in found], scores.tolist(), strict=True))


def _best(scores: Mapping[int, float], k: int) -> Nearest:
    """Return the k best rows, equal ones in row order."""
    rows = np.fromiter(scores.keys(), np.int64, len(scores))
    values = np.fromiter(scores.values(), np.float32, len(scores))
    order = np.lexsort((rows, -values))[:k]
    return Nearest(rows[order], values[order])


WHERE = "tenant_id = %s AND placement = %s AND generation = %s"
_TEXTS = "content, context_before, context_after, structure"


@dataclass(frozen=True)
class PostgresGeneration:
    """One published generation of a tenant; a `RemoteGeneration`. Safe to use from several threads."""

    stored: GenerationPlace
    manifest: RemoteManifest
    sessions: DatabaseSessions
    signer: ClaimSigner
    settings: Index

    def reader(self, principal: Principal) -> PostgresReader:
        return PostgresReader(self, principal)


class PostgresReader:
    """One generation on behalf of one principal; a `RemoteReader`. Safe to use from several threads."""

    def __init__(self, generation: PostgresGeneration, principal: Principal) -> None:
        self._generation, self._stored, self._principal = generation, generation.stored, principal

    def classes(self) -> frozenset[str]:
        return frozenset(self._chunks_of_classes)

    def chunks(self) -> pa.Table:
        return self._catalog("chunks", REMOTE_CHUNKS.columns, ["row"])

    def places(self) -> pa.Table:
        return self._catalog("places", REMOTE_PLACES.columns, ["row", "place"])

    def originals(self) -> pa.Table:
        return self._catalog("originals", REMOTE_ORIGINALS.columns, ["page_id"])

    def original(self, sha256: str) -> bytes:
        rows = self._rows(
            "SELECT f.content FROM citelock.original_files f WHERE f.tenant_id = %s AND f.sha256 = %s AND EXISTS "
            "(SELECT FROM citelock.original_rights r WHERE r.tenant_id = %s AND r.generation = %s AND r.sha256 = %s)",
            (self._stored.tenant_id, sha256, self._stored.tenant_id, self._stored.id, sha256),
        )
        if not rows:
            raise RemoteDataError("the file of a page is not in the database of `index`")
        return bytes(rows[0][0])

    def seals(self) -> pa.Table:
        return self._catalog("seals", REMOTE_SEALS.columns, ["readers", "part"])

    def texts(self, rows: Sequence[int]) -> pa.Table:
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
        found = self._of_rows('"row"::bigint, records', "sentence_vectors", rows)
        numbers, records = zip(*found, strict=True) if found else ((), ())
        return pa.table([list(numbers), list(records)], schema=REMOTE_SENTENCES.columns)

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        search = NearestSearch(self._stored, self._generation.settings, self._rows)
        return search.nearest(vector, k, sum(self._chunks_of_classes.values()), among)

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
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
        found = self._rows(
            f"SELECT term, sum(chunks)::bigint FROM citelock.postings WHERE {WHERE} AND kind = %s "
            'GROUP BY term ORDER BY term COLLATE "C"',
            (*self._stored.key, kind),
        )
        terms, chunks = zip(*found, strict=True) if found else ((), ())
        return pa.table([list(terms), list(chunks)], schema=REMOTE_TERMS.columns)

    @cached_property
    def _chunks_of_classes(self) -> dict[str, int]:
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
        sign = partial(self._generation.signer.for_reader, self._principal)
        return self._generation.sessions.rows(sign, statement, values, local)


def _merged(classes: Sequence[tuple[bytes, bytes]]) -> Postings:
    """Return the postings of one term in several reader classes as one; counts are 1 if none are kept."""
    rows = np.concatenate([unpack_numbers(rows) for rows, _ in classes]).astype(np.int64)
    counts = np.concatenate(
        [unpack_numbers(counts) if counts else np.ones(len(rows) // 4, np.int32) for rows, counts in classes]
    )
    order = np.argsort(rows, kind="stable")
    return Postings(rows[order], counts[order])


class PostgresStore:
    """Generations in PostgreSQL; a `RemoteStore`. Safe to use from several threads; nothing is sent by making one."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError: index.url is not set. Raises SecretError: the installation's secret cannot be used."""
        if not config.index.url:
            raise ConfigError("index.url is not set: postgresql://citelock_app@host/name (CITELOCK_INDEX__URL)")
        self._settings = config.index
        self._signer = ClaimSigner(derived_key(config.home, KEY_PURPOSE))
        self._sessions = DatabaseSessions(config.index.url, config.index.connections, config.index.statement_timeout_s)

    def current(self, tenant: str) -> str | None:
        ((known, generation),) = self._rows(
            tenant,
            "SELECT citelock.claims() IS NOT NULL, "
            "(SELECT generation FROM citelock.pointers WHERE tenant_id = %s)::text",
            (self._signer.tenant_id(tenant),),
        )
        if not known:
            raise RemoteDataError(UNSIGNED)
        named: str | None = generation
        return named

    def open(self, tenant: str, generation_id: str) -> PostgresGeneration:
        tenant_id = self._signer.tenant_id(tenant)
        rows = self._rows(
            tenant,
            "SELECT placement, dimension, ann, chunks, counts, manifest, newest FROM citelock.generations "
            "WHERE tenant_id = %s AND generation = %s",
            (tenant_id, generation_id),
        )
        if not rows:
            raise RemoteDataError(f"generation {generation_id} is not in the database of `index`; run `citelock build`")
        placement, dimension, ann, chunks, counts, content, newest = rows[0]
        windows = int(counts.get("chunk_windows", 0))
        stored = GenerationPlace(tenant, tenant_id, generation_id, placement, dimension, ann, chunks, windows)
        manifest = RemoteManifest(bytes(content), {key: datetime.fromisoformat(at) for key, at in newest.items()})
        return PostgresGeneration(stored, manifest, self._sessions, self._signer, self._settings)

    def faults(self, tenant: str) -> tuple[str, ...]:
        try:
            return tuple(self._faults(tenant))
        except RemoteError as error:
            return (str(error),)

    def close(self) -> None:
        self._sessions.close()

    def _faults(self, tenant: str) -> Iterator[str]:
        columns = ", ".join(f"({statement}) AS {name}" for name, statement in _FACTS.items())
        (row,) = self._rows(tenant, f"SELECT {columns}")
        facts = dict(zip(_FACTS, row, strict=True))
        if facts["revision"] != HEAD:
            yield f"schema {facts['revision']} is not this program's ({HEAD}); run `citelock index migrate`"
        for fact, what in _EXCESS.items():
            if facts[fact]:
                yield f"user {facts['role']} of index.url {what}; use citelock_app"
        if not facts["known"]:
            yield UNSIGNED
        elif not facts["is_there"]:
            yield f"tenant {tenant!r} has no complete generation in the database; run `citelock build`"

    def _rows(self, tenant: str, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return rows about generations as a whole, which the claims of a serving process open."""
        return self._sessions.rows(partial(self._signer.for_role, tenant, "server"), statement, values)


_EXCESS = {"unlimited": "gets past row policies", "owns": "owns tables of citelock", "writes": "may write"}
_FACTS = {
    "revision": "SELECT version_num::text FROM citelock.schema_version",
    "role": "SELECT current_user::text",
    "unlimited": "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user",
    "owns": "SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'citelock'::regnamespace "
    "AND pg_has_role(c.relowner, 'USAGE'))",
    "writes": "SELECT has_table_privilege('citelock.document_chunks', 'INSERT, UPDATE, DELETE, TRUNCATE')",
    "known": "SELECT citelock.claims() IS NOT NULL",
    # With partitions of its own, all of them; where partitions are shared there is nothing to look for.
    "is_there": "SELECT EXISTS (SELECT FROM citelock.pointers p "
    "JOIN citelock.generations g USING (tenant_id, generation) WHERE g.placement <> g.tenant_id OR (SELECT bool_and("
    "citelock.is_attached(citelock.partition_name(parent, g.tenant_id, g.generation))) "
    "FROM unnest(ARRAY['document_chunks', 'postings']) AS parent))",
}


class PostgresDatabase(SearchedDatabase):
    """Generations in PostgreSQL."""

    def store(self) -> PostgresStore:
        return PostgresStore(self.config)

    def published(self, tenant: str) -> str | None:
        return next((info.id for info in Publisher(self.config, tenant).listed() if info.current), None)

    def listed(self, tenant: str) -> list[StoredInfo] | None:
        if not self.config.index.writer_url:
            return None
        return [
            StoredInfo(info.id, info.chunks, info.created_at, info.published_at, info.current)
            for info in Publisher(self.config, tenant).listed()
        ]

    def roll_back(self, _: Store, tenant: str, generation_id: str | None) -> str:
        publisher = Publisher(self.config, tenant)
        target = generation_id
        if target is None:
            infos = publisher.listed()
            current = next((number for number, info in enumerate(infos) if info.current), len(infos))
            if current + 1 >= len(infos):
                raise StoreError(f"the database has no generation of tenant {tenant!r} to go back to")
            target = infos[current + 1].id
        publisher.point_to(target)
        return target

    def publish(self, store: Store, tenant: str, generation_id: str, resend: bool) -> Figures:
        from citelock_stores.publishing.postgres import publish_generation

        began = time.monotonic()
        copied = publish_generation(store, tenant, generation_id, self.config, resend)
        rows = {f"rows_of_{table}": count for table, count in copied.items()}
        return {"rows_copied": sum(copied.values()), **rows, "seconds": round(time.monotonic() - began, 3)}

    def prune(self, _: Store, tenant: str) -> tuple[str, ...]:
        from citelock_stores.publishing.postgres import PostgresPublisher

        return PostgresPublisher(self.config, tenant).prune(self.config.indexing.keep_generations)

    def count(self, tenant: str) -> dict[str, int]:
        return count_of_tenant(self._eraser(tenant))

    def erase(self, _: Store, tenant: str) -> None:
        remove_tenant(self._eraser(tenant))

    def _eraser(self, tenant: str) -> Publisher:
        if not self.config.index.writer_url:
            raise PublishedError(
                f"generations of {tenant} may be in the database of `index`, and index.writer_url is missing: set "
                "CITELOCK_INDEX__WRITER_URL=postgresql://citelock_writer@host/name, or run this where generations are "
                "built"
            )
        return Publisher(self.config, tenant)
