"""A generation with a keyword index and nothing else: no vectors, no lexical index, no model.

Belongs here: writing and opening it from a chunk table. Does not belong here: what is searched (`evals.bench.keyword`,
tests of the keyword tier).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, cast

import numpy as np
import pyarrow as pa

from rag_assets.publishing.keyword_writer import write_keyword_index
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.manifest import EmbedderFacts, Manifest
from rag_serving.artifacts.store import map_table
from rag_serving.indexes.chroma import ChromaLocation
from rag_serving.indexes.exact import VectorTable
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.generation_files import GenerationFiles
from rag_serving.indexes.keyword_index import FILES, KeywordIndex
from rag_serving.indexes.lexical import LexicalIndex


class Absent:
    """Raises an error on any use: a search by keywords must not touch it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{name} was asked for")


def write_generation(folder: Path, table: pa.Table, tenant: str) -> Generation:
    """Write the keyword index of chunks into a folder, and return a generation of the two, opened.

    Args:
        folder: made if it is missing.
        table: GENERATION_CHUNKS in the order of `rag_assets.publishing.arrange`.
        tenant: of the generation.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_keyword_index(folder, table)
    schemas = (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES)
    index = KeywordIndex(*(map_table(folder / name, schema) for name, schema in zip(FILES, schemas, strict=True)))
    manifest = Manifest(
        id="keywords",
        tenant=tenant,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        inputs_digest="",
        embedder=EmbedderFacts(name="none", dimension=1),
        shards=(),
        chunks=len(table),
        pages={},
        sources={},
        formats={},
        settings={},
        files={},
        versions={},
    )
    vectors = VectorTable(np.zeros((len(table), 1), np.float32))
    files = GenerationFiles(manifest, table, vectors, cast(LexicalIndex, Absent()), index)
    return Generation(files, ChromaLocation(folder / "chroma", tenant, None))
