"""The parts that a large generation is stored in: runs of its rows, each with files of its own. A generation of one
part has its files in its own folder, one of several has a folder below `parts` for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_serving.artifacts.manifest import Manifest, PartSize
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import map_table

FOLDER = "parts"
CHUNKS_FILE = "chunks.parquet"
MAPPED_FILE = "chunks.arrow"  # the same rows, as they are searched


class GenerationPart(NamedTuple):
    """One part. `prefix`: the common prefix of its files' names, below the generation's folder."""

    prefix: str
    chunks: int
    vectors: int

    def file(self, name: str) -> str:
        """Return the name of one of its files below the generation's folder."""
        return self.prefix + name

    def folder(self, generation: Path) -> Path:
        """Return the folder of its files."""
        return generation / self.prefix


def parts_of(manifest: Manifest) -> tuple[GenerationPart, ...]:
    """Return the parts of a generation in the order of their rows, at least one."""
    return named_parts(manifest.parts or [PartSize(chunks=manifest.chunks, vectors=manifest.vector_count)])


def named_parts(sizes: Sequence[PartSize]) -> tuple[GenerationPart, ...]:
    """Return parts of some sizes with the names of their files; one alone has the generation's folder."""
    prefixes = [f"{FOLDER}/{number:04}/" for number in range(len(sizes))] if len(sizes) > 1 else [""]
    return tuple(
        GenerationPart(prefix, size.chunks, size.vectors) for prefix, size in zip(prefixes, sizes, strict=True)
    )


def map_chunks(folder: Path, parts: Sequence[GenerationPart]) -> pa.Table:
    """Return the chunk table in the folder of a generation, memory-mapped, its parts one after the other. Raises
    StoreError: a part is missing, truncated, or of another version."""
    return pa.concat_tables([map_table(folder / part.file(MAPPED_FILE), GENERATION_CHUNKS) for part in parts])
