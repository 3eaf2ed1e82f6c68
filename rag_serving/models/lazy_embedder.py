"""The embedding model as a question sees it: opened when first needed, left alone for a while after it failed."""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_serving.models.breaker import Breaker
from rag_serving.models.embedding.factory import open_embedder
from rag_serving.models.embedding.onnx_format import GraphCache
from rag_serving.models.protocols import Embedder, ModelError, Progress

if TYPE_CHECKING:
    from rag_serving.config.loading import Config


Vector = NDArray[np.float32]


class RecentVectors:
    """The most recent question vectors of one tenant. Safe to use from several threads."""

    def __init__(self, embedder: Embedder, limit: int, anonymous: bool = False) -> None:
        """Keep at most `limit` vectors, none if it is 0."""
        self._embedder, self._limit, self._anonymous = embedder, limit, anonymous
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._lock = threading.Lock()
        self._name: str | None = None

    def __len__(self) -> int:
        return len(self._vectors)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._vectors.clear()

    def of(self, user: str | None) -> Embedder:
        """Return the model for one user; None is a caller without a user name."""
        kept = self._limit > 0 and (user is not None or self._anonymous)
        asker = "" if user is None else f"user:{user}"
        return _Remembering(self, self._embedder, asker if kept else None)

    def name(self) -> str:
        """Return the model's name, while it is down the last known one. Raises ModelError: down, and unknown."""
        try:
            self._name = self._embedder.name
        except ModelError:
            if self._name is None:
                raise
        return self._name

    def embed(self, asker: str, text: str) -> Vector:
        """Return the vector [dimension] of a question, read-only, from memory where this asker had it computed before.
        Raises ModelError: it is not in memory, and the model does not answer."""
        key = _key(asker, self.name(), text)
        with self._lock:
            if (known := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
                return known
        vector = self._embedder.embed_query(text).copy()
        vector.setflags(write=False)
        with self._lock:
            self._vectors[key] = vector
            while len(self._vectors) > self._limit:
                self._vectors.popitem(last=False)
        return vector


class _Remembering:
    """An `Embedder` for the questions of one asker; for none (None) it caches nothing."""

    def __init__(self, recent: RecentVectors, embedder: Embedder, asker: str | None) -> None:
        self._recent, self._embedder, self._asker = recent, embedder, asker

    @property
    def name(self) -> str:
        return self._recent.name()

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        return self._embedder.embed_documents(texts, progress)

    def embed_query(self, text: str) -> Vector:
        text = normalized(text)
        return self._embedder.embed_query(text) if self._asker is None else self._recent.embed(self._asker, text)

    def check(self) -> str:
        return self._embedder.check()


def normalized(text: str) -> str:
    """Return a question as it is embedded: composed characters, single blanks; the same whether it is known or not."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _key(*parts: str) -> bytes:
    """Return the digest of some texts, so that no question stays in memory after its answer."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


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
        """Ask the model. Raises ModelError: it failed, now or within the last `retry_s` seconds."""
        if not self.breaker.allow():
            raise ModelError(self._failure)
        try:
            with self._opening:
                self._model = self._model or self._open_model()
            result = ask(self._model)
        except ModelError as error:
            self._failure = str(error)
            self.breaker.fail()
            raise
        self.breaker.succeed()
        return result


def open_guarded(config: Config) -> GuardedEmbedder:
    """Return the configured embedding model, to be opened when first needed."""
    return GuardedEmbedder(lambda: open_embedder(config.embedding, GraphCache(config.home)))
