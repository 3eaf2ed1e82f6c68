"""The sections of `config/app.yaml`: keys, types, defaults, and their one-line descriptions.

Belongs here: what may be set (docs/configuration.md is made from it).
Does not belong here: reading the file (`config`), kinds of sources (`sources`), reranking (`reranking`),
indexes (`indexing`), what is recorded (`telemetry`), the HTTP API (`serving`), anything that acts on a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_serving.config.budgets import TenantBudgets
from rag_serving.config.jobs import TenantJobs
from rag_serving.config.keyword import Keyword
from rag_serving.config.orchestration import TenantOrchestration
from rag_serving.config.phases import Canary, TenantRetrieval
from rag_serving.config.sources import Section


class Features(Section):
    """Switches for whole stages."""

    FEATURE_RAG_PROVENANCE_LOCK: Literal[True] = True
    """Answers cite only locked passages. Cannot be switched off."""
    FEATURE_RERANKER: bool = True
    """Use the reranker sidecar if `reranker.url` is set."""
    FEATURE_RM3: bool = False
    """Expand the lexical query by relevance feedback (RM3)."""
    FEATURE_HEURISTIC_FALLBACK: bool = True
    """Rerank the first candidates by their words when the reranker is down."""
    FEATURE_HEURISTIC_RERANKER: bool = False
    """Do the same when no reranker is configured: improves the top ranks and worsens lower ones."""
    FEATURE_PROXIMITY: bool = True
    """Let this reranking by words also consider how close the query's words are to each other."""

    @property
    def enabled(self) -> tuple[str, ...]:
        """The names of the switches that are on, in alphabetical order."""
        return tuple(sorted(name for name, value in self.model_dump().items() if value))


class Ingestion(Section):
    """How pages become chunks."""

    chunk_size_tokens: int = Field(250, ge=32, le=4096)
    """Target size in tokens for the parts of a long section, counted by the embedding model's tokenizer; shorter
    sections stay one chunk each."""
    chunk_stride_tokens: int = Field(75, ge=0, le=1024)
    """Tokens of neighbouring text stored with a chunk as context; never cited."""
    drop_labels: list[str] = Field(["template", "archive", "index"])
    """Pages with one of these labels are excluded, with the label as the reason."""
    drop_boilerplate: bool = True
    """Leave boilerplate sections out of the indexes."""
    dedup_enabled: bool = True
    """Drop near-duplicate chunks."""
    dedup_method: Literal["minhash"] = "minhash"
    """How near-duplicates are found."""
    dedup_threshold: float = Field(0.92, gt=0, le=1)
    """Jaccard similarity of word shingles from which a chunk is a duplicate."""
    max_page_bytes: int = Field(5_000_000, ge=1000)
    """Bytes beyond which a page body is recorded as failed and not parsed."""


class Retrieval(Section):
    """How passages are found and ranked."""

    enabled: bool = True
    """Search the pages. If false, every question is answered with a note that search is switched off, and no index is
    used. A running server follows changes of this key, `phase` and `canary`. A tenant's own settings override them, and
    the environment variables `DOC_RETRIEVAL_ENABLED` and `DOC_RETRIEVAL_PHASE` override both."""
    phase: int = Field(3, ge=1, le=3)
    """What is searched: 3 chunks by words and meaning, 2 chunks by keywords, 1 documents by keywords. If a phase fails
    or is too slow, the next lower one is used."""
    canary: Canary | None = None
    """Another phase, or other switches, for some questions: a mapping of `phase`, `features`, `share` and `spaces`."""
    dense_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the dense index."""
    lexical_backend: Literal["bm25"] = "bm25"
    """Lexical index."""
    lexical_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the lexical index."""
    spelling: bool = True
    """Replace words that are unknown and do not occur in the pages by the most similar words that do."""
    fusion: Literal["zscore", "minmax", "rrf"] = "zscore"
    """How the two rankings are combined: by standard scores, by scores scaled to 0 to 1, or by ranks."""
    dense_weight: float = Field(0.5, gt=0, lt=1)
    """Weight of the dense index in the fusion of scores; the rest is the weight of the lexical index."""
    rrf_k: int = Field(60, ge=1)
    """Constant k of reciprocal rank fusion."""
    page_weight: float = Field(0.3, ge=0)
    """Weight of the best passage of the same page, in standard deviations of the fused score."""
    document_weight: float = Field(0.2, ge=0)
    """Weight of the mean BM25 score of all passages of the page, in standard deviations."""
    parent_weight: float = Field(0.4, ge=0)
    """Share of the parent page's score that is added to the passages of a page."""
    neighbour_weight: float = Field(0, ge=0)
    """Weight of the passages directly before and after, in standard deviations."""
    mmr_lambda: float = Field(1, ge=0, le=1)
    """Relevance against novelty in maximal marginal relevance; 1 ranks by relevance only."""
    cosine_floor: float = Field(0.18, ge=-1, le=1)
    """Cosine similarity below which candidates of the dense index are dropped."""
    min_keyword_overlap: int = Field(2, ge=0)
    """Stemmed query terms that a passage must share, unless it is code or a table."""
    final_passages: int = Field(8, ge=1, le=50)
    """Number of passages that are locked for an answer."""
    passage_order: Literal["score", "document"] = "score"
    """Order of the locked passages: by score, or grouped by page in the order of the page."""


