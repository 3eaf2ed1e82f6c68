"""The interface of a database of generations: it returns, on behalf of one principal, what that one may read.

**The database filters.** Nothing hidden from a reader ever enters this process: each answer has only rows whose reader
class the principal satisfies, of the one tenant and generation, and equals that of a database without the other rows. A
backend without row-level security must send the reader classes, from `access.principals.satisfied_classes`, as a filter
with every request, and compare the response with them.

**What a publisher stores** for a generation, from its checked folder (`generation_files.read_files`):

- the manifest, all of its bytes (`manifest.json`), whose signature the reader checks; and the time of the newest page
  of each source (`source_dates.source_pages`);
- reader classes: every class of a chunk, of another place and of an original (see `RemoteReader.classes`);
- chunks (REMOTE_CHUNKS, REMOTE_TEXTS), each under its `readers`;
- other places of texts (REMOTE_PLACES), each under its own `readers`: also where the chunk itself is hidden;
- the vectors of every chunk: one for each window, under the chunk's class, numbered in the order of windows
  (`window_map`), float32, L2-normalized; and exact enough to give cosines to 1e-6;
- sentence vectors (REMOTE_SENTENCES) where the generation has them;
- postings of kind `lexical` (terms, rows and counts of `lexical/`), and of kind `keyword` (words and rows of
  KEYWORD_WORDS), to be found by term under the chunk's reader class. Titles, labels and headings need no postings:
  they are read from the chunks;
- originals (REMOTE_ORIGINALS) under the intersection of their page's classes, and their bytes by SHA-256;
- seals (REMOTE_SEALS), a class's under that class: by them the serving process sees that nobody altered rows or texts.

A published generation never changes under its id. The pointer of a tenant moves when all of it is stored, at once. A
generation that the pointer left stays readable for at least an hour, for the questions that began on it.

`row` is the number of a chunk in its generation: its place in GENERATION_CHUNKS as `chunks.arrow` has it, from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.access.principals import Principal
from rag_serving.artifacts.columns import dictionary_encode, indices, values_digest
from rag_serving.artifacts.schema import GENERATION_CHUNKS, ORIGINALS, Column, table_schema
from rag_serving.artifacts.secret import Seal, canonical
from rag_serving.indexes.databases import RemoteDataError

Vector = NDArray[np.float32]  # [d]
Rows = NDArray[np.int64]  # [n]; numbers of chunks in their generation
PostingKind = Literal["lexical", "keyword"]


class RemoteManifest(NamedTuple):
    """A generation's own description. Nothing here is about single pages."""

    content: bytes  # manifest.json, as it was signed
    newest: Mapping[str, datetime]  # when the newest page of each source was made, restricted ones included


class Nearest(NamedTuple):
    """Chunks by cosine similarity, the best first; equal ones in row order."""

    rows: Rows  # [n], each once
    scores: NDArray[np.float32]  # [n]: of a chunk with several windows its nearest one's


class WindowVectors(NamedTuple):
    """The vectors of some chunks, in the order of the request, those of one in the order of its windows."""

    counts: Rows  # [n]: how many each chunk has, at least one
    vectors: NDArray[np.float32]  # [sum of counts, d]


class Postings(NamedTuple):
    """The chunks that have a term, of those that may be read."""

    rows: Rows  # [n], ascending
    counts: NDArray[np.int32]  # [n]: how often each has it; of the keyword index always 1


class RemoteStore(Protocol):
    """A database with the generations of several tenants. Safe to use from several threads; creating one sends nothing.
    Every method, here and below, raises RemoteConnectionError: the database is down, refuses, or breaks the
    connection; RemoteTimeoutError: it takes longer than configured, or than the question's deadline
    (`rag_serving.deadline`); RemoteDataError: its data is missing, damaged, or of another version."""

    def current(self, tenant: str) -> str | None:
        """Return the id of the generation that the tenant's pointer names; None if nothing is published."""

    def open(self, tenant: str, generation_id: str) -> RemoteGeneration:
        """Return one generation of a tenant; RemoteDataError unless it is complete. Fetches its manifest, and nothing
        by chunks."""

    def faults(self, tenant: str) -> tuple[str, ...]:
        """Return the faults, one per line with its remedy: migrations, rights, extensions, counts that differ from the
        manifest. For the doctor; may take seconds."""

    def close(self) -> None:
        """Close every connection; opened objects must not be used afterwards."""


