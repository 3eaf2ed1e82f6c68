"""The chunk table in an order and form independent of how its rows came, and its division into parts.

A part ends before the page with the smallest hash among those at which it may end: between a quarter of the most chunks
of a part and all of them. A page that is new or gone moves a border only if it is the chosen one, or where it pushes
the chosen one out of reach. The borders behind find back to their old places, because the same pages are chosen again
(as in content-defined chunking: Zhang et al., "AE", INFOCOM 2015). So the other parts keep their bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.contexts.contextualize import under_prefixes
from rag_serving.artifacts.columns import dictionary_encode, numbers_of, reader, reordered, values_digest
from rag_serving.artifacts.contents import let_go
from rag_serving.artifacts.manifest import PartSize
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes.exact import Vectors, WindowMap, WindowsError, window_counts

DIGEST_CHARS = 32


def page_hash(page_id: str) -> int:
    """Return a number that depends on the page id alone, on every machine."""
    return int.from_bytes(hashlib.sha256(page_id.encode()).digest()[:8], "big")


def shard_count(page_ids: Sequence[str], max_chunks: int) -> int:
    """Return the smallest power of two of shards with at most `max_chunks` chunks each. `page_ids` names the page of
    every chunk. A page is never split: once every shard that is too large has a single page, more shards would not
    help."""
    sizes = Counter(page_ids)
    hashes = {page: page_hash(page) for page in sizes}
    count = 1
    while True:
        chunks: Counter[int] = Counter()
        pages: Counter[int] = Counter()
        for page, size in sizes.items():
            shard = hashes[page] % count
            chunks[shard] += size
            pages[shard] += 1
        if all(chunks[shard] <= max_chunks or pages[shard] == 1 for shard in chunks):
            return count
        count *= 2


def shard_name(page_id: str, count: int) -> str:
    """Return the shard of a page among `count`, such as `3-of-8`."""
    return f"{page_hash(page_id) % count}-of-{count}"


def content_digest(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Digest of a shard's content: the same rows in any order, under the same header, give the same digest."""
    hasher = hashlib.sha256()
    for part in [tuple(header), *sorted(tuple(row) for row in rows)]:
        hasher.update(("\x1f".join(part) + "\x1e").encode())
    return hasher.hexdigest()[:DIGEST_CHARS]


MOST = 2**31 - 1
"""Bytes of texts, or members of lists, that one column can hold."""


def oversized_column(table: pa.Table, most: int = MOST) -> str | None:
    """Return the name of a column with more bytes of texts, or more members of lists, than `most`; None if all fit."""
    return next((name for name in table.column_names if _size(table[name].chunks) > most), None)


def _size(parts: Sequence[pa.Array]) -> int:
    kind = parts[0].type if parts else pa.null()
    if pa.types.is_string(kind):
        return sum(pc.sum(pc.cast(pc.binary_length(part), pa.int64())).as_py() or 0 for part in parts)
    if pa.types.is_list(kind):
        members = [part.flatten() for part in parts]
        return max(sum(map(len, members)), _size(members))
    if pa.types.is_struct(kind):
        fields = [part.flatten() for part in parts]
        return max((_size(own) for own in zip(*fields, strict=True)), default=0)
    return 0


_LEAST = 4  # parts of one size, together as large as the largest part may be


def part_borders(table: pa.Table, most: int) -> list[int]:
    """Return where the parts of a chunk table begin, and behind the last one the number of rows. `table`: the columns
    source and page_id of GENERATION_CHUNKS, in the order of `arrange`. No part has more than `most` rows, unless it is
    one page."""
    borders, total = [0], len(table)
    if total <= most:
        return [0, total]
    changes = np.zeros(len(table), np.bool_)
    for name in ("source", "page_id"):
        changes |= np.diff(dictionary_encode(table[name])[1], prepend=-1) != 0
    begins = np.append(np.flatnonzero(changes), total)
    sources, pages = reader(table["source"]), reader(table["page_id"])
    while total - borders[-1] > most:
        first = np.searchsorted(begins, borders[-1] + max(most // _LEAST, 1))
        last = np.searchsorted(begins, borders[-1] + most, side="right")
        possible = begins[first:last].tolist()
        if not possible:  # a page that is larger than a part
            borders.append(int(begins[first]))
            continue
        names = zip(sources(possible), pages(possible), possible, strict=True)
        borders.append(min((page_hash(f"{source}\x1f{page}"), begin) for source, page, begin in names)[1])
    return borders if borders[-1] == total else [*borders, total]


def part_sizes(table: pa.Table, borders: list[int]) -> list[PartSize]:
    """Return how many chunks and vectors each part of GENERATION_CHUNKS has."""
    vectors = np.append(0, np.cumsum(window_counts(table["vector_keys"])))
    return [
        PartSize(chunks=last - first, vectors=int(vectors[last] - vectors[first])) for first, last in pairwise(borders)
    ]


ORDER = [("source", "ascending"), ("page_id", "ascending"), ("chunk_idx", "ascending"), ("chunk_id", "ascending")]

_BLOCK = 65_536  # vectors that are looked at at once


class BuildError(RedactedError):
    """The chunks or vectors cannot become a generation; the message says which and why."""


def arranged(chunks: pa.Table, vectors: Vectors) -> tuple[pa.Table, Vectors]:
    """Return chunks with their vectors [vectors, d], by source, page and place in the page. Raises BuildError: a chunk
    id is repeated, or the vectors are not finite numbers, as many as the chunks name."""
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
    """Return chunks by source, page and place in the page; the table itself if it is in this order."""
    order = pc.sort_indices(chunks, sort_keys=ORDER)
    return chunks if is_sorted(order) else reordered(chunks, numbers_of(order))


def refuse_oversized(parts: Iterable[pa.Table]) -> None:
    """Raise BuildError if a column of a part exceeds the capacity of a file."""
    for part in parts:
        if name := oversized_column(part):
            raise BuildError(
                f"column {name!r} of {len(part):,} chunks is larger than the {MOST:,} bytes that a part of a "
                "generation can hold; lower ingestion.chunk_size_tokens"
            )


def is_sorted(order: pa.Array) -> bool:
    """Return whether an order of rows leaves each in place."""
    return bool(np.array_equal(order.to_numpy(), np.arange(len(order))))


def _first_infinite(vectors: Vectors) -> int | None:
    for start in range(0, len(vectors), _BLOCK):
        finite = np.isfinite(vectors[start : start + _BLOCK])
        let_go(vectors)
        if not finite.all():
            return start + int(np.flatnonzero(~finite.all(axis=1))[0])
    return None


def repeated_id(chunks: pa.Table) -> str | None:
    """Return a repeated chunk id, None if all differ."""
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
    """Return the lexical index's input for each chunk, its place above its text, and its language."""
    prefixes, texts, languages = values(table, "lexical_prefix", "text", "lang")
    return under_prefixes(prefixes, texts), languages


def lexical_digest(table: pa.Table) -> str:
    """Return a digest of the inputs of a lexical index of these chunks in this order."""
    return values_digest(table.select(["chunk_id", "lexical_prefix", "text", "lang"]))


def values(table: pa.Table, *names: str) -> list[list[Any]]:
    """Return columns as lists."""
    return [table[name].to_pylist() for name in names]
