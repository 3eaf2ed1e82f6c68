"""The seals of a generation's files, as a database is given them.

Belongs here: which rows each reader class has, in the order in which readers are handed them.
Does not belong here: what a seal is (`citelock_stores.remote.seals`), how a database keeps one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from citelock_stores.publishing.remote_tables import (
    CatalogBlock,
    chunk_table,
    original_files,
    original_table,
    place_table,
)
from citelock_stores.remote.seals import (
    DIGEST_BYTES,
    GenerationSeals,
    SealedRows,
    original_digest,
    text_digest,
)
from citelock_stores.remote.tables import REMOTE_SEALS, TEXT_COLUMNS
from rag_serving.indexes.generation_files import GenerationFiles

PART = 16_384
"""Chunks whose digests stand in one part: half a megabyte."""
_BATCH = 4096  # chunks whose texts are read at once


def seal_blocks(files: GenerationFiles, home: Path) -> Iterator[CatalogBlock]:
    """Yield the seals of every reader class of a generation, in parts; `home`: whose secret seals them.

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    seals = GenerationSeals(home, files.manifest.tenant, files.manifest.id)
    for rows in sealed_rows(files):
        seal = seals.of(rows)
        for number, start in enumerate(range(0, max(len(rows.texts), 1), PART * DIGEST_BYTES)):
            first = {"originals": rows.originals, "seal": seal} if number == 0 else {"originals": b"", "seal": b""}
            texts = rows.texts[start : start + PART * DIGEST_BYTES]
            row = {"readers": rows.readers, "part": number, "texts": texts, **first}
            yield CatalogBlock("seals", rows.readers, number, pa.Table.from_pylist([row], REMOTE_SEALS.columns))


def sealed_rows(files: GenerationFiles) -> Iterator[SealedRows]:
    """Yield what is sealed of each reader class of a chunk, another place or an original."""
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
    """Return the digest of the texts of every chunk, by row."""
    table, digests = files.table.select(TEXT_COLUMNS), list[bytes]()
    for start in range(0, len(table), _BATCH):
        digests += map(text_digest, table.slice(start, _BATCH).to_pylist())
    return digests


def _original_digests(files: GenerationFiles) -> dict[str, list[bytes]]:
    """Return the digests of the rows of files, by reader class."""
    by_class = defaultdict[str, list[bytes]](list)
    held = original_files(files)
    rows: list[dict[str, Any]] = original_table(held).to_pylist()
    for file, row in zip(held, rows, strict=True):
        by_class[file.readers].append(original_digest(row))
    return by_class
