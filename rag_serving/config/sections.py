"""Sections of `config/app.yaml` that no other module of this package has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args

from pydantic import Field, JsonValue, field_validator, model_validator

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
    FEATURE_PROXIMITY: ClassVar[bool] = True  # that reranking counts how near the query's words stand

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
    """Other switches for the questions to some spaces: `features`, and `spaces` that a filter or `space:KEY` names."""
    dense_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the dense index."""
    lexical_backend: Literal["bm25"] = "bm25"
    """Lexical index."""
    lexical_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the lexical index."""
    spelling: ClassVar[bool] = True  # replace unknown words by the most similar of the pages
    fusion: Literal["zscore", "minmax", "rrf"] = "zscore"
    """How both rankings are combined: standard scores, scaled scores, ranks."""
    dense_weight: float = Field(0.5, gt=0, lt=1)
    """Weight of the dense index in the fusion of scores; the rest is the weight of the lexical index."""
    rrf_k: int = Field(60, ge=1)
    """Constant k of reciprocal rank fusion."""
    page_weight: ClassVar[float] = 0.3  # weight of the page's best passage, in standard deviations
    document_weight: ClassVar[float] = 0.2  # weight of the page's mean BM25 score, in standard deviations
    parent_weight: ClassVar[float] = 0.4  # share of the parent page's score that passages get
    mmr_lambda: float = Field(1, ge=0, le=1)
    """Relevance against novelty; 1: relevance only."""
    cosine_floor: float = Field(0.18, ge=-1, le=1)
    """Cosine similarity below which candidates of the dense index are dropped."""
    min_keyword_overlap: int = Field(2, ge=0)
    """Query terms that a passage must share, except code and tables."""
    final_passages: int = Field(8, ge=1, le=50)
    """Number of passages that are locked for an answer."""


_LEARNED = ("min_similarity", "min_coverage", "min_confidence_statement", "min_closest", "min_clear")


class Gates(Section):
    """Thresholds for answering a question. `citelock evaluate --calibrate` chooses them from data."""

    min_confidence: float = Field(0.48, ge=0, le=1)
    """Probability from which the best sentence is the answer."""
    confidence_weights: Path | None = None
    """File with the weights of that probability and the other thresholds, which `citelock evaluate --calibrate --write`
    learns; null: those of the package, learned from several data sets."""
    min_similarity: ClassVar[float] = 0.35  # cosine similarity that a passage needs, or `min_coverage`
    min_coverage: ClassVar[float] = 0.2  # share of the question's weight that a passage needs, or `min_similarity`
    min_confidence_statement: ClassVar[float] = 0.3  # as `min_confidence`, where the input is a statement
    min_closest: ClassVar[float] = 0.12  # probability from which the best sentence is shown as the closest passage
    # (best - second) / best that a name's meaning needs; below, a clarifying question is asked. 0: the likeliest page
    # is always used.
    min_clear: ClassVar[float] = 0.6
    gone: ClassVar = dict.fromkeys(_LEARNED, "in the file of gates.confidence_weights, under `gates`; delete it here")

    @model_validator(mode="after")
    def _with_learned(self) -> Self:
        """Take the learned thresholds from the file; that it cannot be used is said where its weights are read."""
        try:
            given = json.loads(self.confidence_weights.read_text(encoding="utf-8")) if self.confidence_weights else {}
            found = {name: float(given["gates"][name]) for name in _LEARNED if name in given.get("gates", {})}
        except (OSError, ValueError, TypeError, AttributeError):
            return self
        return self.model_copy(update=found) if found else self

    def nearer_by(self, gap: float) -> Gates:
        """Return gates that ask for less similarity."""
        return self.model_copy(update={"min_similarity": self.min_similarity - gap}) if gap else self


class Verification(Section):
    """When a quote counts as verified in its passage."""

    fuzzy_partial_ratio_min: float = Field(90, ge=0, le=100)
    """RapidFuzz partial ratio of a quote that is not exact; numbers and negations must always be equal."""
    # OCR confidence that a quote needs in an answer. Below, it is shown as the closest passage, to be compared with
    # the page. Text from OCR is never called exact.
    min_ocr_confidence: ClassVar[int] = 80


class Evaluation(Section):
    """Questions with known answers that a candidate generation must answer before it is published."""

    gold: Path = Path("evals/gold")
    """Folder of gold sets (*.yaml). A tenant without a gold set publishes without evaluation. Beside it,
    `acknowledged/TENANT.yaml` has what is known of the report `contradictions` and stays: `acknowledged: [{id, reason,
    until}]`."""
    gates: Path = Path("evals/gates.toml")
    """File of minimum values and allowed drops."""
    gone: ClassVar = {"acknowledged": "the folder `acknowledged` beside evaluation.gold"}
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

    gone: ClassVar = {"strict": "fixed at false: each process counts by itself while the database is away; delete it"}

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit of anything."""
        return any(value for _, value in self if isinstance(value, Limit))

    def of(self, own: TenantBudgets) -> Budgets:
        """Return what holds for a tenant with settings of its own."""
        given = {name: value for name, value in own if value is not None}
        return self.model_copy(update=given)


