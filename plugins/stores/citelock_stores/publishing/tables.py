"""A generation's files as the tables and seals that a database hands out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from citelock_stores.remote.protocol import (
    DIGEST_BYTES,
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    TEXT_COLUMNS,
    GenerationSeals,
    PostingKind,
    SealedRows,
    original_digest,
    text_digest,
)
from rag_serving.access.principals import EVERYONE, intersect_readers
from rag_serving.artifacts.columns import dictionary_encode, members_of, numbers_of
from rag_serving.indexes.generation import GenerationFiles
from rag_serving.indexes.originals import Original

Numbers = NDArray[Any]

_BLOCK = 8192  # rows of a catalog in one block


class ClassPostings(NamedTuple):
    """The chunks of one reader class that have a term."""

    term: str
    readers: int  # number of the class in `ReaderClasses.names`
    rows: Numbers  # ascending
    counts: Numbers | None  # None: 1 each


class ReaderClasses(NamedTuple):
    """The reader classes of a generation's chunks, and which of them each row has [rows]."""

    names: tuple[str, ...]
    of_rows: NDArray[np.int32]


class CatalogBlock(NamedTuple):
    """A part of a table that readers fetch as a whole, of one reader class."""

    kind: str
    readers: str
    number: int
    table: pa.Table


class OriginalFile(NamedTuple):
    """The file of a page and who may have it."""

    page_id: str
    readers: str
    original: Original


def classes_of_chunks(files: GenerationFiles) -> ReaderClasses:
    """Return the reader class of each row."""
    return ReaderClasses(*dictionary_encode(files.table["readers"]))


def chunk_table(files: GenerationFiles) -> pa.Table:
    """Return REMOTE_CHUNKS of every chunk, by `row`."""
    own = {
        "row": pa.array(np.arange(len(files.table)), pa.int64()),
        "terms": pa.array(np.asarray(files.lexical.lengths), pa.int32()),
        "words": pa.array(np.asarray(files.keywords.lengths), pa.int32()),
    }
    columns = [own[name] if name in own else files.table[name] for name in REMOTE_CHUNKS.columns.names]
    return pa.table(columns, schema=REMOTE_CHUNKS.columns)


def place_table(files: GenerationFiles) -> pa.Table:
    """Return REMOTE_PLACES of every other place, by `row` and `place`."""
    places = members_of(files.table["places"])
    rows = numbers_of(places["row"])
    first = np.searchsorted(rows, rows, side="left")
    own = {"row": pa.array(rows, pa.int64()), "place": pa.array(np.arange(len(rows)) - first, pa.int32())}
    columns = [own[name] if name in own else places[name] for name in REMOTE_PLACES.columns.names]
    return pa.table(columns, schema=REMOTE_PLACES.columns)


def original_files(files: GenerationFiles) -> list[OriginalFile]:
    """Return the files of pages, each with the readers of all of its page's text, dropped duplicates included."""
    if not files.originals:
        return []
    readers = dict.fromkeys(files.originals, EVERYONE)
    pages = zip(files.table["page_id"].to_pylist(), files.table["readers"].to_pylist(), strict=True)
    places = place_table(files).select(["chunk_id", "readers"]).to_pylist()
    dropped = ((place["chunk_id"].rsplit(":", 2)[0], place["readers"]) for place in places)
    for page_id, page_readers in (*pages, *dropped):
        if page_id in readers:
            readers[page_id] = intersect_readers(readers[page_id], page_readers)
    return [OriginalFile(page_id, readers[page_id], original) for page_id, original in sorted(files.originals.items())]


def original_table(originals: list[OriginalFile]) -> pa.Table:
    """Return REMOTE_ORIGINALS of some files."""
    return pa.Table.from_pylist(
        [
            {
                "page_id": page_id,
                "sha256": original.sha256,
                "media_type": original.media_type,
                "bytes": original.size,
                "page_count": original.page_count,
                "received_sha256": original.received_sha256,
            }
            for page_id, _, original in originals
        ],
        schema=REMOTE_ORIGINALS.columns,
    )


def catalog_blocks(files: GenerationFiles) -> Iterator[CatalogBlock]:
    """Yield the blocks of all tables of a catalog."""
    for kind, table in (("chunks", chunk_table(files)), ("places", place_table(files))):
        yield from blocks_by_class(kind, table, table["readers"])
    if originals := original_files(files):
        readers = pa.chunked_array([[each.readers for each in originals]], pa.string())
        yield from blocks_by_class("originals", original_table(originals), readers)