class RemoteGeneration(Protocol):
    """One published generation of a tenant. Safe to use from several threads."""

    @property
    def manifest(self) -> RemoteManifest:
        """Return the generation's own description."""

    def reader(self, principal: Principal) -> RemoteReader:
        """Return the reader on behalf of a principal; costs nothing. One of another tenant reads nothing."""


class RemoteReader(Protocol):
    """One generation on behalf of one principal. Safe to use from several threads. Rows passed to it are numbers that
    it returned before; others return no rows, and raise nothing. Tables have the columns below, in their order. Every
    method filters by tenant, generation and reader class in the database."""

    def classes(self) -> frozenset[str]:
        """Return the reader classes of the generation that the principal satisfies, those of places and originals too;
        one small request. Two principals with equal classes are given equal answers by every other method."""

    def chunks(self) -> pa.Table:
        """Return REMOTE_CHUNKS of every chunk that may be read, by `row`, ascending. Asked once for each set of classes
        and kept: it may take seconds if there are 100,000."""

    def places(self) -> pa.Table:
        """Return REMOTE_PLACES of every place whose own `readers` the principal satisfies, by `row` and `place`,
        ascending. `row` may name a hidden chunk: it is then revealed to nobody."""

    def originals(self) -> pa.Table:
        """Return REMOTE_ORIGINALS of every fully readable page, by `page_id`."""

    def original(self, sha256: str) -> bytes:
        """Return the bytes of one of the `originals`; RemoteDataError if it is none of them. Its digest is compared by
        the caller."""

    def seals(self) -> pa.Table:
        """Return REMOTE_SEALS of the classes of `classes`, by `readers` and `part`; none of a generation that an older
        program published."""

    def texts(self, rows: Sequence[int]) -> pa.Table:
        """Return REMOTE_TEXTS of some chunks, in any order; some ten to a thousand rows."""

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        """Return REMOTE_SENTENCES of some chunks, in any order; chunks without any are left out."""

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        """Return the k chunks nearest to `vector` [d], fewer only if fewer may be read, of those in `among` (ascending;
        up to all rows). Scores are cosines of the stored float32 vectors, to 1e-6, even for candidates of an
        approximate index or halfvec: they are compared again. Several windows of one chunk count once."""

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        """Return the vectors of some chunks, in the order of `rows`; some hundred rows. Raises RemoteDataError: one of
        the rows has none that may be read."""

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> Mapping[str, Postings]:
        """Return which chunks have some terms, those of none left out; some thirty terms, each of up to all chunks."""

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        """Return REMOTE_TERMS, by `term` in code point order: those that a chunk has that may be read. Asked once for
        each set of classes, to mend misspelt words; up to some 100,000 terms."""


PURPOSE = "index seals"
DIGEST_BYTES = 32
RESEND = "`citelock generations repair --resend` sends it again"

Digests = NDArray[np.uint8]  # [rows, DIGEST_BYTES]


class SealedRows(NamedTuple):
    """The contents of one seal. `texts`, `originals`: digests of DIGEST_BYTES, one after the other."""

    readers: str
    chunks: pa.Table  # REMOTE_CHUNKS of the class, by row
    places: pa.Table  # REMOTE_PLACES of the class, by row and place
    texts: bytes  # by row
    originals: bytes  # ascending


class GenerationSeals:
    """Makes and compares the seals of one generation."""

    def __init__(self, home: Path, tenant: str, generation: str) -> None:
        """Raises SecretError if the installation's secret cannot be used."""
        self._seal = Seal(home, PURPOSE)
        self._names = tenant.encode(), generation.encode()

    def of(self, rows: SealedRows) -> bytes:
        """Return the seal of one reader class."""
        return self._seal.of(*self._parts(rows))

    def holds(self, seal: bytes | None, rows: SealedRows) -> bool:
        """Return whether this installation made this seal of exactly these rows."""
        return self._seal.holds(seal, *self._parts(rows))

    def _parts(self, rows: SealedRows) -> Iterator[bytes]:
        yield from self._names
        yield rows.readers.encode("utf-8", "surrogatepass")
        yield values_digest(rows.chunks).encode()
        yield values_digest(rows.places).encode()
        yield hashlib.sha256(rows.texts).digest()
        yield hashlib.sha256(rows.originals).digest()


