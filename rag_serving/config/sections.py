"""Sections of `config/app.yaml`: switches, ingestion, retrieval, gates, audit, budgets, jobs, privacy.

Belongs here: what may be set (docs/configuration.md is made from it).
Does not belong here: reading the file (`loading`), models (`models`), tenants (`loading`), kinds of sources
(`sources`), sections with a module of their own, anything that acts on a setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from pydantic import Field, field_validator, model_validator

from rag_serving.config.phases import Canary
from rag_serving.config.sources import Section
from rag_serving.plugins import HOOKS, loaded, one
from rag_serving.privacy import NamesError, PersonalKind, Redactor


class Features(Section):
    """Switches for whole stages."""

    FEATURE_RAG_PROVENANCE_LOCK: Literal[True] = True
    """Answers cite only locked passages. Cannot be switched off."""
    FEATURE_RERANKER: bool = True
    """Use the reranker sidecar if `reranker.url` is set."""
    FEATURE_RM3: bool = False
    """Expand the lexical query by relevance feedback (RM3)."""
    FEATURE_HEURISTIC_FALLBACK: bool = True
    """Rerank by words while the reranker is down."""
    FEATURE_HEURISTIC_RERANKER: bool = False
    """Rerank by words where no reranker is configured."""
    FEATURE_PROXIMITY: bool = True
    """Let that reranking count how near the query's words stand."""

    @property
    def enabled(self) -> tuple[str, ...]:
        """The names of the switches that are on, in alphabetical order."""
        return tuple(sorted(name for name, value in self.model_dump().items() if value))


class Ingestion(Section):
    """How pages become chunks."""

    chunk_size_tokens: int = Field(250, ge=32, le=4096)
    """Target tokens of the parts of a long section; shorter sections stay one chunk each."""
    chunk_stride_tokens: int = Field(75, ge=0, le=1024)
    """Tokens of neighbouring text kept as context; never cited."""
    drop_labels: list[str] = Field(["template", "archive", "index"])
    """Exclude pages with one of these labels."""
    drop_boilerplate: bool = True
    """Leave boilerplate sections out of the indexes."""
    dedup_enabled: bool = True
    """Drop near-duplicate chunks."""
    dedup_method: Literal["minhash"] = "minhash"
    """How near-duplicates are found."""
    dedup_threshold: float = Field(0.92, gt=0, le=1)
    """Jaccard similarity from which a chunk is a duplicate."""
    max_page_bytes: ClassVar[int] = 5_000_000  # bytes beyond which a page fails unparsed


class Retrieval(Section):
    """How passages are found and ranked."""

    enabled: bool = True
    """Search the pages. If false, every question is answered with a note that search is switched off, and no index is
    used. A running server follows changes of this key, `phase` and `canary`. A tenant's own settings override them, and
    the environment variables `DOC_RETRIEVAL_ENABLED` and `DOC_RETRIEVAL_PHASE` override both."""
    phase: int = Field(3, ge=1, le=3)
    """3: words and meaning, 2: keywords in chunks, 1: keywords in documents. If a phase fails or is too slow, the next
    lower one is used."""
    canary: Canary | None = None
    """Another phase or other switches for some questions."""
    dense_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the dense index."""
    lexical_backend: Literal["bm25"] = "bm25"
    """Lexical index."""
    lexical_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the lexical index."""
    spelling: bool = True
    """Replace unknown words by the most similar of the pages."""
    fusion: Literal["zscore", "minmax", "rrf"] = "zscore"
    """How both rankings are combined: standard scores, scaled scores, ranks."""
    dense_weight: float = Field(0.5, gt=0, lt=1)
    """Weight of the dense index in the fusion of scores; the rest is the weight of the lexical index."""
    rrf_k: int = Field(60, ge=1)
    """Constant k of reciprocal rank fusion."""
    page_weight: ClassVar[float] = 0.3  # weight of the page's best passage, in standard deviations
    document_weight: ClassVar[float] = 0.2  # weight of the page's mean BM25 score, in standard deviations
    parent_weight: ClassVar[float] = 0.4  # share of the parent page's score that passages get
    neighbour_weight: ClassVar[float] = 0  # weight of the passages directly before and after, in standard deviations
    mmr_lambda: float = Field(1, ge=0, le=1)
    """Relevance against novelty; 1: relevance only."""
    cosine_floor: float = Field(0.18, ge=-1, le=1)
    """Cosine similarity below which candidates of the dense index are dropped."""
    min_keyword_overlap: int = Field(2, ge=0)
    """Query terms that a passage must share, except code and tables."""
    final_passages: int = Field(8, ge=1, le=50)
    """Number of passages that are locked for an answer."""
    # Order of the locked passages: by score, or by page.
    passage_order: ClassVar[Literal["score", "document"]] = "score"


