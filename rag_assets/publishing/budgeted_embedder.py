"""An embedding model within a tenant's budget: it is asked before each batch, and told what the batch took.

Belongs here: asking and telling. Does not belong here: limits (`citelock_governance.budgets`), what each page took
(`citelock_scale.embedding_jobs`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.models import Embedding
from rag_serving.hooks import TenantBudget
from rag_serving.models.embedding.vocabulary import TokenCount
from rag_serving.models.protocols import Embedder, Progress


class BudgetedEmbedder:
    """An `Embedder` that stops when the budget is spent: what was embedded before is kept by whoever asks for it."""

    def __init__(self, embedder: Embedder, budget: TenantBudget, settings: Embedding) -> None:
        self._embedder, self._budget = embedder, budget
        self._count, self._price = TokenCount(settings), settings.prices.get(settings.model)

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return the vectors of some texts.

        Raises:
            BudgetError, BudgetsAwayError: no more may be embedded now; the model was not asked.
        """
        self._budget.check()
        vectors = self._embedder.embed_documents(texts, progress)
        tokens = self._count(list(texts))
        self._budget.spend("embedding", tokens, self._price.of(tokens, 0) if self._price else 0.0)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._embedder.embed_query(text)

    def check(self) -> str:
        return self._embedder.check()
