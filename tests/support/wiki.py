"""A small real wiki: chunks embedded by the real model, both indexes built, published under a home folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.publishing.build import build_dense, build_generation, build_lexical_index, commit_generation
from rag_assets.publishing.documents import gather_originals
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.sources.base import ORIGINALS_FOLDER, keep_original
from rag_assets.steps.contexts.contextualize import lexical_prefix
from rag_serving.artifacts.schema import GENERATION_CHUNKS, PAGES
from rag_serving.artifacts.store import Store, write_table
from rag_serving.config.loading import Config
from rag_serving.models.embedding.factory import open_embedder
from rag_serving.models.protocols import Embedder
from support.constants import configured
from support.synthetic import chunk_row


@dataclass(frozen=True)
class Passage:
    """One chunk of a page of the wiki."""

    page_id: str
    heading: str
    text: str
    title: str = "Kafka operations"
    space: str = "OPS"
    readers: str = "everyone"
    labels: tuple[str, ...] = ()
    content_type: str = "paragraph"
    version: int = 1
    chunk_idx: int = 0
    places: tuple[tuple[str, str, str], ...] = ()  # (page id, space, readers) of chunks dropped for this one
    structure: str = ""
    updated_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    lang: str | None = None


RESTART = (
    "Stop the broker with the stop script. You must not restart a broker while partitions are under-replicated. "
    "Wait until the controller reports no offline replicas."
)
RETENTION = "Each broker keeps logs for 168 hours by default. Set log.retention.hours to keep them longer."
LAG = (
    "Consumer lag is the distance between the last written offset and the committed offset. "
    "An alert fires when the lag stays above 10,000 records for five minutes."
)
SALARIES = "The broker team earns a salary bonus of 4,000 euros in December."
SETTINGS = "| Setting | Default |\n|---|---|\n| max.poll.records | 500 |\n| session.timeout.ms | 45000 |"
COFFEE = "Descale the coffee machine every second Friday and refill the beans."

PASSAGES = (
    Passage("11", "Restarting a broker", RESTART),
    Passage("12", "Log retention", RETENTION, labels=("config",)),
    Passage("13", "Consumer lag", LAG, title="Monitoring", space="SRE"),
    Passage("14", "Salaries", SALARIES, title="Compensation", space="HR", readers="group:hr"),
    Passage("15", "Settings", SETTINGS, title="Consumer settings", space="SRE", content_type="table"),
    Passage("16", "Coffee machine", COFFEE, title="Kitchen", space="HQ"),
)


@cache
def embedder() -> Embedder:
    """The real model, opened once for all tests."""
    return open_embedder(Config().embedding)


_vectors: dict[str, NDArray[Any]] = {}


def vectors_of(texts: Sequence[str]) -> NDArray[Any]:
    """Return the real model's vectors; most wikis of a process have the same passages."""
    new = [text for text in dict.fromkeys(texts) if text not in _vectors]
    _vectors.update(zip(new, embedder().embed_documents(new), strict=True))
    return np.stack([_vectors[text] for text in texts])


def configuration(home: Path, **more: object) -> Config:
    """A configuration with the tenant `acme` and this home."""
    return configured({"home": str(home), "tenants": {"acme": {}}, **more})


def publish(
    home: Path,
    passages: Sequence[Passage] = PASSAGES,
    config: Config | None = None,
    model: Embedder | None = None,
    tenant: str = "acme",
) -> str:
    """Build a generation of the passages, point the tenant to it, and give its id."""
    config, store, model = config or configuration(home), Store(home), model or embedder()
    table = GENERATION_CHUNKS.table([_row(passage) for passage in passages])
    texts = [f"{passage.title}\n{passage.heading}\n{passage.text}" for passage in passages]
    vectors = vectors_of(texts) if model is embedder() else model.embed_documents(texts)
    generation = build_generation(store, tenant, table, vectors, config, model.name)
    generation.close()
    store.point_current(tenant, generation.id)
    return generation.id


def publish_paged(
    home: Path, passages: Sequence[Passage], originals: Mapping[str, bytes], received: str | None = None
) -> str:
    """Publish a generation of the passages for `acme`; some of its pages were read from these PDF files, which OCR made
    from one of the digest `received`."""
    config, store, model = configuration(home), Store(home), embedder()
    folder = store.source("ops") / ORIGINALS_FOLDER
    kept = {
        page_id: keep_original(folder, content, "application/pdf", content.count(b"/Type /Page "), received)
        for page_id, content in originals.items()
    }
    pages = [
        {**dict.fromkeys(PAGES.columns.names), "page_id": one, "version": 1, "original": kept.get(one)}
        for one in sorted({passage.page_id for passage in passages})
    ]
    write_table(store.source("ops") / "pages.parquet", PAGES.table([*pages]), PAGES)
    table = GENERATION_CHUNKS.table([_row(passage) for passage in passages])
    vectors = model.embed_documents([passage.text for passage in passages])
    build_dense(store, "acme", table, vectors, config, model.name)
    build_lexical_index(store, "acme", table)
    BuildWorkspace.of(store, "acme").without_sentences()
    gather_originals(store, "acme", ["ops"])
    identifier = commit_generation(store, "acme", config).id
    store.point_current("acme", identifier)
    return identifier


def _row(passage: Passage) -> dict[str, Any]:
    anchor, path = passage.heading.replace(" ", "-"), [passage.title, passage.heading]
    if passage.heading.startswith("Page "):
        anchor = f"page={passage.heading.removeprefix('Page ')}"
    return chunk_row(
        passage.page_id,
        passage.chunk_idx,
        passage.text,
        version=passage.version,
        section_id=f"{passage.page_id}:{passage.version}:{passage.heading}",
        space=passage.space,
        title=passage.title,
        heading_path=path,
        anchor=anchor,
        url=f"https://wiki.example/pages/{passage.page_id}#{anchor}",
        content_type=passage.content_type,
        labels=list(passage.labels),
        readers=passage.readers,
        updated_at=passage.updated_at,
        source="ops",
        places=[_place(passage, *place) for place in passage.places],
        prefix=" → ".join(path),
        lexical_prefix=lexical_prefix(passage.title, path),
        structure=passage.structure,
        lang=passage.lang,
        vector_keys=[f"{passage.page_id}-{passage.version}-{passage.chunk_idx}"],
    )


def _place(passage: Passage, page_id: str, space: str, readers: str) -> dict[str, object]:
    return {
        "chunk_id": f"{page_id}:1:0",
        "space": space,
        "title": passage.title,
        "heading": f"{passage.title} → {passage.heading}",
        "url": f"https://wiki.example/pages/{page_id}#{passage.heading.replace(' ', '-')}",
        "labels": ["copy"],
        "readers": readers,
        "source": "ops",
        "kind": "page",
        "section_id": f"{page_id}:1:s0",
    }


def copied(home: Path, to: Path) -> Path:
    """A copy of a home without its database, whose file nobody may open and close beside SQLite in this process."""
    return Path(shutil.copytree(home, to, ignore=shutil.ignore_patterns("serving.db*"), dirs_exist_ok=True))
