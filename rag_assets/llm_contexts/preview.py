"""The context of one passage, written to be looked at: nothing of it is kept or indexed.

Belongs here: asking about one passage of a page. Does not belong here: the contexts of a build (`tenant`), tools and
commands (`build.mcp_tools`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rag_assets.llm_contexts.cache import ContextCache
from rag_assets.llm_contexts.servers import model_name, models_of, open_servers
from rag_assets.llm_contexts.writer import ContextWriter, document_budget
from rag_assets.steps.contexts.context_prefix import metadata_prefix
from rag_assets.steps.contexts.contextualize import WrittenContext
from rag_assets.steps.contexts.prompt import build_documents
from rag_serving.config.models import Context
from rag_serving.records.passages import Chunk


@dataclass(frozen=True)
class Preview:
    """The lines above a passage in the index: its place by metadata, and what a model wrote about it."""

    prefix: str
    written: WrittenContext | None = None
    failure: str | None = None  # why no model wrote anything; None also where none is configured


def preview(chunk: Chunk, page: Sequence[Chunk], settings: Context) -> Preview:
    """Return the context of a chunk among those of its `page`, by the models of the configuration.

    Its own cache is empty and forgotten: a build finds nothing of it, whoever may read which of these chunks.

    Raises:
        ModelError: no model is named, or its key is missing.
    """
    prefix = metadata_prefix(chunk.title, chunk.heading_path, chunk.chapter)
    models = models_of(settings)
    if not models:
        return Preview(prefix)
    table = pa.Table.from_pylist([_row(one) for one in page])
    documents = build_documents(table, document_budget(settings))
    passages = [passage for document in documents for passage in document.passages]
    asked = next(passage for passage in passages if passage.chunk_id == chunk.chunk_id)
    known = {passage.key: WrittenContext("", 1.0) for passage in passages if passage.key != asked.key}
    with tempfile.TemporaryDirectory(prefix="citelock-preview-") as folder:
        cache = ContextCache(Path(folder), *(model_name(model).key for model in models.values()))
        contexts = ContextWriter(settings, cache, open_servers(settings)).write(documents, known)
    return Preview(prefix, contexts.written.get(asked.key), contexts.failures.get(asked.key))


def _row(chunk: Chunk) -> dict[str, object]:
    return {
        "page_id": chunk.page_id,
        "readers": "",  # of one caller, who may read them all
        "chunk_idx": chunk.chunk_idx,
        "chunk_id": chunk.chunk_id,
        "title": chunk.title,
        "heading_path": list(chunk.heading_path),
        "text": chunk.text,
    }
