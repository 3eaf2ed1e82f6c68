"""Write who may read each page of a generation, beside its chunks.

Belongs here: the table PAGE_READERS of a chunk table. Does not belong here: comparing two
(`rag_serving.indexes.page_readers`).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rag_serving.artifacts.schema import PAGE_READERS
from rag_serving.artifacts.store import write_table
from rag_serving.indexes.page_readers import FILE

_BLOCK = 16_384  # rows whose cells are Python objects at once
_Entry = tuple[str, str]  # text hash, reader class


def write_page_readers(folder: Path, chunks: pa.Table) -> None:
    """Write the file for a table of GENERATION_CHUNKS."""
    write_table(folder / FILE, page_readers(chunks), PAGE_READERS)


def page_readers(chunks: pa.Table) -> pa.Table:
    """PAGE_READERS of GENERATION_CHUNKS: the pages of the chunks, and those of chunks dropped as duplicates of them."""
    pages: defaultdict[str, set[_Entry]] = defaultdict(set)
    for page_id, entry in _entries(chunks):
        pages[page_id].add(entry)
    rows = [
        {"page_id": page_id, "classes": sorted({readers for _, readers in entries}), "content": _digest(entries)}
        for page_id, entries in sorted(pages.items())
    ]
    return PAGE_READERS.table(list(rows))


def _entries(chunks: pa.Table) -> Iterator[tuple[str, _Entry]]:
    """Yield a page id, and who may read which text of it."""
    for batch in chunks.select(["page_id", "text_hash", "readers", "places"]).to_batches(max_chunksize=_BLOCK):
        for page_id, text_hash, readers, places in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield page_id, (text_hash, readers)
            for place in places or ():
                yield place["chunk_id"].rsplit(":", 2)[0], (text_hash, place["readers"])


def _digest(entries: set[_Entry]) -> str:
    return hashlib.sha256(json.dumps(sorted(entries), separators=(",", ":")).encode()).hexdigest()[:32]