def text_digest(texts: Mapping[str, Any]) -> bytes:
    """Return the digest of the texts of one chunk, each by its length; a null differs from an empty text."""
    hasher = hashlib.sha256()
    for name in TEXT_COLUMNS:
        text = texts[name]
        content = b"" if text is None else text.encode("utf-8", "surrogatepass")
        hasher.update((-1 if text is None else len(content)).to_bytes(8, "little", signed=True))
        hasher.update(content)
    return hasher.digest()


def original_digest(row: Mapping[str, Any]) -> bytes:
    """Return the digest of one row of REMOTE_ORIGINALS."""
    return hashlib.sha256(canonical(dict(row))).digest()


def checked_texts(
    seals: GenerationSeals, stored: pa.Table, classes: frozenset[str], tables: tuple[pa.Table, pa.Table, pa.Table]
) -> Digests:
    """Verify the returned tables by their seals; return the digest of the text of each chunk, in their order. `stored`:
    REMOTE_SEALS of `classes`; `tables`: the returned chunks, places and originals. Raises RemoteDataError: a seal is
    missing or does not match."""
    chunks, places, originals = tables
    by_class = _by_class(stored)
    if missing := classes - by_class.keys():
        raise RemoteDataError(
            f"{len(missing)} of {len(classes)} reader classes of the generation in the database have no seal: an older "
            "program published it, or it was altered; `citelock generations repair` adds them"
        )
    digests = np.zeros((len(chunks), DIGEST_BYTES), np.uint8)
    rows, others = _rows_of(chunks), _rows_of(places)
    for readers in sorted(classes):
        own, stands = rows.get(readers, _NO_ROWS), by_class[readers]
        held = chunks.take(indices(own)), places.take(indices(others.get(readers, _NO_ROWS)))
        sealed = SealedRows(readers, *held, stands.texts, stands.originals)
        if len(stands.texts) != len(own) * DIGEST_BYTES or not seals.holds(stands.seal, sealed):
            raise RemoteDataError(f"passages of a reader class were altered in the database; {RESEND}")
        digests[own] = np.frombuffer(stands.texts, np.uint8).reshape(len(own), DIGEST_BYTES)
    listed = b"".join(by_class[readers].originals for readers in classes)
    if _parted(listed) != sorted(map(original_digest, originals.to_pylist())):
        raise RemoteDataError(f"the list of pages' files was altered in the database; {RESEND}")
    return digests


class _Stored(NamedTuple):
    texts: bytes
    originals: bytes
    seal: bytes


_NO_ROWS = np.zeros(0, np.int64)


def _by_class(stored: pa.Table) -> dict[str, _Stored]:
    """Return the stored parts of each class, joined in their order."""
    classes: dict[str, list[Mapping[str, Any]]] = {}
    for row in stored.to_pylist():
        classes.setdefault(row["readers"], []).append(row)
    return {
        readers: _Stored(*(b"".join(part[name] or b"" for part in parts) for name in _Stored._fields))
        for readers, parts in classes.items()
    }


def _rows_of(table: pa.Table) -> dict[str, NDArray[np.int64]]:
    if not len(table):
        return {}
    names, codes = dictionary_encode(table["readers"])
    order = np.argsort(codes, kind="stable").astype(np.int64)
    borders = np.searchsorted(codes[order], np.arange(len(names) + 1))
    return {name: order[borders[number] : borders[number + 1]] for number, name in enumerate(names)}


def _parted(digests: bytes) -> Sequence[bytes]:
    return sorted(digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES))


TEXT_COLUMNS = ("text", "context_before", "context_after", "structure")
"""Columns of GENERATION_CHUNKS that are read by rows, when they are shown."""

