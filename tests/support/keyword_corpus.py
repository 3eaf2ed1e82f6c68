"""Chunks with a keyword index and nothing else: no vectors, no lexical index, no model.

Belongs here: opening a chunk table as one reader may see it. Does not belong here: what is searched (the tests).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import pyarrow as pa

from rag_assets.publishing.arrange import ORDER
from rag_assets.publishing.lexical_writer import write_keyword_index
from rag_serving.access.principals import Principal
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.manifest import EmbedderFacts, Manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import map_table
from rag_serving.config.sections import Keyword, Retrieval
from rag_serving.indexes.chroma import ChromaLocation
from rag_serving.indexes.exact import VectorTable
from rag_serving.indexes.generation import Generation, GenerationFiles
from rag_serving.indexes.keyword_index import FILES, KeywordIndex
from rag_serving.indexes.lexical import LexicalIndex
from rag_serving.indexes.view import ReaderView
from rag_serving.models.protocols import Embedder
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions
from support.synthetic import TENANT, chunk_row


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


def page(title: str, *texts: str | tuple[str, str], labels: Sequence[str] = (), **fields: Any) -> list[dict[str, Any]]:
    """Rows of a page: each text is a chunk; of a pair the first is its heading."""
    name = fields.pop("page_id", title.lower().replace(" ", "-"))
    rows = []
    for index, given in enumerate(texts):
        heading, text = given if isinstance(given, tuple) else ("", given)
        path = [title, heading] if heading else [title]
        rows.append(chunk_row(name, index, text, title=title, heading_path=path, labels=list(labels), **fields))
    return rows


def opened(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Generation:
    """Return a generation of rows with their keyword index alone."""
    return write_generation(folder, GENERATION_CHUNKS.table(list(rows)).sort_by(ORDER), TENANT)


def view_of(folder: Path, rows: Sequence[Mapping[str, Any]], who: Principal | None = None) -> ReaderView:
    """Return the same as somebody may see it."""
    return opened(folder, rows).for_reader(who or Principal(TENANT))


def searched(view: ReaderView, question: str, mode: Mode = "keyword_documents", **settings: Any) -> Search:
    """Return what is found for a question; every model is out of reach."""
    options = SearchOptions(Retrieval(), mode, keyword=Keyword(**settings))
    return search_candidates(view, cast(Embedder, Absent()), question, options)


def scores_by_title(search: Search) -> dict[str, float]:
    """Return the score of the best row of each page, by title."""
    scores: dict[str, float] = {}
    for chunk, score in zip(search.context.passages.read(search.ranking.rows), search.ranking.score, strict=True):
        scores[chunk.title] = max(float(score), scores.get(chunk.title, 0.0))
    return scores
