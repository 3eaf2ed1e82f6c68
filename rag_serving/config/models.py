"""Sections of `config/app.yaml` that name models: for vectors, contexts of passages, answers, reranking; and prices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rag_serving.config.sources import Section


class Price(Section):
    """Prices of a model's tokens."""

    input: float = Field(0, ge=0)
    """Price of a million input tokens."""
    output: float = Field(0, ge=0)
    """Price of a million output tokens."""

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return what so many tokens cost."""
        return (self.input * tokens_in + self.output * tokens_out) / 1e6


class ModelServer(Section):
    """What models behind HTTP have in common."""

    base_url: str | None = None
    """Server address; default http://127.0.0.1:11434 for ollama, http://127.0.0.1:1234/v1 for openai."""
    api_key_env: str | None = None
    """Environment variable with the server's API key."""
    timeout_s: float = Field(60, gt=0)
    """Seconds that a request may take, of a language model the whole reply, retries included."""
    prices: dict[str, Price] = Field({})
    """`input` and `output` by model name: prices of a million tokens, in any currency. A model without a price costs
    nothing, embedding has only `input`, and tokens of passages are counted by the local tokenizer."""


class Embedding(ModelServer):
    """The model that turns text into vectors."""

    provider: Literal["local", "flagembedding", "ollama", "openai"] = "local"
    """local and flagembedding need no server; flagembedding runs BGE-M3 and related models with torch
    (`citelock[rerank]`); openai is any OpenAI-compatible server (LM Studio, vLLM)."""
    model: str = "all-MiniLM-L6-v2"
    """Model name; local: all-MiniLM-L6-v2, multilingual-e5-small (requirements/multilingual.txt), or a folder of a BERT
    encoder as the hub has it (docs/tuning.md); flagembedding: a folder, or a name on the hub such as BAAI/bge-m3."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of local and flagembedding. auto: CUDA if it can be used, otherwise the CPU; cuda: CUDA, or an error.
    local needs onnxruntime-gpu for CUDA and uses it for passages only: machines that only answer questions need no
    GPU."""
    query_prompt: str = ""
    """Text put before each query; multilingual-e5-small, and folders that tell theirs, have prompts by default."""
    document_prompt: str = ""
    """Text put before each passage."""
    weights_dir: Path | None = None
    """Folder with the local model's files; null: the installed package, otherwise the hub at the pinned revision."""
    # Precision of the local model for questions; int8 takes 0.7 of float32's time.
    query_precision: ClassVar[Literal["float32", "int8"]] = "int8"
    query_cache: int = Field(1000, ge=0, le=100_000)
    """Vectors of recent questions kept for each tenant; 0: none. A vector is reused only for the same user, so that the
    time of an answer does not reveal what others asked."""
    batch_size: ClassVar[int] = 16  # texts in a batch, by servers and on the CPU
    batch_tokens: ClassVar[int | None] = None  # in a batch of local and flagembedding: 1,024 on the CPU, 65,536 on CUDA
    max_retries: ClassVar[int] = 4  # retries with exponential backoff


class ChatModel(ModelServer):
    """A language model behind HTTP."""

    model: str | None = None
    """Model name, as the server knows it."""
    connect_timeout_s: ClassVar[float] = 5  # seconds that the connection may take
    # Seconds for the first token, and for each further one, of two minutes for the whole reply: a local model may have
    # to be loaded first.
    first_token_timeout_s: ClassVar[float] = 60
    timeout_s: float = Field(120, gt=0)
    max_retries: ClassVar[int] = 2  # retries with exponential backoff
    context_tokens: int = Field(8192, ge=512)
    """Tokens of prompt and reply together; a longer prompt is shortened."""
    max_output_tokens: int = Field(600, ge=16)
    """Tokens that the model may write; the rest is cut off."""
    temperature: ClassVar[float] = 0  # sampling temperature
    gone: ClassVar[Mapping[str, str]] = {"first_token_timeout_s": "half of timeout_s, and at least 60"}

    @property
    def token_timeout_s(self) -> float:
        """Return the seconds for the next token; more for a reply that may take longer than two minutes."""
        return self.first_token_timeout_s * max(1.0, self.timeout_s / 120)


class ContextModel(ChatModel):
    """A language model that writes contexts: nobody waits for it."""

    timeout_s: float = Field(60, gt=0)
    max_retries: ClassVar[int] = 3  # retries of a request
    max_output_tokens: int = Field(200, ge=16)
    """Tokens that the model may write for a passage; after a timeout, fewer are requested."""
    temperature: ClassVar[float] = 0.3  # sampling temperature


