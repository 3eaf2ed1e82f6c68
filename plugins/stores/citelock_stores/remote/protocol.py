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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.access.principals import Principal

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

    Every method, here and below, raises:
        RemoteConnectionError: the database is down, refuses, or breaks the connection.
        RemoteTimeoutError: it takes longer than configured, or than the question's deadline (`rag_serving.deadline`).
        RemoteDataError: its data is missing, damaged, or of another version.
    """

    def current(self, tenant: str) -> str | None:
        """Return the id of the generation that the tenant's pointer names; None if nothing is published."""
        ...

    def open(self, tenant: str, generation_id: str) -> RemoteGeneration:
        """Return one generation of a tenant; RemoteDataError unless it is complete.

        Fetches its manifest, and nothing by chunks.
        """
        ...

    def faults(self, tenant: str) -> tuple[str, ...]:
        """Return the faults, one per line with its remedy: migrations, rights, extensions, counts that differ from the
        manifest. For the doctor; may take seconds."""
        ...

    def close(self) -> None:
        """Close every connection; opened objects must not be used afterwards."""
        ...


class RemoteGeneration(Protocol):
    """One published generation of a tenant. Safe to use from several threads."""

    @property
    def manifest(self) -> RemoteManifest:
        """Return the generation's own description."""
        ...

    def reader(self, principal: Principal) -> RemoteReader:
        """Return the reader on behalf of a principal; costs nothing. One of another tenant reads nothing."""
        ...


class RemoteReader(Protocol):
    """One generation on behalf of one principal. Safe to use from several threads.

    Rows passed to it are numbers that it returned before; others return no rows, and raise nothing. Tables have the
    columns of `remote.tables`, in their order. Every method filters by tenant, generation and reader class in the
    database.
    """

    def classes(self) -> frozenset[str]:
        """Return the reader classes of the generation that the principal satisfies, those of places and originals
        too; one small request. Two principals with equal classes are given equal answers by every other method."""
        ...

    def chunks(self) -> pa.Table:
        """Return REMOTE_CHUNKS of every chunk that may be read, by `row`, ascending. Asked once for each set of
        classes and kept: it may take seconds if there are 100,000."""
        ...

    def places(self) -> pa.Table:
        """Return REMOTE_PLACES of every place whose own `readers` the principal satisfies, by `row` and `place`,
        ascending. `row` may name a hidden chunk: it is then revealed to nobody."""
        ...

    def originals(self) -> pa.Table:
        """Return REMOTE_ORIGINALS of every fully readable page, by `page_id`."""
        ...

    def original(self, sha256: str) -> bytes:
        """Return the bytes of one of the `originals`; RemoteDataError if it is none of them. Its digest is compared
        by the caller."""
        ...

    def seals(self) -> pa.Table:
        """Return REMOTE_SEALS of the classes of `classes`, by `readers` and `part`; none of a generation that an older
        program published."""
        ...

    def texts(self, rows: Sequence[int]) -> pa.Table:
        """Return REMOTE_TEXTS of some chunks, in any order; some ten to a thousand rows."""
        ...

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        """Return REMOTE_SENTENCES of some chunks, in any order; chunks without any are left out."""
        ...

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        """Return the k chunks nearest to `vector` [d], fewer only if fewer may be read, of those in `among` (ascending;
        up to all rows).

        Scores are cosines of the stored float32 vectors, to 1e-6, even for candidates of an approximate index or
        halfvec: they are compared again. Several windows of one chunk count once.
        """
        ...

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        """Return the vectors of some chunks, in the order of `rows`; some hundred rows.

        Raises:
            RemoteDataError: one of the rows has none that may be read.
        """
        ...

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> Mapping[str, Postings]:
        """Return which chunks have some terms, those of none left out; some thirty terms, each of up to all chunks."""
        ...

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        """Return REMOTE_TERMS, by `term` in code point order: those that a chunk has that may be read. Asked once for
        each set of classes, to mend misspelt words; up to some 100,000 terms."""
        ...