class Price(Section):
    """What a model costs."""

    input: float = Field(0, ge=0)
    """Price of a million input tokens."""
    output: float = Field(0, ge=0)
    """Price of a million output tokens."""

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return what so many tokens cost."""
        return (self.input * tokens_in + self.output * tokens_out) / 1e6


class Embedding(Section):
    """The model that turns text into vectors."""

    provider: Literal["local", "flagembedding", "ollama", "openai"] = "local"
    """local and flagembedding need no server; flagembedding runs BGE-M3 and related models with torch
    (`citelock[rerank]`); openai is any OpenAI-compatible server (LM Studio, vLLM)."""
    model: str = "all-MiniLM-L6-v2"
    """Model name; local: all-MiniLM-L6-v2, multilingual-e5-small (requirements/multilingual.txt), or a folder with
    model.safetensors and tokenizer.json; flagembedding: a folder, or a name on the hub such as BAAI/bge-m3."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of local and flagembedding. auto: CUDA if it can be used, otherwise the CPU; cuda: CUDA, or an error.
    local needs onnxruntime-gpu for CUDA and uses it for passages only: machines that only answer questions need no
    GPU."""
    base_url: str | None = None
    """Server address; default http://127.0.0.1:11434 for ollama, http://127.0.0.1:1234/v1 for openai."""
    api_key_env: str | None = None
    """Environment variable with the server's API key."""
    query_prompt: str = ""
    """Text put before each query; multilingual-e5-small has a prompt by default."""
    document_prompt: str = ""
    """Text put before each passage."""
    weights_dir: Path | None = None
    """Folder with the local model's files; null: the installed package, otherwise the hub at the pinned revision."""
    query_precision: Literal["float32", "int8"] = "int8"
    """Precision of the local model for questions; int8 takes 0.7 of float32's time (docs/tuning.md)."""
    query_cache: int = Field(1000, ge=0, le=100_000)
    """Vectors of recent questions kept in memory for each tenant; 0: none. A vector is reused only for the same user,
    so that the time of an answer does not reveal what others asked."""
    batch_size: int = Field(16, ge=1, le=2048)
    """Texts embedded in one batch, by servers and by local on the CPU."""
    batch_tokens: int | None = Field(None, ge=1)
    """Tokens embedded in one batch by local and flagembedding, padding included; null: 1,024 on the CPU, 65,536 on
    CUDA."""
    timeout_s: float = Field(60, gt=0)
    """Seconds that a request to the server may take."""
    max_retries: int = Field(4, ge=0, le=20)
    """Retries with exponential backoff."""
    prices: dict[str, Price] = Field({})
    """Prices by model name, in any currency; embedding has only `input`. A model without a price costs nothing. Tokens
    are counted by the local tokenizer."""


