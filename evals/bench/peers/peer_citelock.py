"""Citelock in the harness that measures other libraries: `quality`, `scale` and `embed` with the embedded defaults.

Belongs here: the harness's interface over the product's own pipeline. Does not belong here: what is measured.

The harness imports this file by path: put this folder into PYTHONPATH beside the harness's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from common import METER, SCRATCH  # type: ignore[import-not-found]
from numpy.typing import NDArray

from evals.evaluation.beir import BeirDocument
from evals.evaluation.bench import TENANT, chunk_table
from rag_assets.publishing.build import build_generation
from rag_assets.state.content_cache import VectorCache
from rag_serving.access.principals import EVERYONE, Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import parse_config
from rag_serving.indexes.generation import Generation
from rag_serving.models import Embedder, open_embedder, open_tokenizer
from rag_serving.models.protocols import Progress

VARIANTS = ("default",)
PACKAGES = ("chromadb", "bm25s", "onnxruntime", "numpy", "pyarrow")
Found = list[tuple[str, str]]
_CLASSES = frozenset({EVERYONE})


class Metered:
    """The product's embedder, its texts and time counted by the harness."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.name, self.dimension = inner.name, inner.dimension

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        return self._metered(list(texts), lambda some: self.inner.embed_documents(some, progress))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._metered([text], lambda some: self.inner.embed_query(some[0])[None])[0]
        return vector

    def check(self) -> str:
        return self.inner.check()

    def _metered(self, texts: list[str], call: Any) -> NDArray[np.float32]:
        return np.asarray(METER.run(texts, call), dtype=np.float32)


class Peer:
    """The harness's view of the product."""

    settings: ClassVar = {
        "dense": "exact by byte codes (onnxruntime), Chroma built beside it; all-MiniLM-L6-v2 in onnxruntime",
        "bm25": "the product's analyzer over bm25s weights, memory-mapped",
        "hybrid": "Pipeline.search with the shipped defaults: query analysis, both indexes, fusion, hygiene",
    }

    def __init__(self, workdir: str, _variant: str = "default") -> None:
        self._config = parse_config({"home": workdir, "tenants": {TENANT: {}}, "embedding": {"query_cache": 0}})
        self._embedder = Metered(open_embedder(self._config.embedding))
        self._asker = Principal(TENANT)

    def embed(self, texts: Sequence[str]) -> None:
        self._embedder.embed_documents(texts)

    def build(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        documents = [BeirDocument(name, "", text, name, 0) for name, text in zip(ids, texts, strict=True)]
        table, names = chunk_table(documents, open_tokenizer(self._config.embedding))
        vectors = self._vectors(table["text"].to_pylist())
        store = Store(Path(self._config.home))
        generation = build_generation(store, TENANT, table, vectors, self._config, self._embedder.name)
        store.point_current(TENANT, generation.id)
        self._names, self._generation = names, generation
        self._pipeline = Pipeline.open(self._config, TENANT, self._embedder)
        self._pipeline.warm()

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return vectors, stored between runs if the harness stores those of other libraries. Ours differ, since they
        also cover the end of a long text, and the harness compares the index with them."""
        if not METER.memo:
            return self._embedder.embed_documents(texts)
        cache = VectorCache(Path(SCRATCH) / "citelock", self._embedder.name)
        vectors = cache.embed(self._embedder.inner, texts).vectors
        METER.store.update(zip(texts, vectors, strict=True))
        return vectors

    def prepare(self, k: int) -> None:
        """Do nothing: nothing depends on the depth of a search."""

    def dense(self, query: str, k: int) -> Found:
        return self._rows(self._generation, self._generation.dense(self._embedder.embed_query(query), k, _CLASSES))

    def bm25(self, query: str, k: int) -> Found:
        return self._rows(self._generation, self._generation.lexical(query, k, _CLASSES))

    def hybrid(self, query: str, k: int) -> Found:
        results = self._pipeline.search(self._asker, query, k).results
        return [(self._names[result.chunk.chunk_id], result.chunk.text) for result in results]

    def _rows(self, generation: Generation, hits: Sequence[Any]) -> Found:
        chunks = generation.chunks([hit.row for hit in hits], _CLASSES)
        return [(self._names[chunk.chunk_id], chunk.text) for chunk in chunks]
