"""What embedding servers have in common: batches, patience, and distrust of what comes back.

Belongs here: prompts, batching, retries, checks of the answered vectors.
Does not belong here: what goes over the wire (`ollama`, `openai`), or what every model server does (`http`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import NoReturn

import httpx
import numpy as np
from numpy.typing import NDArray

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.prompts import prompts_digest
from rag_serving.models.http import TRANSIENT, bearer, in_time, server_of, wait_s
from rag_serving.models.protocols import ModelError, Progress
from rag_serving.tracing.names import EMBEDDINGS, OPERATION, PROVIDER, REQUEST_MODEL, TEXTS
from rag_serving.tracing.spans import Attributes, span

QUERY_TIMEOUT_S = 10.0
_QUERY_WAIT_S = 1.0
_QUERY_IN_ALL_S = 2 * QUERY_TIMEOUT_S + _QUERY_WAIT_S
_LONGEST_WAIT_S = 60.0


class RemoteEmbedder(ABC):
    """An embedding model behind HTTP.

    Passages are sent `batch_size` at once and tried `max_retries` more times, with exponential backoff and jitter or as
    `Retry-After` says, on connection errors, timeouts, 408, 429, 5xx and unreadable answers. A question is tried once
    more at most, after at most a second, and waits 10 s at most, and no longer than its request: somebody is waiting.
    """

    kind: str
    backoff_s = 0.5

    def __init__(self, config: Embedding, base_url: str) -> None:
        self.model = config.model
        self.base_url = base_url.rstrip("/")
        self._config = config
        self._known_dimension: int | None = None

    @cached_property
    def name(self) -> str:
        """kind/revision and the prompts' digest; a failed attempt to learn it is not remembered."""
        revision = in_time(self.revision, QUERY_TIMEOUT_S, self._too_late)
        return f"{self.kind}/{revision}{prompts_digest(self._config.query_prompt, self._config.document_prompt)}"

    def headers(self) -> dict[str, str]:
        """Return the bearer header, where a key is configured."""
        return bearer(self._config.api_key_env, "embedding.api_key_env")

    def revision(self) -> str:
        """Return the model's name with whatever tells one state of its weights from another."""
        return self.model

    @property
    def dimension(self) -> int:
        """Length of a vector; the server is asked once."""
        if self._known_dimension is None:
            self.embed_query("dimension")
        assert self._known_dimension is not None
        return self._known_dimension

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return vectors [n, dimension] in the order of the texts."""
        parts = []
        size = self._config.batch_size
        for start in range(0, len(texts), size):
            batch = [self._config.document_prompt + text for text in texts[start : start + size]]
            parts.append(self._checked(self._patiently(batch, self._config.max_retries), len(batch)))
            if progress:
                progress(min(start + size, len(texts)), len(texts))
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector [dimension] of a question."""
        retries = min(self._config.max_retries, 1)
        sent = [self._config.query_prompt + text]
        vectors = in_time(lambda: self._patiently(sent, retries, urgent=True), _QUERY_IN_ALL_S, self._too_late)
        vector: NDArray[np.float32] = self._checked(vectors, 1)[0]
        return vector

    def check(self) -> str:
        """Embed a word."""
        self.embed_query("passage")
        return f"{self.name}: {self.dimension} dimensions, from {self.base_url}"

    @abstractmethod
    def _ask(self, texts: list[str], timeout_s: float) -> list[list[float]]:
        """Return one request: vectors in the order of the texts, or one of `TRANSIENT`, or a ModelError."""

    def _patiently(self, texts: list[str], retries: int, urgent: bool = False) -> list[list[float]]:
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

        timeout_s = min(self._config.timeout_s, QUERY_TIMEOUT_S) if urgent else self._config.timeout_s
        longest_wait_s = _QUERY_WAIT_S if urgent else _LONGEST_WAIT_S
        retrying = Retrying(
            stop=stop_after_attempt(retries + 1),
            wait=lambda state: min(wait_s(state, self.backoff_s), longest_wait_s),
            retry=retry_if_exception_type(TRANSIENT),
            reraise=True,
        )
        told: Attributes = {
            OPERATION: EMBEDDINGS,
            PROVIDER: self.kind,
            REQUEST_MODEL: self.model,
            TEXTS: len(texts),
            **server_of(self.base_url),
        }
        with span(f"{EMBEDDINGS} {self.model}", told, "client"):
            try:
                return retrying(self._ask, texts, timeout_s)
            except TRANSIENT as error:
                self.give_up(error, retries + 1)

    def give_up(self, error: Exception, tries: int) -> NoReturn:
        """Turn the last transient failure into a ModelError that says how to mend it."""
        what = str(error) or type(error).__name__
        if isinstance(error, (httpx.ConnectError, ConnectionError)):
            raise ModelError(
                f"no embedding server answers at {self.base_url} ({tries} tries); start it or set embedding.base_url"
            ) from error
        if isinstance(error, httpx.TimeoutException):
            raise ModelError(
                f"the embedding server at {self.base_url} did not answer in time ({tries} tries); "
                "raise embedding.timeout_s or lower embedding.batch_size"
            ) from error
        raise ModelError(
            f"the embedding server at {self.base_url} failed ({tries} tries): {what}; see the server's log"
        ) from error

    def _too_late(self) -> NoReturn:
        self.give_up(httpx.ReadTimeout("no time was left"), 1)

    def _checked(self, answered: list[list[float]], count: int) -> NDArray[np.float32]:
        """Normalized float32 vectors, or a ModelError for what cannot be one."""
        where = f"the model {self.model!r} at {self.base_url}"
        if len(answered) != count:
            raise ModelError(f"{where} gave {len(answered)} vectors for {count} texts; it is not an embedding server")
        try:
            vectors = np.array(answered, np.float64)
        except (ValueError, TypeError):
            vectors = np.empty(0)
        if vectors.ndim != 2 or vectors.shape[1] == 0:
            raise ModelError(f"{where} gave vectors of unequal or no length; choose an embedding model")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not (lengths > 0).all():
            raise ModelError(f"{where} gave a vector without direction (zero or not a number); reload the model")
        if self._known_dimension not in (None, vectors.shape[1]):
            raise ModelError(
                f"{where} gave {vectors.shape[1]} dimensions after {self._known_dimension}; one name must be one model"
            )
        self._known_dimension = int(vectors.shape[1])
        normalized: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
        return normalized
