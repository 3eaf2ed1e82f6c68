"""The chunk table in the one order and form that does not depend on how its rows came.

Belongs here: pure functions over chunk tables: order, shard column, indexed text, digest.
Does not belong here: files, indexes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.publishing.column_sizes import MOST, oversized_column
from rag_assets.publishing.shards import shard_count, shard_name
from rag_assets.steps.contexts.contextualize import under_prefixes
from rag_serving.artifacts.columns import dictionary_encode, numbers_of, reordered
from rag_serving.artifacts.content_digests import values_digest
from rag_serving.artifacts.contents import let_go
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes.exact import Vectors
from rag_serving.indexes.window_map import WindowMap, WindowsError, window_counts

ORDER = [("source", "ascending"), ("page_id", "ascending"), ("chunk_idx", "ascending"), ("chunk_id", "ascending")]


_BLOCK = 65_536  # vectors that are looked at at once


class BuildError(RedactedError):
    """The chunks or vectors cannot become a generation; the message says which and why."""


def arranged(chunks: pa.Table, vectors: Vectors) -> tuple[pa.Table, Vectors]:
    """Return chunks with their vectors [vectors, d], by source, page and place in the page.

    Raises:
        BuildError: a chunk id stands twice, or the vectors are not finite numbers, as many as the chunks name.
    """
    try:
        counts = window_counts(chunks["vector_keys"])
    except WindowsError as error:
        raise BuildError(f"{error}; run `citelock build`") from error
    if vectors.ndim != 2 or len(vectors) != counts.sum():
        raise BuildError(f"{len(chunks)} chunks came with vectors of shape {vectors.shape}")
    windows, infinite = WindowMap(counts), _first_infinite(vectors)
    if infinite is not None:
        chunk_id = chunks["chunk_id"][windows.row_of(infinite)].as_py()
        raise BuildError(f"the vector of chunk {chunk_id!r} is not finite; delete the tenant's cache and build again")
    if repeated := repeated_id(chunks):
        raise BuildError(f"chunk id {repeated!r} stands twice; sources that share page ids need an `id_prefix`")
    order = pc.sort_indices(chunks, sort_keys=ORDER)
    if is_sorted(order):  # nothing is copied: vectors may be a gigabyte in a mapped file
        return chunks, np.ascontiguousarray(vectors, dtype=np.float32)
    rows = numbers_of(order)
    places = windows.places(rows).vectors
    return reordered(chunks, rows), np.ascontiguousarray(vectors[places], dtype=np.float32)


def in_order(chunks: pa.Table) -> pa.Table:
    """Return chunks by source, page and place in the page; the table itself where they stand so."""
    order = pc.sort_indices(chunks, sort_keys=ORDER)
    return chunks if is_sorted(order) else reordered(chunks, numbers_of(order))


def refuse_oversized(parts: Iterable[pa.Table]) -> None:
    """Raise BuildError where a column of a part holds more than a file on disk can."""
    for part in parts:
        if name := oversized_column(part):
            raise BuildError(
                f"column {name!r} of {len(part):,} chunks is larger than the {MOST:,} bytes that a part of a "
                "generation can hold; set indexing.max_part_chunks to fewer"
            )


def is_sorted(order: pa.Array) -> bool:
    """Return whether an order of rows leaves each where it is."""
    return bool(np.array_equal(order.to_numpy(), np.arange(len(order))))


def _first_infinite(vectors: Vectors) -> int | None:
    """Return the first vector that is not of finite numbers."""
    for start in range(0, len(vectors), _BLOCK):
        finite = np.isfinite(vectors[start : start + _BLOCK])
        let_go(vectors)
        if not finite.all():
            return start + int(np.flatnonzero(~finite.all(axis=1))[0])
    return None


def repeated_id(chunks: pa.Table) -> str | None:
    """Return a chunk id that stands more than once, None where all differ."""
    found = pc.value_counts(chunks["chunk_id"])
    counts = found.field("counts").to_numpy()
    place = int(counts.argmax()) if len(counts) else 0
    return str(found.field("values")[place].as_py()) if len(counts) and counts[place] > 1 else None


def with_shards(table: pa.Table, max_chunks: int) -> pa.Table:
    """GENERATION_CHUNKS with the column `shard` filled: no shard has more than `max_chunks` unless it is one page."""
    pages, numbers = dictionary_encode(table["page_id"])
    count = shard_count(table["page_id"].to_pylist(), max_chunks)
    names = pa.array([shard_name(page, count) for page in pages], pa.string())
    bare = table.drop_columns(["shard"]) if "shard" in table.column_names else table
    complete = bare.append_column("shard", names.take(pa.array(numbers)))
    return complete.select(GENERATION_CHUNKS.columns.names).cast(GENERATION_CHUNKS.arrow)


def lexical_documents(table: pa.Table) -> tuple[list[str], list[str | None]]:
    """Return what the lexical index sees of each chunk, its place above its text, and its language."""
    prefixes, texts, languages = values(table, "lexical_prefix", "text", "lang")
    return under_prefixes(prefixes, texts), languages


def lexical_digest(table: pa.Table) -> str:
    """Return what a lexical index of these chunks in this order is made of."""
    return values_digest(table.select(["chunk_id", "lexical_prefix", "text", "lang"]))


def values(table: pa.Table, *names: str) -> list[list[Any]]:
    """Return columns as lists."""
    return [table[name].to_pylist() for name in names]