class ContextFallback(ContextModel):
    """The model that writes a context when the first one fails."""

    provider: Literal["ollama", "openai"] = "openai"
    """openai is any OpenAI-compatible server."""

    @model_validator(mode="after")
    def _names_its_model(self) -> ContextFallback:
        if not self.model:
            raise ValueError("it needs a model; set context.fallback.model")
        return self


class Context(ContextModel):
    """The prefix of a chunk that describes where it comes from."""

    gone: ClassVar = {
        "refresh": "gone: delete HOME/tenants/TENANT/cache/contexts.sqlite to have contexts written anew",
        **ChatModel.gone,
    }

    provider: Literal["metadata", "none", "ollama", "openai"] = "metadata"
    """metadata: title and heading path; none: no prefix; ollama and openai: a language model writes it."""
    fallback: ContextFallback | None = None
    """Another model, called when the first one fails. After three failures in a row the first model is not called for
    half a minute."""
    max_workers: int = Field(10, ge=1, le=500)
    """Concurrent calls."""
    attempts: ClassVar[int] = 3  # calls for a passage until its context is good enough; the best context is kept
    chunks_per_call: int = Field(1, ge=1, le=20)
    """Passages of one page in one call."""

    @model_validator(mode="after")
    def _fallback_has_a_first(self) -> Context:
        if self.fallback and self.provider in ("metadata", "none"):
            raise ValueError(f"a fallback needs a first model; set context.provider, which is {self.provider!r}")
        return self


class AnswerGeneration(ChatModel):
    """The generator, which writes answers."""

    provider: Literal["extractive", "ollama", "openai"] = "extractive"
    """extractive: the page's own sentences; openai: any compatible server. While the model is down, extractive is
    used."""
    # Consecutive failures after which the model is not called for `breaker_reset_s`.
    breaker_failures: ClassVar[int] = 3
    breaker_reset_s: ClassVar[float] = 30  # seconds after which the model is called again
    style: Literal["verbatim", "prose"] = "verbatim"
    """verbatim: the model points at lines; prose: it writes."""
    reads_sets: bool = False
    """Let the model read questions about whole sets that no template takes: one call more for each question that begins
    like one."""
    unverified: Literal["hide", "show"] = "hide"
    """With prose: hide unverified sentences, or show them as the model's."""
    max_citations: int = Field(3, ge=1, le=20)
    """Largest number of citations in an answer."""
    require_quotes: bool = True
    """Drop a claim that has no quote from its passage. If false, it is enough that the sentence itself is in the
    passage."""
    quote_max_words: int = Field(12, ge=3, le=50)
    """Most words of a quote; at most 15 are shown. Of a longer verified quote, the words that best support the claim
    are cited."""

    @model_validator(mode="after")
    def _names_its_model(self) -> AnswerGeneration:
        if self.provider != "extractive" and not self.model:
            raise ValueError(f"provider {self.provider!r} needs a model; set generation.model")
        return self


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
    gone: ClassVar = {"revision": "a part of reranker.model: NAME@COMMIT"}
    breaker_failures: ClassVar[int] = 5  # consecutive failures after which it is not called for `breaker_reset_s`
    breaker_reset_s: ClassVar[float] = 30  # seconds after which it is called again
    model: str = "BAAI/bge-reranker-base"
    """Model of the sidecar: a name on Hugging Face, also NAME@COMMIT, or a folder. Without a commit, the one that this
    program pins for the default model, the newest of any other model."""
    token_env: str | None = None
    """Environment variable with the sidecar's bearer token."""


class RerankService(Section):
    """The options of `citelock rerank-service`; its model and token are those of `reranker`."""

    host: str = "127.0.0.1"
    port: int = 8000
    device: str = "auto"
    batch_size: int = 32  # pairs scored in one batch, at most
    batch_tokens: ClassVar[int] = 16_384  # most tokens scored in one batch, padding included: 32 pairs of 512
    batch_wait_ms: ClassVar[float] = 2  # milliseconds that a request waits for others to share its batch
    max_candidates: ClassVar[int] = 500  # largest number of candidates in a request
    max_query_chars: ClassVar[int] = 4000  # characters beyond which a query is refused
    max_text_chars: ClassVar[int] = 20_000  # characters beyond which a candidate is refused
    max_body_bytes: ClassVar[int] = 4_000_000  # bytes beyond which a request is refused
    max_concurrent: ClassVar[int] = 16  # requests processed at the same time; further ones are refused (429)
    timeout_s: ClassVar[float] = 30  # seconds that a request may take; a shutdown waits as long
