"""The common parts of embedding servers' clients: batches, patience, and distrust of responses. Formats:
https://github.com/ollama/ollama/blob/main/docs/api.md (by the package `ollama`),
https://platform.openai.com/docs/api-reference/embeddings/create."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

import httpx
import numpy as np
from numpy.typing import NDArray

from rag_serving.config.models import Embedding
from rag_serving.escaping.targets import one_line
from rag_serving.models.embedding.device import prompts_digest
from rag_serving.models.http import (
    TRANSIENT,
    BadAnswerError,
    bearer,
    hooks,
    in_time,
    key_refused,
    missing,
    server_of,
    server_text,
    tls_context,
    wait_s,
    with_tag,
)
from rag_serving.models.protocols import ModelError, Progress
from rag_serving.tracing.spans import EMBEDDINGS, OPERATION, PROVIDER, REQUEST_MODEL, TEXTS, Attributes, span

if TYPE_CHECKING:
    import ollama


QUERY_TIMEOUT_S = 10.0
_QUERY_WAIT_S = 1.0
_QUERY_IN_ALL_S = 2 * QUERY_TIMEOUT_S + _QUERY_WAIT_S
_LONGEST_WAIT_S = 60.0


class RemoteEmbedder(ABC):
    """An embedding model behind HTTP. Passages are sent `batch_size` at once and tried `max_retries` more times, with
    exponential backoff and jitter or as `Retry-After` says, on connection errors, timeouts, 408, 429, 5xx and
    unreadable answers. A question is tried once more at most, after at most a second, and waits 10 s at most, and no
    longer than its request: somebody is waiting."""

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
        """Return the model's name with whatever identifies the state of its weights."""
        return self.model

    @property
    def dimension(self) -> int:
        """Length of a vector; one request to the server."""
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
                "raise embedding.timeout_s"
            ) from error
        raise ModelError(
            f"the embedding server at {self.base_url} failed ({tries} tries): {what}; see the server's log"
        ) from error

    def _too_late(self) -> NoReturn:
        self.give_up(httpx.ReadTimeout("no time was left"), 1)

    def _checked(self, answered: list[list[float]], count: int) -> NDArray[np.float32]:
        """Return normalized float32 vectors; raise ModelError for invalid ones."""
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


OLLAMA_URL = "http://127.0.0.1:11434"


class OllamaEmbedder(RemoteEmbedder):
    """A model of an Ollama server; pulling other weights under the same tag gives it another name."""

    kind = "ollama"

    def __init__(self, config: Embedding) -> None:
        """Raises ModelError if the API key's environment variable is named but not set; connects to nothing."""
        super().__init__(config, config.base_url or OLLAMA_URL)
        headers = self.headers()
        self._client = lru_cache(maxsize=2)(lambda timeout_s: _open(self.base_url, headers, timeout_s))

    def revision(self) -> str:
        """model:tag@digest, as the server lists it."""
        import ollama

        tag = with_tag(self.model)
        try:
            listed = self._client(min(self._config.timeout_s, QUERY_TIMEOUT_S)).list().models
        except (*TRANSIENT, ollama.ResponseError, TypeError, ValueError) as error:
            self.give_up(error, 1)
        for model in listed:
            if model.model == tag and model.digest:
                return f"{tag}@{model.digest.removeprefix('sha256:')[:12]}"
        raise ModelError(missing(self.model, self.base_url))

    def _ask(self, texts: list[str], timeout_s: float) -> list[list[float]]:
        import ollama

        try:
            answer = self._client(timeout_s).embed(self.model, texts)
        except ollama.ResponseError as error:
            raise self._refusal(error) from error
        except (TypeError, ValueError) as error:
            raise BadAnswerError(f"no embeddings in the answer ({type(error).__name__})") from error
        return cast("list[list[float]]", answer.embeddings)

    def _refusal(self, error: ollama.ResponseError) -> ModelError:
        if error.status_code == 404 and "not found" in error.error:
            return ModelError(missing(self.model, self.base_url))
        said = f"HTTP {error.status_code}: {one_line(error.error)}"
        if error.status_code in (401, 403):
            return key_refused(self.base_url, said, "embedding.api_key_env")
        return ModelError(
            f"the Ollama server at {self.base_url} refuses to embed with {self.model!r} ({said}); correct embedding.*"
        )


def _open(base_url: str, headers: dict[str, str], timeout_s: float) -> ollama.Client:
    import ollama

    return ollama.Client(base_url, headers=headers, timeout=timeout_s, event_hooks=hooks(), verify=tls_context())


OPENAI_URL = "http://127.0.0.1:1234/v1"


class OpenAIEmbedder(RemoteEmbedder):
    """A model of an OpenAI-compatible server, named as that server names it."""

    kind = "openai"

    def __init__(self, config: Embedding) -> None:
        """Raises ModelError if the API key's environment variable is named but not set; connects to nothing."""
        super().__init__(config, config.base_url or OPENAI_URL)
        self._client = httpx.Client(headers=self.headers(), event_hooks=hooks(), verify=tls_context())

    def _ask(self, texts: list[str], timeout_s: float) -> list[list[float]]:
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        response = self._client.post(f"{self.base_url}/embeddings", json=body, timeout=timeout_s)
        if not response.is_success:
            raise self._refusal(response)
        try:
            return _in_order(response.json()["data"], len(texts))
        except (ValueError, KeyError, TypeError) as error:
            raise BadAnswerError(f"no embeddings in the answer ({type(error).__name__}: {error})") from error

    def _refusal(self, response: httpx.Response) -> ModelError:
        said = f"HTTP {response.status_code}: {server_text(response)}"
        if response.status_code in (401, 403):
            return key_refused(self.base_url, said, "embedding.api_key_env")
        if response.status_code == 404:
            return ModelError(
                f"model {self.model!r} or the path is not known at {self.base_url} ({said}); load the model there, "
                f"see {self.base_url}/models, and let embedding.base_url end in /v1"
            )
        return ModelError(
            f"{self.base_url} refuses to embed with {self.model!r} ({said}); correct embedding.* or the text"
        )


def _in_order(data: list[dict[str, Any]], count: int) -> list[list[float]]:
    """Return the vectors by their `index`, which servers that batch internally do not always answer in order."""
    vectors = {int(item["index"]): item["embedding"] for item in data}
    if sorted(vectors) != list(range(count)):
        raise ValueError(f"indexes of {len(data)} vectors do not fit {count} texts")
    return [vectors[index] for index in range(count)]
