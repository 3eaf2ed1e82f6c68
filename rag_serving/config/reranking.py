"""The sections `reranker` and `rerank_service.command` of `config/app.yaml`.

Belongs here: what may be set of the client and of the sidecar. Does not belong here: the other sections (`sections`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import Section


class Reranker(Section):
    """The client of the cross-encoder sidecar."""

    url: str | None = None
    """Address of the sidecar's /rerank; null: no reranker is used."""
    top_n: int | None = Field(None, ge=1)
    """Passages the reranker returns for an answer; null: that number. A search gets as many as it requests."""
    candidates: int = Field(100, ge=1, le=500)
    """Candidates that are sent to the sidecar."""
    max_seq_len: int = Field(512, ge=16)
    """Tokens of question and passage that the model reads; at most a quarter is the question. The sidecar refuses more,
    and the model's own limit applies too."""
    timeout_s: float = Field(8, gt=0)
    """Seconds after which the fallback ranking is used."""
    breaker_failures: ClassVar[int] = 5  # consecutive failures after which it is not called for `breaker_reset_s`
    breaker_reset_s: ClassVar[float] = 30  # seconds after which it is called again
    model: str = "BAAI/bge-reranker-base"
    """Model of the sidecar: a name on Hugging Face, or a folder."""
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the model on the hub; null: the commit that this program pins for the default model, the newest for any
    other model."""
    token_env: str | None = None
    """Environment variable with the sidecar's bearer token."""


class RerankService(Section):
    """The sidecar itself (`citelock rerank-service`). Its model and token are those of `reranker`."""

    host: str = "127.0.0.1"
    """Address to listen on; any address other than this machine's own needs `reranker.token_env`."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on."""
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    """auto (CUDA if available), cpu, mps, cuda or cuda:1."""
    batch_size: int = Field(32, ge=1)
    """Largest number of pairs scored in one batch."""
    batch_tokens: ClassVar[int] = 16_384  # most tokens scored in one batch, padding included: 32 pairs of 512
    batch_wait_ms: ClassVar[float] = 2  # milliseconds that a request waits for others to share its batch
    max_candidates: ClassVar[int] = 500  # largest number of candidates in a request
    max_query_chars: ClassVar[int] = 4000  # characters beyond which a query is refused
    max_text_chars: ClassVar[int] = 20_000  # characters beyond which a candidate is refused
    max_body_bytes: ClassVar[int] = 4_000_000  # bytes beyond which a request is refused
    max_concurrent: ClassVar[int] = 16  # requests processed at the same time; further ones are refused (429)
    timeout_s: ClassVar[float] = 30  # seconds that a request may take; a shutdown waits as long