class ChatModel(Section):
    """A language model behind HTTP."""

    model: str | None = None
    """Model name, as the server knows it."""
    base_url: str | None = None
    """Server address; default http://127.0.0.1:11434 for ollama, http://127.0.0.1:1234/v1 for openai."""
    api_key_env: str | None = None
    """Environment variable with the server's API key."""
    connect_timeout_s: float = Field(5, gt=0)
    """Seconds that the connection may take."""
    first_token_timeout_s: float = Field(60, gt=0)
    """Seconds that the first token may take, and then each further one; a local model may have to be loaded first."""
    timeout_s: float = Field(120, gt=0)
    """Seconds that the whole reply may take, retries included."""
    max_retries: int = Field(2, ge=0, le=20)
    """Retries with exponential backoff."""
    context_tokens: int = Field(8192, ge=512)
    """Tokens that the model can read and write together; a longer prompt is shortened."""
    max_output_tokens: int = Field(600, ge=16)
    """Tokens that the model may write; the rest is cut off."""
    temperature: float = Field(0, ge=0, le=2)
    """Sampling temperature."""
    prices: dict[str, Price] = Field({})
    """Prices by model name, in any currency; a model without a price costs nothing."""


class ContextModel(ChatModel):
    """A language model that writes contexts: nobody waits for it."""

    timeout_s: float = Field(60, gt=0)
    """Seconds that one call may take, retries of the connection included."""
    max_retries: int = Field(3, ge=0, le=20)
    """Retries of a request: after 1, 2, 4 s, each up to a quarter longer, or as the server asks."""
    max_output_tokens: int = Field(200, ge=16)
    """Tokens that the model may write for each passage; after a timeout, fewer are requested."""
    temperature: float = Field(0.3, ge=0, le=2)
    """Sampling temperature."""


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

    provider: Literal["metadata", "none", "ollama", "openai"] = "metadata"
    """metadata: title and heading path; none: no prefix; ollama and openai: a language model writes it."""
    fallback: ContextFallback | None = None
    """Another model, called when a call to the first one fails: a mapping of `provider` (openai by default), `model`,
    `base_url`, `api_key_env`, `prices` and the other keys above. After three failures in a row the first model is not
    called for half a minute."""
    max_workers: int = Field(10, ge=1, le=500)
    """Concurrent calls."""
    attempts: int = Field(3, ge=1, le=10)
    """Calls for a passage until its context is good enough; the best context is kept."""
    chunks_per_call: int = Field(1, ge=1, le=20)
    """Passages of one page in one call: fewer calls, but replies that are harder to parse."""
    refresh: bool = False
    """Write contexts again that were made with an older prompt of the program."""

    @model_validator(mode="after")
    def _fallback_has_a_first(self) -> Context:
        if self.fallback and self.provider in ("metadata", "none"):
            raise ValueError(f"a fallback needs a first model; set context.provider, which is {self.provider!r}")
        return self


class AnswerGeneration(ChatModel):
    """The generator, which writes answers."""

    provider: Literal["extractive", "ollama", "openai"] = "extractive"
    """extractive answers with verbatim sentences and needs no model; openai is any OpenAI-compatible server (LM Studio,
    vLLM). While the model is down, extractive is used."""
    breaker_failures: int = Field(3, ge=1)
    """Consecutive failures after which the model is not called for `breaker_reset_s`."""
    breaker_reset_s: float = Field(30, gt=0)
    """Seconds after which the model is called again."""
    unverified: Literal["remove", "mark"] = "remove"
    """What happens to sentences without a verified citation."""
    max_citations: int = Field(3, ge=1, le=20)
    """Largest number of citations in an answer."""
    require_quotes: bool = True
    """Drop a claim that has no quote from its passage. If false, it is enough that the sentence itself is in the
    passage."""
    quote_max_words: int = Field(12, ge=3, le=50)
    """Words that a quote may have; at most 15 are shown. Of a longer verified quote, the words that best support the
    claim are cited."""

    @model_validator(mode="after")
    def _names_its_model(self) -> AnswerGeneration:
        if self.provider != "extractive" and not self.model:
            raise ValueError(f"provider {self.provider!r} needs a model; set generation.model")
        return self