_UNREAD = frozenset({*TEXT_COLUMNS, "places", "prefix", "lexical_prefix", "vector_keys", "shard"})
_ROW: Column = ("row", pa.int64(), "number of the chunk in its generation, from 0")


def _column(name: str) -> Column:
    return name, GENERATION_CHUNKS.columns.field(name).type, GENERATION_CHUNKS.descriptions[name]


def _place(name: str) -> Column:
    kind = GENERATION_CHUNKS.columns.field("places").type.value_type
    return name, kind.field(name).type, f"`{name}` of a place of GENERATION_CHUNKS"


REMOTE_CHUNKS = table_schema(
    "remote_chunks",
    1,
    [
        _ROW,
        *(_column(name) for name in GENERATION_CHUNKS.columns.names if name not in _UNREAD),
        ("terms", pa.int32(), "how many terms the lexical index has of it: its `lengths`"),
        ("words", pa.int32(), "how many words the keyword index has of it: `length` of KEYWORD_ROWS"),
    ],
)
"""A chunk without its text. Its reader class is `readers`."""

REMOTE_PLACES = table_schema(
    "remote_places",
    1,
    [
        ("row", pa.int64(), "the chunk that was kept"),
        ("place", pa.int32(), "which of the chunk's `places`, from 0"),
        *(_place(field.name) for field in GENERATION_CHUNKS.columns.field("places").type.value_type),
    ],
)
"""Another place where the text of a chunk stands. Its reader class is its own `readers`, whatever the chunk's is."""

REMOTE_TEXTS = table_schema("remote_texts", 1, [_ROW, *map(_column, TEXT_COLUMNS)])
"""The text of a chunk, under the chunk's reader class."""

REMOTE_TERMS = table_schema(
    "remote_terms",
    1,
    [
        ("term", pa.string(), "of the lexical index, or word of the keyword index"),
        ("chunks", pa.int64(), "how many chunks have it, of those that the reader may see"),
    ],
)
"""The terms of the chunks that a reader may see."""

REMOTE_SENTENCES = table_schema(
    "remote_sentences",
    1,
    [
        _ROW,
        ("records", pa.binary(), "`indexes.sentence_vectors.record_type(d)`, one behind the other; heading path first"),
    ],
)
"""The sentence vectors of a chunk, under the chunk's reader class: what `SENTENCE_ROWS_FILE` names of it, in order."""

REMOTE_ORIGINALS = table_schema(
    "remote_originals",
    1,
    [(name, ORIGINALS.columns.field(name).type, ORIGINALS.descriptions[name]) for name in ORIGINALS.columns.names],
)
"""The file that a page was read from. Its reader class is the intersection (`access.principals.intersect_readers`) of
the classes of all chunks and places of the page: who may not read some of the text may not have the file."""

# The proof, by reader class, that nobody altered its rows.
REMOTE_SEALS = table_schema(
    "remote_seals",
    1,
    [
        ("readers", pa.string(), "the reader class that is sealed"),
        ("part", pa.int32(), "which part of it, from 0: a part has the digests of so many chunks"),
        ("texts", pa.binary(), "digests of the texts of the class's chunks (`text_digest`), by `row`"),
        ("originals", pa.binary(), "of part 0: digests of the class's rows of REMOTE_ORIGINALS, ascending"),
        ("seal", pa.binary(), "of part 0: the seal over all rows of the class (`GenerationSeals`)"),
    ],
)


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack_tables(packed: Iterable[bytes], schema: pa.Schema, order: Sequence[str]) -> pa.Table:
    """Return tables of one schema in one, by some of its columns, ascending. Raises RemoteDataError: one cannot be
    read, or has other columns."""
    try:
        tables = [pa.ipc.open_stream(content).read_all() for content in packed]
    except (pa.ArrowException, OSError) as error:
        raise RemoteDataError("a catalog of the database cannot be read; publish the generation again") from error
    if any(not table.schema.equals(schema) for table in tables):
        raise RemoteDataError("a catalog of the database is of another version; publish the generation again")
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return whole.sort_by([(name, "ascending") for name in order]).combine_chunks().replace_schema_metadata(None)