class Gates(Section):
    """Thresholds for answering a question. `citelock evaluate --calibrate` chooses them from data."""

    min_similarity: float = Field(0.35, ge=-1, le=1)
    """Cosine similarity that a passage needs, or `min_coverage`."""
    min_coverage: float = Field(0.2, ge=0, le=1)
    """Share of the question's weight that a passage needs, or `min_similarity`."""
    min_confidence: float = Field(0.48, ge=0, le=1)
    """Probability from which the best sentence is the answer."""
    min_confidence_statement: float = Field(0.3, ge=0, le=1)
    """The same where the input is a statement."""
    min_closest: float = Field(0.12, ge=0, le=1)
    """Probability from which it is shown as the closest passage; 1: only confident answers are shown."""
    min_clear: float = Field(0.6, ge=0, le=1)
    """(best - second) / best that a name's meaning needs; below, a clarifying question is asked. 0: the likeliest page
    is always used."""
    confidence_weights: Path | None = None
    """File with the weights of that probability; null: the weights of the package, learned from several data sets."""

    def nearer_by(self, gap: float) -> Gates:
        """Return gates that ask for less similarity."""
        return self.model_copy(update={"min_similarity": self.min_similarity - gap}) if gap else self


class Verification(Section):
    """When a quote counts as verified in its passage."""

    fuzzy_partial_ratio_min: float = Field(90, ge=0, le=100)
    """RapidFuzz partial ratio of a quote that is not exact; numbers and negations must always be equal."""
    min_ocr_confidence: int = Field(80, ge=0, le=100)
    """OCR confidence that a quote needs in an answer. Below, it is shown as the closest passage, to be compared with
    the page. Text from OCR is never called exact."""


class Evaluation(Section):
    """Questions with known answers that a candidate generation must answer before it is published."""

    gold: Path = Path("evals/gold")
    """Folder of gold sets (*.yaml). A tenant without a gold set publishes without evaluation."""
    gates: Path = Path("evals/gates.toml")
    """File of minimum values and allowed drops."""
    models: Literal["embedded", "configured"] = "embedded"
    """embedded: without reranker and language model; configured: as for readers."""
    entailment: Literal["none", "generation"] = "none"
    """generation: its model also judges entailment of claims."""


class Audit(Section):
    """The audit log: a signed, append-only chain of rows for each tenant, in the database of `telemetry.url`.
    Needs `citelock[governance]`."""

    mode: Literal["off", "best_effort", "required"] = "off"
    """`off`: no log. `best_effort`: rows that cannot be written are counted, and the count is logged when the database
    is back. `required`: what cannot be logged is refused (503 AUDIT_UNAVAILABLE) before an answer is given."""
    user: Literal["hash", "id", "none"] = "hash"
    """How a row identifies the user: `hash`, a pseudonym that only the installation can link to the user; `id`, also
    the user id, encrypted; `none`, not at all. `citelock forget` removes the link of the first two."""
    store_queries: bool = False
    """Store questions, encrypted and redacted."""
    retention_days: int = Field(730, ge=1)
    """Days that rows are kept. The cut is signed, and the rest still verifies."""


class Limit(Section):
    """Two limits of one measure; null: none. A number alone is the hard one."""

    soft: float | None = Field(None, ge=0)
    """From here on answers and builds carry `budget_nearly_spent`."""
    hard: float | None = Field(None, ge=0)
    """From here on requests are refused."""

    @model_validator(mode="before")
    @classmethod
    def _of_number(cls, value: Any) -> Any:
        return {"hard": value} if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _warns_before(self) -> Limit:
        if self.soft is not None and self.hard is not None and self.soft > self.hard:
            raise ValueError(f"soft ({self.soft:g}) is above hard ({self.hard:g}); a warning comes before the refusal")
        return self

    def __bool__(self) -> bool:
        return self.soft is not None or self.hard is not None


class TenantBudgets(Section):
    """Settings for one tenant; null: as `budgets` says."""

    questions_per_minute: Limit | None = None
    """Questions of all its users per minute: a mapping of `soft` and `hard`, or only the hard limit."""
    tokens_per_day: Limit | None = None
    """Tokens that models read and write for questions, contexts and embeddings per day (UTC)."""
    cost_per_day: Limit | None = None
    """Cost of these tokens, in the currency of `generation.prices`, `context.prices` and `embedding.prices`."""
    documents_per_day: Limit | None = None
    """Documents that are uploaded per day (UTC)."""


class Budgets(TenantBudgets):
    """What each tenant may use, counted over all processes in the installation's database. Needs
    `citelock[governance]`."""

    strict: bool = False
    """Refuse requests with a limit while the database is unavailable. If false, each process uses its own counts
    meanwhile and stores them when the database is back."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit of anything."""
        return any(value for _, value in self if isinstance(value, Limit))

    def of(self, own: TenantBudgets) -> Budgets:
        """Return what holds for a tenant with settings of its own."""
        given = {name: value for name, value in own if value is not None}
        return self.model_copy(update=given)


class JobLimits(NamedTuple):
    """What one tenant may take of the workers; a rate of 0 is no limit."""

    concurrency: int
    jobs_per_minute: float
    tokens_per_minute: float


