"""The embedding model as a question sees it: opened when first needed, left alone for a while after it failed.

Belongs here: opening late, and not making every question wait for a model that is down.
Does not belong here: what is answered without it (`retrieval.hybrid`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_serving.models.breaker import Breaker
from rag_serving.models.embedding.factory import open_embedder
from rag_serving.models.embedding.graph_cache import GraphCache
from rag_serving.models.protocols import Embedder, ModelError, Progress

if TYPE_CHECKING:
    from rag_serving.config.loading import Config

Result = TypeVar("Result")

RETRY_S = 10.0


class GuardedEmbedder:
    """An `Embedder` that fails at once for `retry_s` seconds after a failure. Safe to use from several threads."""

    def __init__(self, open_model: Callable[[], Embedder], retry_s: float = RETRY_S) -> None:
        self._open_model = open_model
        self.breaker = Breaker(failures=1, reset_s=retry_s)
        self._model: Embedder | None = None
        self._opening = threading.Lock()
        self._failure = ""

    @property
    def name(self) -> str:
        return self._call(lambda model: model.name)

    @property
    def dimension(self) -> int:
        return self._call(lambda model: model.dimension)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        return self._call(lambda model: model.embed_documents(texts, progress))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._call(lambda model: model.embed_query(text))

    def check(self) -> str:
        return self._call(lambda model: model.check())

    def warm(self) -> None:
        """Open the model, for questions, before the first of them; a failure shows with that."""
        with suppress(ModelError):
            self.embed_query("warm")

    def _call(self, ask: Callable[[Embedder], Result]) -> Result:
        """Ask the model.

        Raises:
            ModelError: it failed, now or within the last `retry_s` seconds.
        """
        if not self.breaker.allow():
            raise ModelError(self._failure)
        try:
            result = ask(self._opened())
        except ModelError as error:
            self._failure = str(error)
            self.breaker.fail()
            raise
        self.breaker.succeed()
        return result

    def _opened(self) -> Embedder:
        with self._opening:
            if self._model is None:
                self._model = self._open_model()
            return self._model


def open_guarded(config: Config) -> GuardedEmbedder:
    """Return the configured embedding model, to be opened when first needed."""
    return GuardedEmbedder(lambda: open_embedder(config.embedding, GraphCache(config.home)))
