"""Embeddings from an Ollama server.

Belongs here: `/api/embed` and `/api/tags` by the `ollama` package
(https://github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings).
Does not belong here: retries and checks (`remote`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from rag_serving.config.models import Embedding
from rag_serving.escaping.targets import one_line
from rag_serving.models.embedding.remote import QUERY_TIMEOUT_S, RemoteEmbedder
from rag_serving.models.http import TRANSIENT, BadAnswerError, hooks, key_refused, tls_context
from rag_serving.models.ollama_names import missing, with_tag
from rag_serving.models.protocols import ModelError

if TYPE_CHECKING:
    import ollama

DEFAULT_URL = "http://127.0.0.1:11434"


class OllamaEmbedder(RemoteEmbedder):
    """A model of an Ollama server; pulling other weights under the same tag gives it another name."""

    kind = "ollama"

    def __init__(self, config: Embedding) -> None:
        """Raises ModelError where the API key's environment variable is named but not set; connects to nothing."""
        super().__init__(config, config.base_url or DEFAULT_URL)
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

    return ollama.Client(
        base_url,
        headers=headers,
        timeout=timeout_s,
        event_hooks=hooks(),
        verify=tls_context(),
    )