class TenantJobs(Section):
    """Settings for one tenant; null: as `jobs` says."""

    concurrency: int | None = Field(None, ge=1, le=1000)
    """Jobs of the tenant that are processed at the same time."""
    jobs_per_minute: float | None = Field(None, ge=0)
    """Jobs started per minute; 0: no limit."""
    tokens_per_minute: float | None = Field(None, ge=0)
    """Tokens embedded per minute; 0: no limit."""


class Jobs(Section):
    """Who embeds passages: the build itself, or `citelock worker` processes that share a queue in the database of
    `telemetry.url`. The tenant that received the least work recently is next, so that a large upload does not delay a
    small one."""

    embedding: Literal["in_process", "workers"] = "in_process"
    """in_process: the build embeds, without a queue; workers: the build enqueues missing texts and waits for workers,
    which use the same `home`. If the home is an object store, `telemetry.url` must name a database that all machines
    can reach."""
    texts_per_job: int = Field(64, ge=1, le=1024)
    """Most texts in a job. A killed worker loses at most one job, and on each worker a tenant waits for at most one job
    of another tenant."""
    tokens_per_job: int = Field(32_768, ge=1)
    """Most tokens in a job; a longer text is a job by itself."""
    concurrency: int = Field(4, ge=1, le=1000)
    """Jobs of one tenant that are processed at the same time."""
    jobs_per_minute: float = Field(0, ge=0)
    """Jobs of a tenant started per minute; 0: no limit."""
    tokens_per_minute: float = Field(0, ge=0)
    """Tokens of a tenant embedded per minute; 0: no limit."""
    # Jobs of one tenant that may wait. A build with more reports this and enqueues the rest as jobs finish.
    max_waiting: ClassVar[int] = 500
    lease_s: float = Field(60, ge=0.1, le=3600)
    """Seconds without a heartbeat until a worker loses its job. The clocks of machines that share a queue must differ
    by less."""
    attempts: int = Field(5, ge=1, le=100)
    """Attempts to embed a text before it becomes a dead letter. While the model does not respond at all, jobs wait and
    no attempt is counted."""
    backoff_s: ClassVar[float] = 2  # seconds before a retry, doubled up to 5 minutes
    without_workers: Literal["embed", "fail"] = "embed"
    """Without workers: embed in the build, or fail."""
    without_workers_s: float = Field(30, ge=0, le=86_400)
    """Seconds that a build waits for a worker to start."""
    # Seconds without any finished job after which builds fail; its jobs stay in the queue.
    stalled_s: ClassVar[float] = 900
    keep_days: ClassVar[int] = 30  # days that finished jobs and dead letters are kept

    def limits_of(self, own: TenantJobs) -> JobLimits:
        """Return what holds for a tenant with settings of its own."""
        return JobLimits(
            self.concurrency if own.concurrency is None else own.concurrency,
            self.jobs_per_minute if own.jobs_per_minute is None else own.jobs_per_minute,
            self.tokens_per_minute if own.tokens_per_minute is None else own.tokens_per_minute,
        )


_NAMES = "names"


class Privacy(Section):
    """Personal data in logs, telemetry, the audit log and cached answers. The answers that users see are not
    changed."""

    redact: list[str] = Field(["email", "iban", "card", "national_id", "phone"])
    """Kinds of personal data replaced by a label. Empty: none."""
    names_model: Path | None = Field(None)
    """Folder of the model that `names` needs. Needs citelock[names]."""
    regions: list[str] = Field([])
    """Countries whose telephone numbers and ids are recognized, with `citelock[governance]`. Numbers that begin with +
    are always recognized. National ids: AT, AU, BE, BR, CA, CH, DE, DK, ES, FI, FR, GB, IE, IN, IT, MX, NL, NO, PL, PT,
    SE, US."""

    @field_validator("redact")
    @classmethod
    def _known_kinds(cls, kinds: list[str]) -> list[str]:
        known = get_args(PersonalKind)
        if unknown := [kind for kind in kinds if kind not in known]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return kinds

    @field_validator("regions")
    @classmethod
    def _known_regions(cls, regions: list[str]) -> list[str]:
        upper = [region.upper() for region in regions]
        if not upper or "phones" not in loaded(HOOKS):  # which the configuration as a whole is refused for
            return upper
        known = one(HOOKS, "phones").regions()
        if unknown := [region for region in upper if region not in known]:
            raise ValueError(f"{unknown[0]!r} is no country of ISO 3166 with telephone numbers; DE and US are")
        return upper

    @model_validator(mode="after")
    def _usable_names_model(self) -> Self:
        if _NAMES not in self.redact:
            return self
        if self.names_model is None:
            raise ValueError("names in redact take a model; set names_model to its folder, or take names out")
        if "names" not in loaded(HOOKS):  # as above
            return self
        try:
            one(HOOKS, "names").check_names_model(self.names_model)
        except NamesError as error:
            raise ValueError(str(error)) from None
        return self

    def redactor(self) -> Redactor:
        """Return what takes out what is configured."""
        kinds = tuple(kind for kind in get_args(PersonalKind) if kind in self.redact)
        return Redactor(kinds, tuple(dict.fromkeys(self.regions)), self.names_model)
