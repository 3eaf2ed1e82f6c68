"""The contexts of one tenant: what its build will ask for, and asking; or of one passage, of which nothing is kept.

Belongs here: putting cache, model and writer together as configured. Does not belong here: Dagster
(`assets.contexts`), tools and commands (`build.mcp_tools`), what a run leaves for the next (`last_run`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.llm_contexts.cache import SEAL_PURPOSE, ContextCache
from rag_assets.llm_contexts.estimate import Estimate, estimate
from rag_assets.llm_contexts.last_run import LastRun
from rag_assets.llm_contexts.servers import model_name, models_of, open_servers
from rag_assets.llm_contexts.writer import ContextWriter, Usage, Watch, document_budget, known_contexts, oldest_prompt
from rag_assets.steps.contexts.context_prefix import metadata_prefix
from rag_assets.steps.contexts.contextualize import WrittenContext
from rag_assets.steps.contexts.prompt import Document, build_documents
from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.signatures import Seal
from rag_serving.config.models import Context
from rag_serving.hooks import TenantBudget
from rag_serving.models.protocols import ModelError
from rag_serving.records.passages import Chunk

TOLD_S = 5.0


@dataclass(frozen=True)
class TenantContexts:
    """By chunk id what a model wrote and why it did not, and what that took."""

    written: dict[str, WrittenContext] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    tally: Usage = field(default_factory=lambda: Usage(0))


@dataclass(frozen=True)
class ContextPlan:
    """What a run is about to do: all passages, and the contexts that they have already."""

    settings: Context
    cache: ContextCache
    documents: Sequence[Document]
    known: Mapping[str, WrittenContext]

    def estimate(self, last: LastRun) -> Estimate:
        """Return what the run will take."""
        rate = last.contexts_per_second.get(self.cache.models[0])
        return estimate(self.documents, self.known, self.settings, rate)


def plan_contexts(chunks: pa.Table, settings: Context, folder: Path, home: Path | None = None) -> ContextPlan | None:
    """Return what has to be written about rows of SELECTED_CHUNKS; None where no model is configured.

    No model is asked or needed. `folder`: of the tenant's caches; `home`: whose secret seals what is in them.

    Raises:
        ModelError: the cache cannot be used.
    """
    models = models_of(settings)
    if not models:
        return None
    documents = build_documents(chunks, document_budget(settings))
    try:
        seal = Seal(home, SEAL_PURPOSE) if home else None
    except SecretError as error:
        raise ModelError(f"cached contexts cannot be authenticated: {error}") from error
    cache = ContextCache(folder, *(model_name(model).key for model in models.values()), seal=seal)
    return ContextPlan(settings, cache, documents, known_contexts(cache, documents, oldest_prompt(settings)))


def write_contexts(plan: ContextPlan | None, watch: Watch, budget: TenantBudget | None = None) -> TenantContexts:
    """Return the contexts of a plan, those that it lacks by the configured models, as long as the budget allows.

    Raises:
        ModelError: no model is named, its key is missing, or the cache cannot be used.
    """
    if plan is None:
        return TenantContexts()
    writer = ContextWriter(plan.settings, plan.cache, open_servers(plan.settings), watch, budget)
    result = writer.write(plan.documents, plan.known)
    passages = [passage for document in plan.documents for passage in document.passages]
    return TenantContexts(
        {each.chunk_id: result.written[each.key] for each in passages if each.key in result.written},
        {each.chunk_id: result.failures[each.key] for each in passages if each.key in result.failures},
        result.tally,
    )


@dataclass
class UsageReporter:
    """Tells of a tally: every step to a bar, every few seconds a line to a log and facts to the asset's page."""

    advance: Callable[[int, int], None]
    say: Callable[[str], object]
    observe: Callable[[dict[str, Any]], object]
    told_at: float = field(default_factory=time.monotonic)

    def __call__(self, tally: Usage) -> None:
        self.advance(tally.handled, tally.total)
        now = time.monotonic()
        if now - self.told_at >= TOLD_S:
            self.told_at = now
            self.say(tally.line())
            self.observe(dict(tally.facts()))


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
