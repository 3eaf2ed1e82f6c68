"""An embedder that counts what it is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_assets.state.content_cache import vector_key
from rag_serving.models.protocols import Progress


class Counting:
    """A small deterministic embedder that remembers what it was asked."""

    name = "test/counting@1"

    def __init__(self, dimension: int = 16) -> None:
        self.dimension = dimension
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        del progress
        self.asked.extend(texts)
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        seed = int(vector_key(self.name, text)[:8], 16)
        vector = np.random.default_rng(seed).normal(size=self.dimension).astype(np.float32)
        return np.asarray(vector / np.linalg.norm(vector), np.float32)

    def check(self) -> str:
        return "well"