def blocks_by_class(kind: str, table: pa.Table, readers: pa.ChunkedArray) -> Iterator[CatalogBlock]:
    """Yield a table in blocks, apart for each reader class; `readers`: the class of each row."""
    for name in pc.unique(readers).to_pylist():
        own = table.filter(pc.equal(readers, name))
        for number, start in enumerate(range(0, len(own), _BLOCK)):
            yield CatalogBlock(kind, name, number, own.slice(start, _BLOCK).combine_chunks())


def postings_of(files: GenerationFiles, kind: PostingKind, classes: ReaderClasses) -> Iterator[ClassPostings]:
    """Yield the postings of one kind, term by term, apart for each reader class."""
    if kind == "lexical":
        terms, starts, rows, counts = files.lexical.postings()
    else:
        (terms, starts, rows), counts = files.keywords.content_postings(), None
    numbers = np.repeat(np.arange(len(terms), dtype=np.int64), np.diff(starts))
    readers = classes.of_rows[rows]
    order = np.lexsort((rows, readers, numbers))
    numbers, readers, rows = numbers[order], readers[order], np.asarray(rows)[order]
    sorted_counts = None if counts is None else np.asarray(counts)[order]
    changes = np.flatnonzero((np.diff(numbers) != 0) | (np.diff(readers) != 0)) + 1
    borders = [0, *changes.tolist(), len(rows)] if len(rows) else [0]
    for start, end in pairwise(borders):
        counted = None if sorted_counts is None else sorted_counts[start:end]
        yield ClassPostings(terms[int(numbers[start])], int(readers[start]), rows[start:end], counted)


PART = 16_384
"""Chunks whose digests stand in one part: half a megabyte."""
_BATCH = 4096  # chunks whose texts are read at once


def seal_blocks(files: GenerationFiles, home: Path) -> Iterator[CatalogBlock]:
    """Yield the seals of every reader class of a generation, in parts; `home`: its secret seals them. Raises
    SecretError: the installation's secret cannot be used."""
    seals = GenerationSeals(home, files.manifest.tenant, files.manifest.id)
    for rows in sealed_rows(files):
        seal = seals.of(rows)
        for number, start in enumerate(range(0, max(len(rows.texts), 1), PART * DIGEST_BYTES)):
            first = {"originals": rows.originals, "seal": seal} if number == 0 else {"originals": b"", "seal": b""}
            texts = rows.texts[start : start + PART * DIGEST_BYTES]
            row = {"readers": rows.readers, "part": number, "texts": texts, **first}
            yield CatalogBlock("seals", rows.readers, number, pa.Table.from_pylist([row], REMOTE_SEALS.columns))


def sealed_rows(files: GenerationFiles) -> Iterator[SealedRows]:
    """Yield the sealed contents for each reader class of a chunk, another place or an original."""
    chunks, places = chunk_table(files), place_table(files)
    texts, originals = _text_digests(files), _original_digests(files)
    classes = {*pc.unique(chunks["readers"]).to_pylist(), *pc.unique(places["readers"]).to_pylist(), *originals}
    for readers in sorted(classes):
        own = pc.equal(chunks["readers"], readers)
        held = chunks.filter(own), places.filter(pc.equal(places["readers"], readers))
        numbers: Sequence[int] = held[0]["row"].to_pylist()
        digests = b"".join(texts[number] for number in numbers)
        yield SealedRows(readers, *held, digests, b"".join(sorted(originals.get(readers, []))))


def _text_digests(files: GenerationFiles) -> list[bytes]:
    table, digests = files.table.select(TEXT_COLUMNS), list[bytes]()
    for start in range(0, len(table), _BATCH):
        digests += map(text_digest, table.slice(start, _BATCH).to_pylist())
    return digests


def _original_digests(files: GenerationFiles) -> dict[str, list[bytes]]:
    by_class = defaultdict[str, list[bytes]](list)
    held = original_files(files)
    rows: list[dict[str, Any]] = original_table(held).to_pylist()
    for file, row in zip(held, rows, strict=True):
        by_class[file.readers].append(original_digest(row))
    return by_class
