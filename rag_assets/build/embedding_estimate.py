"""Estimate what a build would embed: pages, chunks, texts, tokens and their price, by source, without asking a model.

Belongs here: counting what the caches lack. Does not belong here: contexts (`rag_assets.llm_contexts.estimate`), making
vectors (`rag_assets.publishing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.llm_contexts.estimate import TOKENS_OUT
from rag_assets.llm_contexts.tenant import ContextPlan
from rag_assets.publishing.arrange import ORDER
from rag_assets.publishing.sentences import SentencesPart, wants_sentences, write_sentences
from rag_assets.state.vector_cache import SEAL_PURPOSE, EmbeddedTexts, VectorCache, vector_key
from rag_assets.steps.contexts.contextualize import build_contexts, contextualized
from rag_assets.steps.contexts.embedded_windows import embedded_windows
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.artifacts.signatures import Seal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.embedding.vocabulary import TokenCount
from rag_serving.models.protocols import ModelError

_DIMENSION = 8  # of vectors that nobody compares


@dataclass
class SourceEstimate:
    """Hold what of one source would be embedded."""

    pages: set[str] = field(default_factory=set)
    chunks: int = 0
    texts: int = 0  # passages, their windows, sentences
    tokens: int = 0

    def facts(self, price: float | None) -> dict[str, Any]:
        """Return it for a machine; `price`: of a million tokens, None where none is set."""
        cost = None if price is None else round(self.tokens * price / 1e6, 6)
        return {
            "pages": len(self.pages),
            "chunks": self.chunks,
            "texts": self.texts,
            "tokens": self.tokens,
            "cost": cost,
        }


@dataclass(frozen=True)
class EmbeddingEstimate:
    """What of a tenant would be embedded, by source."""

    model: str
    price: float | None
    sources: Mapping[str, SourceEstimate]

    @property
    def total(self) -> SourceEstimate:
        """Of all sources together."""
        parts = self.sources.values()
        return SourceEstimate(
            set(chain.from_iterable(part.pages for part in parts)),
            *(sum(getattr(part, name) for part in parts) for name in ("chunks", "texts", "tokens")),
        )

    def facts(self) -> dict[str, Any]:
        """Return it for a machine."""
        by_source = {key: part.facts(self.price) for key, part in sorted(self.sources.items())}
        return {"model": self.model, **self.total.facts(self.price), "sources": by_source}

    def lines(self) -> Iterable[str]:
        """Yield it for people: a line for all, and one for each source where there are several."""
        if not self.total.texts:
            yield f"nothing to embed: {self.model} knows all texts"
            return
        yield self._line(self.total)
        if len(self.sources) > 1:
            yield from (f"  {key}: {self._line(part)}" for key, part in sorted(self.sources.items()))

    def _line(self, part: SourceEstimate) -> str:
        cost = part.facts(self.price)["cost"]
        price = "no price (`embedding.prices`)" if cost is None else f"cost {cost:.4f}" if cost else "costs nothing"
        return (
            f"{part.chunks} chunks of {len(part.pages)} pages to embed: {part.texts:,} texts, about {part.tokens:,} "
            f"tokens, {price}"
        )


def estimate_embedding(
    config: Config, tenant: str, selected: pa.Table, plan: ContextPlan | None, scratch: Path
) -> EmbeddingEstimate:
    """Return what a build of these chunks would embed; no model is asked.

    Args:
        selected: rows of SELECTED_CHUNKS.
        plan: the contexts that there are, and those that a model has still to write: they are taken as 110 tokens.
        scratch: a folder that may be written to.

    Raises:
        ModelError: the cache of vectors cannot be used.
    """
    settings = config.embedding
    is_remote = settings.provider != "local"
    name = _name(config)
    known_contexts = _known(plan)
    template = "none" if config.context.provider == "none" else "metadata"
    chunks = contextualized(selected, build_contexts(selected, template, known_contexts))  # type: ignore[arg-type]
    store = Store(config.home)
    cache = VectorCache(store.cache(tenant), name, Seal(store.home, SEAL_PURPOSE))
    texts = [*_texts(chunks, config, scratch)]
    keys = {vector_key(name, text) for _, _, text in texts}
    lacking = keys - cache.known(keys)
    count, found = TokenCount(settings), dict[str, SourceEstimate]()
    source_of = dict(zip(chunks["page_id"].to_pylist(), chunks["source"].to_pylist(), strict=True))
    to_come = set(chunks["chunk_id"].to_pylist()) - known_contexts.keys() if plan else set()
    for page, chunk, text in texts:
        if (key := vector_key(name, text)) not in lacking:
            continue
        lacking.discard(key)
        part = found.setdefault(source_of.get(page) or "", SourceEstimate())
        part.pages.add(page)
        part.chunks += chunk is not None
        part.texts += 1
        part.tokens += count([text]) + (TOKENS_OUT if chunk in to_come else 0)
    price = settings.prices.get(settings.model)
    return EmbeddingEstimate(settings.model, price.input if price else None if is_remote else 0.0, found)


def _name(config: Config) -> str:
    """Return the model's name; of a server that does not tell, the configured one: then nothing counts as known."""
    try:
        return open_embedder(config.embedding).name
    except ModelError:
        return config.embedding.model


def _known(plan: ContextPlan | None) -> dict[str, Any]:
    """Return what a model wrote so far, by chunk id."""
    if plan is None:
        return {}
    passages = [passage for document in plan.documents for passage in document.passages]
    return {passage.chunk_id: plan.known[passage.key] for passage in passages if passage.key in plan.known}


def _texts(chunks: pa.Table, config: Config, scratch: Path) -> Iterable[tuple[str, str | None, str]]:
    """Yield each text that has a vector with its page, and its chunk where it begins one."""
    windows = embedded_windows(chunks, open_input_limit(config.embedding))
    for page, chunk, texts in zip(chunks["page_id"].to_pylist(), chunks["chunk_id"].to_pylist(), windows, strict=True):
        yield from ((page, chunk if place == 0 else None, text) for place, text in enumerate(texts))
    if wants_sentences(config) and len(chunks):
        sentences: list[tuple[str, str | None, str]] = []

        def embed(part: SentencesPart) -> EmbeddedTexts:
            sentences.extend((page, None, text) for page, text in zip(part.pages, part.texts, strict=True))
            return EmbeddedTexts(np.ones((len(part.texts), _DIMENSION), np.float32), ["" for _ in part.texts], 0)

        scratch.mkdir(parents=True, exist_ok=True)
        write_sentences(scratch, chunks.sort_by(ORDER), embed, EmbedderFacts(name="estimate", dimension=_DIMENSION))
        yield from sentences