class Gates(Section):
    """Thresholds for answering a question. `citelock evaluate --calibrate` chooses them from data."""

    min_similarity: float = Field(0.35, ge=-1, le=1)
    """Cosine similarity to the question that at least one passage needs, unless `min_coverage` is reached."""
    min_coverage: float = Field(0.2, ge=0, le=1)
    """Share of the question's weight (IDF of its terms) that at least one passage needs, unless `min_similarity` is
    reached."""
    min_confidence: float = Field(0.33, ge=0, le=1)
    """Estimated probability, from which the extractive generator's best sentence is given as the answer."""
    min_confidence_statement: float = Field(0.15, ge=0, le=1)
    """The same for input that is a statement instead of a question: the reply is the passage that supports or
    contradicts it."""
    min_closest: float = Field(0.02, ge=0, le=1)
    """Estimated probability from which the sentence is shown as the closest passage; 1: only confident answers are
    shown."""
    min_clear: float = Field(0.6, ge=0, le=1)
    """Lead, (best - second) / best, that a title or heading needs as the meaning of a name in the question; below, a
    clarifying question is asked. 0: the likeliest page is always used."""
    confidence_weights: Path | None = None
    """File with the weights of that estimate, as `citelock evaluate --calibrate --write` stores it beside the
    configuration; null: the weights of the package, learned from several data sets."""

    def nearer_by(self, gap: float) -> Gates:
        """Return gates that ask for less similarity."""
        return self.model_copy(update={"min_similarity": self.min_similarity - gap}) if gap else self


class Verification(Section):
    """When a quote counts as verified in its passage."""

    fuzzy_partial_ratio_min: float = Field(90, ge=0, le=100)
    """RapidFuzz partial ratio that a quote needs if it is not found exactly; numbers and negations must always be
    equal."""
    min_ocr_confidence: int = Field(80, ge=0, le=100)
    """OCR confidence (0 to 100) that a quote needs in an answer; below, it is shown as the closest passage, to be
    compared with the page. Text from OCR is never called exact."""
    model_check: bool = False
    """Let the generator's model also check whether each sentence follows from the passage that it cites. The check can
    only remove: a doubtful sentence is replaced by the passage's own words, and flagged."""


class Evaluation(Section):
    """Questions with known answers that a candidate generation must answer before it is published."""

    gold: Path = Path("evals/gold")
    """Folder of gold sets (*.yaml). A tenant without a gold set publishes without evaluation."""
    gates: Path = Path("evals/gates.toml")
    """File with minimum values, and with the drops allowed against the published generation."""
    models: Literal["embedded", "configured"] = "embedded"
    """embedded: candidates are evaluated without reranker and language model, at no cost and with the same result each
    time; configured: as for readers."""
    entailment: Literal["none", "generation"] = "none"
    """generation: the language model of `generation` also judges whether passages entail the claims that cite them."""


class Tenant(Section):
    """A tenant: sources and readers that share nothing with other tenants."""

    features: Features = Features()
    """Keys of `features` that differ for this tenant."""
    retrieval: TenantRetrieval = TenantRetrieval()
    """Keys of `retrieval` that differ for this tenant: `enabled`, `phase`, `canary`."""
    jobs: TenantJobs = TenantJobs()
    """Keys of `jobs` that differ for this tenant: `concurrency`, `jobs_per_minute`, `tokens_per_minute`."""
    orchestration: TenantOrchestration = TenantOrchestration()
    """Key of `orchestration` that differs for this tenant: `executor`."""
    keyword: Keyword = Keyword()
    """Keys of `keyword` that differ for this tenant; a list or mapping replaces the whole default."""
    rate_limit_per_minute: int = Field(0, ge=0)
    """Requests of all its callers per minute, in each process; further ones are refused (429, `Retry-After`), first
    those of callers above their share. 0: no limit. Not applied if `serving.auth` is loopback."""
    requests_at_once: int | None = Field(None, ge=0)
    """Requests of all its callers that one process works on at the same time; others wait, for at most ten seconds
    (429, `Retry-After`), and callers take turns. Requests that only wait for a model to write a streamed answer, or for
    events of documents, do not count. 0: no limit. null: no limit for a single tenant; with several tenants 1 for each,
    or 4 if a language model writes answers. No limit if `serving.auth` is loopback."""
    budgets: TenantBudgets = TenantBudgets()
    """Keys of `budgets` that differ for this tenant; `strict` is the same for all."""

    @field_validator("features", mode="before")
    @classmethod
    def _in_capitals(cls, given: Any) -> Any:
        """Return switches by their names: below a tenant's name those of the environment come in lower case, and stand
        over the file's."""
        if not isinstance(given, Mapping):
            return given
        by_name = sorted(given.items(), key=lambda item: str(item[0]).islower())
        return {str(name).upper(): value for name, value in by_name}
