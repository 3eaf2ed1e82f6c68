"""The vectors of passages: one for each, or one for each window of a passage that its model does not read at once.

Belongs here: from chunks and a model to vectors with their content addresses. Does not belong here: where windows begin
(`steps.contexts.contextualize`), what is remembered (`state.vector_cache`), vectors of sentences (`sentences`).
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.state.vector_cache import Progress, TextVectors
from rag_assets.steps.contexts.contextualize import embedded_windows, with_vector_keys
from rag_serving.indexes.exact import JoinedVectors, Vectors
from rag_serving.indexes.window_map import WindowMap, window_counts
from rag_serving.models.protocols import Embedder, InputLimit


class EmbeddedPassages(NamedTuple):
    """Rows of GENERATION_CHUNKS that name their vectors, the vectors [vectors, d] in the order of the rows, and how
    many different texts there were, and had to be embedded."""

    chunks: pa.Table
    vectors: Vectors
    texts: int
    computed: int


def embed_passages(
    cache: TextVectors,
    embedder: Embedder,
    chunks: pa.Table,
    limit: InputLimit | None,
    progress: Progress | None = None,
) -> EmbeddedPassages:
    """Return the vectors of rows of GENERATION_CHUNKS; each different text is embedded at most once.

    Raises:
        ModelError: the model fails, is another than the cache's, or the cache cannot be written.
    """
    windows = embedded_windows(chunks, limit)
    pages = [
        page for page, texts in zip(chunks["page_id"].to_pylist(), windows, strict=True) for _ in range(len(texts))
    ]
    embedded = cache.embed(embedder, [*chain.from_iterable(windows)], progress, pages)
    borders = accumulate((len(texts) for texts in windows), initial=0)
    keys = [embedded.keys[begin:end] for begin, end in pairwise(borders)]
    return EmbeddedPassages(
        with_vector_keys(chunks, keys), embedded.vectors, len(set(embedded.keys)), embedded.computed
    )


def count_vectors(chunks: pa.Table) -> int:
    """Return how many vectors rows of GENERATION_CHUNKS name."""
    return int(window_counts(chunks["vector_keys"]).sum()) if len(chunks) else 0


def vectors_at(chunks: pa.Table, vectors: Vectors | JoinedVectors, rows: NDArray[np.int64]) -> Vectors:
    """Return the vectors of some rows, in the order of these rows, of vectors that stand in the order of `chunks`."""
    places = WindowMap(window_counts(chunks["vector_keys"])).places(rows).vectors
    taken: Vectors = vectors[places]
    return taken
