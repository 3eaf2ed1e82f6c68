"""A small generation with several reader classes, published in the stand-in of a Qdrant server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.publishing.qdrant import QdrantPublisher
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.generation import Generation
from support.synthetic import MODEL, TENANT, WORDS, chunk_row, clustered_vectors

CLASSES = ("everyone", "group:a", "group:b", "group:a&group:b", "user:ann", "nobody")


def qdrant_config(home: Path, url: str, **index: Any) -> Config:
    """A configuration of two tenants whose generations are in a Qdrant server."""
    section = {"kind": "qdrant", "url": url, **index}
    return parse_config({"home": str(home), "tenants": {TENANT: {}, "other": {}}, "index": section})


def restricted_chunks(count: int, seed: int = 0, book: bool = False) -> pa.Table:
    """Chunks whose pages are of different reader classes in turn; some texts stand in other places as well."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        page, index = divmod(number, 3)
        text = f"{' '.join(random.choice(WORDS, 10))} number{number} seed{seed}"
        fields: dict[str, Any] = {"readers": CLASSES[page % len(CLASSES)], "labels": ["x"] if page % 2 else []}
        if number % 7 == 0:
            fields["places"] = [place(f"9{page}", readers) for readers in ("group:a&group:b", fields["readers"])]
        if book:
            fields |= {"passage_id": f"ch1-sec1-p{number}", "chapter": "1 Port", "page_order": page + 1}
        rows.append(chunk_row(f"{page}", index, text, **fields))
    return GENERATION_CHUNKS.table(rows)


def place(page: str, readers: str) -> dict[str, Any]:
    """Another place of a text."""
    return {
        "chunk_id": f"{page}:1:0", "space": "OPS", "title": f"Copy {page}", "heading": "Copy", "labels": ["copy"],
        "url": f"https://wiki.example/{page}#copy", "readers": readers, "source": "ops", "kind": "page",
        "section_id": f"{page}:1:s0",
    }  # fmt: skip


def built(
    config: Config, chunks: pa.Table, tenant: str = TENANT, vectors: NDArray[np.float32] | None = None
) -> Generation:
    """The generation of some chunks in its folder."""
    vectors = clustered_vectors(len(chunks), seed=len(chunks)) if vectors is None else vectors
    return build_generation(Store(config.home), tenant, chunks, vectors, config, MODEL)


def publisher(config: Config, tenant: str = TENANT) -> QdrantPublisher:
    """What publishes a tenant's generations."""
    return QdrantPublisher(Store(config.home), tenant, config)
