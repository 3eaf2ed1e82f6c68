"""Embeddings from any OpenAI-compatible server: LM Studio, vLLM, llama.cpp, OpenAI itself.

Belongs here: the wire format of `POST {base_url}/embeddings`
(https://platform.openai.com/docs/api-reference/embeddings/create).
Does not belong here: retries and checks (`remote`).
"""

from __future__ import annotations

from typing import Any

import httpx

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.remote import RemoteEmbedder
from rag_serving.models.http import BadAnswerError, hooks, key_refused, server_text, tls_context
from rag_serving.models.protocols import ModelError

DEFAULT_URL = "http://127.0.0.1:1234/v1"


class OpenAIEmbedder(RemoteEmbedder):
    """A model of an OpenAI-compatible server, named as that server names it."""

    kind = "openai"

    def __init__(self, config: Embedding) -> None:
        """Raises ModelError where the API key's environment variable is named but not set; connects to nothing."""
        super().__init__(config, config.base_url or DEFAULT_URL)
        self._client = httpx.Client(
            headers=self.headers(),
            event_hooks=hooks(),
            verify=tls_context(),
        )

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
