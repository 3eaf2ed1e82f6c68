"""A made-up wiki built by the real steps and published, with vectors from a cheap embedder."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from brute_force import Judge
from numpy.typing import NDArray
from restricted_wiki import TENANT, Wiki
from sharing_wiki import COMMENTS, FILES
from support.constants import configured

from rag_assets.making import listed_pages
from rag_assets.making.selections import SourceTables, gathered_facts
from rag_assets.publishing.build import build_generation
from rag_assets.sources import open_source
from rag_assets.sources.envelope import Comment, comments_row
from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.chunks.select import join_sources, select_chunks
from rag_assets.steps.contexts.contextualize import build_contexts, contextualized, embedded_texts
from rag_assets.steps.dedup import find_duplicates, fingerprints, without_duplicates
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.models.embedding.factory import open_tokenizer
from rag_serving.models.protocols import Embedder, Progress, Tokenizer
from rag_serving.records.sets import SetTables

_DIMENSION = 48
_WORD = re.compile(r"\w+")


class WordEmbedder:
    """An embedder without a model: the mean of a fixed random vector per word. Shared words are near."""

    name = "test/words@1"
    dimension = _DIMENSION

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:  # noqa: ARG002
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.zeros((0, _DIMENSION), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        words = _WORD.findall(text.lower()) or [""]
        total = np.sum([_word_vector(word) for word in words], axis=0)
        vector: NDArray[np.float32] = (total / (np.linalg.norm(total) or 1.0)).astype(np.float32)
        return vector

    def check(self) -> str:
        return self.name


@cache
def _word_vector(word: str) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=_DIMENSION)


@cache
def tokenizer() -> Tokenizer:
    return open_tokenizer(Config().embedding)


def configuration(home: Path, wiki: Wiki, tenant: str = TENANT, **more: Any) -> Config:
    """The wiki's dumps under `home` as the sources of one tenant."""
    usual = {"kind": "confluence_dump", "tenant": tenant, "attachments": "text"}
    sources = {
        key: {**usual, "path": str(home / "dumps" / key), "readers": wiki.readers[key]} for key in wiki.envelopes
    }
    return configured({"home": str(home), "tenants": {tenant: {}}, "sources": sources, **more})


def publish_wiki(home: Path, wiki: Wiki, embedder: Embedder | None = None, tenant: str = TENANT, **more: Any) -> Config:
    """Envelope → page with readers → sections → chunks without duplicates → both indexes; gives the configuration."""
    config, store = configuration(home, wiki, tenant, **more), Store(home)
    embedder = embedder or WordEmbedder()
    shutil.rmtree(home / "dumps", ignore_errors=True)
    tables, of_sources = {}, {}
    for key, envelopes in wiki.envelopes.items():
        folder = home / "dumps" / key
        folder.mkdir(parents=True)
        for one in envelopes:
            (folder / f"{one['id']}.json").write_text(json.dumps(one), encoding="utf-8")
            for name, text in one.get(FILES, {}).items():
                file = folder / "attachments" / one["id"] / name
                file.parent.mkdir(parents=True)
                file.write_text(text, encoding="utf-8")
        pages = open_source(key, config.sources[key], home / "work").sync(None, {}).pages
        pages = with_comments(pages, {one["id"]: one.get(COMMENTS, ()) for one in envelopes})
        sections = build_sections(pages, listed=listed_pages(pages, "")).sections
        tables[key] = build_chunks(sections, pages, tokenizer())
        of_sources[key] = SourceTables(pages, sections)
    selected = select_chunks(join_sources(tables), config.ingestion.drop_labels, config.ingestion.drop_boilerplate)
    known = fingerprints(selected.chunks["text"].to_pylist())
    duplicates = find_duplicates(selected.chunks, known, config.ingestion.dedup_threshold)
    kept = without_duplicates(selected.chunks, duplicates)
    chunks = contextualized(kept, build_contexts(kept, "metadata"))
    vectors = embedder.embed_documents(embedded_texts(chunks))
    facts = gathered_facts(of_sources, config, selected.chunks, duplicates["dropped_id"].to_pylist())
    generation = build_generation(store, tenant, chunks, vectors, config, embedder.name, facts=facts)
    generation.close()
    store.point_current(tenant, generation.id)
    return config


def with_comments(pages: pa.Table, bodies: Mapping[str, Sequence[str]]) -> pa.Table:
    """The pages, and beside each the row of what was said below it; a dump itself has no comments."""
    made = [
        comments_row(page, [Comment(f"{n}", body, 1, None) for n, body in enumerate(bodies[page["page_id"]])], "")
        for page in pages.to_pylist()
        if page["page_id"] in bodies
    ]
    return pa.concat_tables([pages, PAGES.table([row for row in made if row])])


@dataclass(frozen=True)
class Built:
    """A published wiki and who may read what of it."""

    wiki: Wiki
    judge: Judge
    config: Config
    pipeline: Pipeline
    embedder: WordEmbedder


def tables_of(pipeline: Pipeline, who: Principal) -> SetTables:
    """Return what queries over sets read of the published pages, as a principal may see them."""
    with pipeline.published.acquire() as generation:
        tables = generation.for_reader(who).set_tables()
    assert tables is not None
    return tables