class JobLimits(NamedTuple):
    """What one tenant may take of the workers; `tokens_per_minute` 0: no limit."""

    concurrency: int
    tokens_per_minute: float


class TenantJobs(Section):
    """Settings for one tenant; null: as `jobs` says."""

    gone: ClassVar[Mapping[str, str]] = {"jobs_per_minute": "part of tokens_per_minute; set that"}
    concurrency: int | None = Field(None, ge=1, le=1000)
    """Jobs of the tenant that are processed at the same time."""
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
    gone: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("texts_per_job", "tokens_per_job"), "64 texts of 512 tokens, 1,024 on CUDA; delete it"),
        "without_workers": "fixed at embed; delete it",
        **TenantJobs.gone,
    }
    # Most texts in a job, of 512 tokens each. A killed worker loses at most one job, and on each worker a tenant waits
    # for at most one job of another tenant.
    texts_per_job: ClassVar[int] = 64
    texts_per_gpu_job: ClassVar[int] = 1024  # with `embedding.device: cuda`: 2,480 passages a second instead of 1,730
    concurrency: int = Field(4, ge=1, le=1000)
    """Jobs of one tenant that are processed at the same time."""
    tokens_per_minute: float = Field(0, ge=0)
    """Tokens of a tenant embedded per minute; 0: no limit."""
    # Jobs of one tenant that may wait. A build with more reports this and enqueues the rest as jobs finish.
    max_waiting: ClassVar[int] = 500
    # Seconds without a heartbeat until a worker loses its job. The clocks of machines that share a queue must differ
    # by less.
    lease_s: ClassVar[float] = 60
    # Attempts to embed a text before it becomes a dead letter. While the model does not respond at all, jobs wait and
    # no attempt is counted.
    attempts: ClassVar[int] = 5
    backoff_s: ClassVar[float] = 2  # seconds before a retry, doubled up to 5 minutes
    without_workers_s: ClassVar[float] = 30  # seconds that a build waits for a worker to start
    # Seconds without any finished job after which builds fail; its jobs stay in the queue.
    stalled_s: ClassVar[float] = 900
    keep_days: ClassVar[int] = 30  # days that finished jobs and dead letters are kept

    @property
    def tokens_per_job(self) -> int:
        """Most tokens in a job; a longer text is a job by itself."""
        return 512 * self.texts_per_job

    def limits_of(self, own: TenantJobs) -> JobLimits:
        """Return what holds for a tenant with settings of its own."""
        return JobLimits(
            self.concurrency if own.concurrency is None else own.concurrency,
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


class Cache(Section):
    """Reuse of answers to the same question, also in other words, without a search and without a model."""

    semantic: bool | Literal["shared"] = False
    """Reuse confident answers for the same question, however worded; shared: for all users with the same reader
    classes. A hit takes a few milliseconds: useful if a language model writes answers, which takes seconds. true: only
    for the user who asked, so that the time of an answer does not reveal what others asked."""
    gone: ClassVar = {"shared": "cache.semantic: shared"}
    # Cosine similarity that two wordings of a question need; numbers, names, negations and all other significant
    # words must always be equal.
    min_similarity: ClassVar[float] = 0.8
    max_answers: ClassVar[int] = 1_000  # answers kept in memory for each tenant, in each process
    max_bytes: ClassVar[int] = 16_000_000  # bytes that these answers may take
    max_age_s: ClassVar[float] = 3_600  # seconds after which an answer is no longer reused


class Sessions(Section):
    """Conversations: how follow-up questions are read, and whether sessions are stored."""

    store_days: int = Field(0, ge=0)
    """Days for which sessions that clients start are stored after their last question, encrypted; 0: none is stored."""
    gone: ClassVar = {"store": "sessions.store_days: 90", "retention_days": "sessions.store_days"}
    most_sessions: ClassVar[int] = 200  # sessions stored for one user; a new one replaces the oldest
    most_turns: ClassVar[int] = 500  # questions stored in one session; a new one replaces the oldest
    rewrite: ClassVar[bool] = True  # let a language model complete follow-up questions
    rewrite_timeout_s: ClassVar[float] = 5  # seconds that this may take; after that, rules complete the question


class Telemetry(Section):
    """Records of questions and of readers' feedback."""

    enabled: bool = True
    """Record questions and feedback."""
    url: str | None = None
    """Database of telemetry and receipts, such as postgresql://user@host/name (password by PGPASSWORD); null:
    `serving.db` in the home folder. Servers that share it must share `CITELOCK_SECRET`, which signs receipts."""
    store_questions: bool = False
    """Store the text of questions, not only its keyed hash; otherwise only receipts contain it, encrypted."""
    retention_days: int = Field(90, ge=1)
    """Days after which rows are deleted."""
    reports_since: ClassVar[str] = "retention_days ago"  # first day for which Dagster can make a report


class Tracing(Section):
    """Traces with OpenTelemetry (extra `tracing`). Nothing is sent unless `endpoint` is set."""

    endpoint: str | None = None
    """Address of the collector for OTLP over HTTP, such as `http://collector:4318`; null: nothing is sent. Headers that
    it requires come only from the environment (`OTEL_EXPORTER_OTLP_HEADERS`)."""
    gone: ClassVar = {"sample_ratio": "OTEL_TRACES_SAMPLER=parentbased_traceidratio with OTEL_TRACES_SAMPLER_ARG"}
    text: bool = False
    """Allow questions, prompts and the output of models in spans. Prompts contain the texts of pages."""

    @field_validator("endpoint")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it must begin with http:// or https://")
        return value


class Monitoring(Section):
    """Alerts about overdue sources, failed syncs and failed publications. Dagster's daemon checks every minute; no
    build waits for an alert."""

    missed_syncs: ClassVar[int] = 2  # missed syncs in a row that make a source overdue
    stale_after_hours: ClassVar[float] = 168  # hours without a sync that make an unscheduled source overdue
    alert_command: list[str] = Field([])
    """Command that gets alerts as JSON on standard input. Empty: none."""
    alert_url_env: str | None = None
    """Environment variable with a webhook for alerts. Slack and Mattermost show its `text`. null: none."""
    alert_timeout_s: ClassVar[float] = 5  # seconds after which an alert that was not accepted is abandoned
    notice_folder: Path | None = None
    """Folder for e-mails (.eml) to users who follow an answer that changed. A mail server collects them. null: none."""
    notice_url_env: str | None = None
    """Environment variable with a webhook for the same notices. It passes each to its `user` alone: a notice quotes
    pages that others may not read. null: none."""
    # Environment variable with the secret that signs notices to the webhook (`X-Hub-Signature`). Required for it.
    notice_secret_env: ClassVar[str] = "CITELOCK_NOTICE_SECRET"

    @property
    def sends_notices(self) -> bool:
        """Return whether users can be told that an answer changed."""
        return bool(self.notice_folder or self.notice_url_env)


class Prompt(Section):
    """What a language model reads in addition to a question; extraction uses none of it. Tokens that one part does not
    use are available for passages. If passages do not fit, those with the lowest scores are left out first."""

    concepts: dict[str, str] = Field({})
    """Core concepts, one sentence each, sent with every question. Sent with every question."""
    # Tokens of core concepts; concepts beyond this limit are left out, the last ones first.
    concept_tokens: ClassVar[int] = 500
    document_tokens: ClassVar[int] = 1500  # tokens of passages
    book_tokens: ClassVar[int] = 5000  # tokens of passages for questions to the books only
    application_tokens: ClassVar[int] = 300  # tokens of the application state (`context.application` of a question)
    widget_tokens: ClassVar[int] = 200  # tokens of the states of its widgets (`context.widgets`)
    # Tokens of earlier questions of the conversation; the oldest are left out first.
    message_tokens: ClassVar[int] = 500

    def passage_tokens(self, mode: str) -> int:
        """Return the tokens of passages for questions of a mode."""
        return {"book-wide": self.book_tokens}.get(mode, self.document_tokens)


class Ocr(Section):
    """Text recognition by Tesseract (needs citelock[formats]) for images (PNG, JPEG, TIFF) and for pages of PDF files
    without a text layer or with a broken one. In Debian the package is tesseract-ocr, and tesseract-ocr-deu for a
    language. Results are kept."""

    enabled: Union[Literal["auto"], bool] = "auto"
    """auto: on if tesseract is installed; otherwise such pages are recorded with the reason. true: a document is left
    out unless all of its pages can be recognized. false: off."""
    command: ClassVar[str] = "tesseract"  # found by PATH
    languages: list[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_/-]{1,40}$")]] = Field([])
    """Language codes of tesseract, such as eng and deu; empty: all that are installed. If there are several, the first
    pages of a document decide which one it is in."""
    dpi: ClassVar[int] = 200  # of the recognized pictures, in pixels per inch
    max_pages: ClassVar[int] = 500  # pages of one document that are recognized; further ones are recorded
    timeout_s: ClassVar[float] = 60  # seconds for one page, which takes one to three; else it is recorded


class Documents(Section):
    """Limits for one page or attached file. Longer ones are cut; those that take too much time or memory are left out.
    Both are recorded with the reason, and all other pages are read as usual."""

    max_text_chars: ClassVar[int] = 2_000_000  # characters of text; a longer document is cut
    max_headings: ClassVar[int] = 10_000  # each becomes a section
    max_blocks: ClassVar[int] = 100_000  # paragraphs, list items, table rows, blocks of code and links
    max_cells: ClassVar[int] = 200_000  # of all tables, merged and missing ones included
    max_seconds: int = Field(30, ge=1, le=3600)
    """Seconds of processor time for one document; a document that takes longer is left out."""
    max_memory_mb: int = Field(512, ge=64)
    """Megabytes of memory for one document (on Linux); a document that takes more is left out."""

    ocr: Ocr = Ocr()
    """How scanned pages are read."""

    def changed(self) -> dict[str, Any]:
        """Return the limits that are not the defaults."""
        usual = type(self)().model_dump()
        return {name: value for name, value in self.model_dump().items() if value != usual[name]}


class Keyword(Section):
    """The keyword search: phases 1 (documents) and 2 (chunks), which need neither vectors nor a model."""

    synonyms: dict[str, str] = Field({})
    """Replacements of a question's words or phrases, in every phase; phrases are replaced before words."""
    concepts: list[str] = Field([])
    """Terms that are never read as plurals or misspelt."""
    top_k: ClassVar[int] = 5  # documents (phase 1) or chunks (phase 2) used for an answer
    # Most chunks of one document among them; if a question asks about two things, for each of the two.
    max_per_document: ClassVar[int] = 2


ExecutorKind = Literal["in_process", "multiprocess", "celery", "docker", "k8s"]


class TenantOrchestration(Section):
    """Settings for one tenant; null: as `orchestration` says."""

    executor: ExecutorKind | None = None
    """Where the steps of the tenant and of its sources run."""


class Orchestration(Section):
    """Where Dagster runs the steps of `ingest` and `publish`; `citelock build` runs them in its own process. Every
    process needs the same configuration, the same `CITELOCK_SECRET` and the same home: a folder that supports POSIX
    locks, or an object store, where each machine has its own cache folder. How to choose: deploy.md."""

    gone: ClassVar[Mapping[str, str]] = {
        "pools": "Dagster's: dagster instance concurrency set POOL N",
        "max_concurrent": "orchestration.options.EXECUTOR.max_concurrent",
        "image": "orchestration.options.docker.image, or options.k8s.job_image",
        **{name: f"orchestration.options.{name}" for name in ("celery", "docker", "k8s")},
    }
    executor: ExecutorKind = "in_process"
    """Where steps run; the last three need `citelock[executors]`. docker, k8s: each in its own container or pod."""
    options: dict[ExecutorKind, dict[str, JsonValue]] = Field({})
    """Options of Dagster's executors, by kind: `max_concurrent` of multiprocess, docker, k8s; `image`, `networks` of
    docker; `job_image`, `job_namespace`, `step_k8s_config` of k8s; of celery `queue` (dagster), which must differ from
    the queue of a Celery run launcher, otherwise runs occupy the workers that their own steps wait for, and
    `lost_after_s` (30): seconds without a worker until a step is handed out again."""
