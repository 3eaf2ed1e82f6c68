"""The sections `reranker` and `rerank_service.command` of `config/app.yaml`.

Belongs here: what may be set of the client and of the sidecar. Does not belong here: the other sections (`sections`).
"""

from __future__ import annotations

from pydantic import Field

from rag_serving.config.sources import Section


class Reranker(Section):
    """The cross-encoder sidecar."""

    url: str | None = None
    """The sidecar's /rerank address; null ranks without it."""
    top_n: int | None = Field(None, ge=1)
    """Passages the reranker returns for an answer, at least `retrieval.final_passages`; null: as many as that. A search
    gets as many as it asks for."""
    candidates: int = Field(100, ge=1, le=500)
    """Candidates that are sent."""
    max_seq_len: int = Field(512, ge=16)
    """Tokens of question and passage that the model reads: a quarter is the question's."""
    timeout_s: float = Field(8, gt=0)
    """Seconds after which the fallback ranks."""
    breaker_failures: int = Field(5, ge=1)
    """Failures in a row after which the sidecar is left alone."""
    breaker_reset_s: float = Field(30, gt=0)
    """Seconds after which it is asked again."""
    model: str = "BAAI/bge-reranker-base"
    """Model the sidecar serves: a name on the hub or a folder."""
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the model on the hub, 40 hexadecimal digits; null: of the default model the one that this program
    pins, of another one the newest."""
    token_env: str | None = None
    """Environment variable with the sidecar's bearer token."""


class RerankService(Section):
    """The sidecar itself, where `citelock rerank-service` runs; model and token are those of `reranker`."""

    host: str = "127.0.0.1"
    """Address to listen on; any other than this machine's own needs `reranker.token_env`."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on."""
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    """auto (CUDA where there is one), cpu, mps, cuda or cuda:1."""
    fp16: bool = True
    """Half precision on CUDA."""
    batch_size: int = Field(32, ge=1)
    """Pairs scored at once at most."""
    batch_tokens: int = Field(16_384, ge=16)
    """Tokens scored at once at most, padding included."""
    batch_wait_ms: float = Field(2, ge=0, le=1000)
    """Milliseconds a request waits for others to be scored with."""
    max_seq_len: int = Field(512, ge=16)
    """Tokens of a pair that a request may ask for; the model's own limit holds as well."""
    max_candidates: int = Field(500, ge=1)
    """Candidates a request may have."""
    max_query_chars: int = Field(4000, ge=1)
    """Longer queries are refused."""
    max_text_chars: int = Field(20_000, ge=1)
    """Longer candidates are refused."""
    max_body_bytes: int = Field(4_000_000, ge=1000)
    """Larger requests are refused."""
    max_concurrent: int = Field(16, ge=1)
    """Requests under way at once; more are told to come back (429)."""
    timeout_s: float = Field(30, gt=0)
    """Seconds a request may take; also those that shutting down waits for."""
