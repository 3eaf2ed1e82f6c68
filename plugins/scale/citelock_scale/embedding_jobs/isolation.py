"""A batch that a model refuses: which of its texts are to blame.

Belongs here: the search, on any model. Does not belong here: what becomes of those texts (`queue`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from citelock_scale.embedding_jobs.records import Failure, Item
from rag_serving.models.protocols import Embedder, ModelError

_PROBE = "ready"


class ModelAwayError(ModelError):
    """The model embeds nothing at all; no text is to blame."""


class IsolatedVectors(NamedTuple):
    """Texts that were embedded with their vectors [n, d], and those that were not."""

    items: list[Item]
    vectors: list[NDArray[np.float32]]
    failures: list[Failure]


def embed_isolated(embedder: Embedder, items: Sequence[Item]) -> IsolatedVectors:
    """Return the vectors of a batch; one that fails is halved until the texts are found that the model refuses.

    Of n texts with p that are refused, about 2 p log2(n) calls are made, each beside one for a harmless text.

    Raises:
        ModelAwayError: it does not embed a harmless text either.
    """
    if not items:
        return IsolatedVectors([], [], [])
    try:
        vectors = embedder.embed_documents([item.text for item in items])
        _refuse_unfit(vectors, len(items))
    except Exception as error:  # a library's own, of a local model, as well
        return _halved(embedder, items, error)
    return IsolatedVectors([*items], [*vectors], [])


def _halved(embedder: Embedder, items: Sequence[Item], error: Exception) -> IsolatedVectors:
    try:
        embedder.embed_documents([_PROBE])
    except Exception as away:
        raise ModelAwayError(str(away) or type(away).__name__) from away
    if len(items) == 1:
        return IsolatedVectors([], [], [Failure((items[0].key,), str(error) or type(error).__name__)])
    middle = len(items) // 2
    first, second = (embed_isolated(embedder, half) for half in (items[:middle], items[middle:]))
    return IsolatedVectors(first.items + second.items, first.vectors + second.vectors, first.failures + second.failures)


def _refuse_unfit(vectors: NDArray[np.float32], count: int) -> None:
    """Raise where there are not so many vectors of length one: others would be as good as absent in the cache."""
    if vectors.ndim != 2 or len(vectors) != count:
        raise ModelError(f"the model gave vectors of shape {vectors.shape} for {count} texts")
    if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=5e-4):
        raise ModelError("the model gave a vector that has not length one, or is not a number")
