"""The state shared by the questions of one tenant: published generation, models, memory, receipts, telemetry, logs."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import Answering
from rag_serving.answering.composing import AnswerTrace
from rag_serving.artifacts.store import Store
from rag_serving.caching.memory import CachePlace, Memory
from rag_serving.config.loading import Config
from rag_serving.config.phases import PhaseSettings
from rag_serving.conversations.conversing import Conversing
from rag_serving.conversations.turns import Conversation, QuestionRequest
from rag_serving.deadline import search_limit
from rag_serving.degradation.phases import OnChange, Phases, TenantPhases
from rag_serving.hooks import AuditLog, Event, TenantBudget
from rag_serving.indexes.catalog import kept_at, published_before
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.databases import RemoteError, ServedGeneration
from rag_serving.indexes.view import ReaderView
from rag_serving.models.breaker import State
from rag_serving.models.embedding.factory import Words
from rag_serving.models.embedding.onnx_format import GraphCache
from rag_serving.models.lazy_embedder import GuardedEmbedder, open_guarded
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.pipeline.locked import Locked
from rag_serving.receipts.proofs import Chunks, Proof, Proofs, ReceiptWriter, telemetry_of
from rag_serving.receipts.receipt import Secrecy
from rag_serving.receipts.store import ReceiptStore, open_receipts
from rag_serving.receipts.subscriptions import Subscriptions
from rag_serving.records.answers import Answer, Checked, SearchResults, Status
from rag_serving.records.claims import EXTRACTIVE, Usage
from rag_serving.records.flags import NEARLY_SPENT
from rag_serving.records.passages import Candidate
from rag_serving.records.queries import Filters
from rag_serving.records.sets import SetTables
from rag_serving.retrieval.hybrid import Mode, RetrievalError
from rag_serving.retrieval.search import Search
from rag_serving.sets.history import Now
from rag_serving.sets.model_reading import ModelReader
from rag_serving.telemetry.events import Kind, Trace
from rag_serving.telemetry.telemetry import QuestionTelemetry
from rag_serving.tracing import StageTrace

if TYPE_CHECKING:
    from rag_serving.config.sections import Features
    from rag_serving.conversations.sessions import SessionStore
    from rag_serving.models.reranker_client import RemoteReranker
    from rag_serving.rendering.cited import CitedPlaces
    from rag_serving.shared_home import HomeFollower


Result = TypeVar("Result")
Stages = Sequence[Callable[["Inquiry"], None]]


@dataclass
class Inquiry:
    """One question. A stage that reads a result of no earlier stage fails with an `AttributeError`."""

    tenant: TenantServices
    request: QuestionRequest
    trace: StageTrace
    stages: Stages  # the remaining ones
    conversation: Conversation = field(default_factory=Conversation)
    selection: str = ""
    quotes: Sequence[str] = ()
    count: int = 0  # results of a search
    is_read: bool = True  # whether it was resolved in its conversation, if it has one
    within: Filters | None = None  # filters of every question of its conversation that has none of its own
    lease: ExitStack = field(default_factory=ExitStack)  # resources to close when the pages have been read
    mode: Mode = "hybrid"  # the mode of the search; stages before it do not read this
    place: CachePlace | None = None  # its key in the answer cache
    instead: tuple[Status, str] | None = None  # status and text in place of the answer
    embedder: Embedder | None = None  # embeds its text; None: that of its tenant, with cached vectors
    now: Now | None = None  # the published pages, if it asks an earlier generation
    config: Config = field(init=False)
    answering: Answering = field(init=False)
    places: CitedPlaces | None = field(init=False)  # locates quotes on the pages of PDF files; None: not available
    recorded: Trace = field(init=False)
    phases: Phases = field(init=False)
    view: ReaderView = field(init=False)
    known: frozenset[str] = field(init=False)  # reader classes of the generation
    locked: Locked = field(init=False)
    written: AnswerTrace = field(init=False)
    cited: Answer = field(init=False)  # the answer, with its citations as readers see them
    answer: Answer = field(init=False)
    results: SearchResults = field(init=False)
    checked: Checked = field(init=False)

    def __post_init__(self) -> None:
        tenant = self.tenant
        self.config, self.answering, self.places = tenant.config, tenant.answering, tenant.cited
        self.recorded = Trace(features=self.config.features.enabled)

    def run(self) -> None:
        """Go through the stages that are left."""
        with self.lease:
            while self.stages:
                stage, *self.stages = self.stages
                stage(self)

    def in_phase(self, find: Callable[[Inquiry], Result]) -> Result:
        """Return the result of a search in the first phase that answers; each has a trace of its own."""
        run = self.phases.run
        return run(lambda mode, part: find(self.variant(mode=mode, trace=part)), self.view.id, self.trace)

    def variant(self, **changes: Any) -> Inquiry:
        """Return a copy that goes on by itself, with some attributes changed."""
        other = copy(self)
        vars(other).update(changes)
        return other

    @property
    def vectors(self) -> Embedder:
        """The embedder of the asker's questions, with their recent vectors."""
        return self.embedder or self.tenant.memory.vectors.of(self.request.principal.user)

    @property
    def reranker(self) -> RemoteReranker | None:
        """The sidecar, where the question is to be reranked."""
        return self.tenant.sidecar if self.config.features.FEATURE_RERANKER else None


STALE = "stale_generation"
BEING_FETCHED = "the pages are being fetched; try again shortly"

_log = logging.getLogger(__name__)


class NotKeptError(ValueError):
    """There is no such generation to ask; the message says which there are."""


@dataclass(frozen=True)
class Services:
    """A tenant's resources beside the published generation."""

    embedder: Embedder
    receipts: ReceiptStore
    reranker: RemoteReranker | None = None
    telemetry: QuestionTelemetry | None = None


@dataclass
class QuestionLog:
    """Writes questions down, each before its answer is given. `audit`, `telemetry`: None if it is off; `budget`: None
    if nothing is limited. The audit log comes first: if it is required and cannot be written, nobody gets the answer.
    What a question used is counted whatever becomes of it."""

    telemetry: QuestionTelemetry | None
    audit: AuditLog | None = None
    budget: TenantBudget | None = None

    def begin(self, trace: StageTrace) -> None:
        """Count a question before it is worked on, and note where the budget is nearly spent. Raises BudgetError: it is
        spent."""
        if self.budget and self.budget.take("questions", "questions"):
            trace.raise_flag(NEARLY_SPENT)

    def answered(
        self, principal: Principal | None, question: str, answer: Answer, trace: Trace, kind: Kind = "ask"
    ) -> None:
        """Record a question with its outcome. Raises AuditUnavailableError: a required audit log cannot be written."""
        if answer.usage:
            self.spent(answer.usage)
        if self.audit:
            self.audit.answered(principal, question, answer, trace.lock.chunk_ids, kind == "selected_text")
        if self.telemetry:
            self.telemetry.answered(principal, question, answer, trace, kind)

    def searched(self, principal: Principal, query: str, results: SearchResults, trace: Trace) -> None:
        """Write down a search; errors as `answered`."""
        if self.audit:
            self.audit.searched(principal, query, results)
        if self.telemetry:
            self.telemetry.searched(principal, query, results, trace)

    def spent(self, usage: Usage) -> None:
        """Count what a model took."""
        if self.budget:
            self.budget.spend("questions", usage.prompt_tokens + usage.completion_tokens, usage.cost)

    def record(self, event: Event) -> None:
        """Log an act that is about to be done; errors as `answered`."""
        if self.audit:
            self.audit.record(event)

    def close(self) -> None:
        """Write queued items."""
        if self.audit:
            self.audit.close()
        if self.budget:
            self.budget.close()
        if self.telemetry:
            self.telemetry.close()


def open_sessions(config: Config, tenant: str) -> SessionStore | None:
    """Return the stored sessions of a tenant, or None if none are stored. Nothing is opened yet."""
    if not config.sessions.store_days:
        return None
    from rag_serving.conversations.sessions import SessionStore  # a question in a terminal waits for no database

    return SessionStore(config, tenant, lambda: datetime.now(UTC))


class TenantServices:
    """The state shared by the questions of one tenant. Safe to use from several threads. A newer generation is picked
    up between questions; a question stays with the generation it began with."""

    def __init__(self, config: Config, tenant: str, published: CurrentGeneration, services: Services) -> None:
        self.config = config = config.of_tenant(tenant)
        self.tenant, self.published = tenant, published
        self.receipts, self.telemetry = services.receipts, services.telemetry
        self.log = QuestionLog(services.telemetry)
        self.secrecy = Secrecy(config.home, config.telemetry.store_questions)
        self.proofs = Proofs(config, tenant, published, services.receipts, self.secrecy)
        self.subscriptions = Subscriptions(config, tenant)
        self.sessions = open_sessions(config, tenant)
        self.sidecar = services.reranker
        self.mode: Mode | None = None  # what is searched in place of any phase
        self.embedder = services.embedder
        self.cited: CitedPlaces | None = None  # finds quotes on the pages of PDF files; None: nobody does
        self.followed: HomeFollower | None = None  # fetches what is published from an object store; None: nothing is
        self.answering = Answering(config, services.embedder)
        self.set_reader = ModelReader(config.generation, self.answering.generator.breaker)
        self.conversing = Conversing(config, services.embedder)
        self.receipt_writer = ReceiptWriter(tenant, services.receipts, self.secrecy, self.answering.rules)
        self.memory = Memory(config, tenant, services.embedder, self.receipt_writer)
        self.is_word = Words(config.embedding, GraphCache(config.home))
        in_process = config.embedding.provider == "local" and not services.reranker
        self.phases = TenantPhases(config, tenant, search_limit(in_process, config.serving.workers))

    @classmethod
    def open(
        cls,
        config: Config,
        tenant: str,
        embedder: Embedder | None = None,
        reranker: RemoteReranker | None = None,
        telemetry: QuestionTelemetry | None = None,
    ) -> Self:
        """Return services that open model and generation with the first question that needs them, so that errors of
        these are not raised here. Questions are recorded only with `telemetry`: those of a measurement are no reader's.
        Raises ConfigError: the configured weights cannot be used."""
        published, receipts = CurrentGeneration(Store(config.home), tenant, config), open_receipts(config)
        if reranker is None and config.reranker.url:
            from rag_serving.models.reranker_client import open_reranker

            reranker = open_reranker(config.features_of(tenant), config.reranker)
        services = Services(embedder or open_guarded(config), receipts, reranker, telemetry)
        return cls(config, tenant, published, services)

    def generation_before(self, since: str, current: str, is_past: bool = False) -> str | None:
        """Return the kept generation that was published last before a date (an ISO date, month or year) and is not the
        current one; without a date the one before the current. None if none is kept. `is_past`: the current one is
        another than the published one."""
        if self.config.index.kind != "disk":
            return None
        begin = datetime.fromisoformat(f"{since}-01-01"[:10]).replace(tzinfo=UTC) if since else datetime.now(UTC)
        store = Store(self.config.home)
        if is_past:
            begin = min(begin, datetime.fromisoformat(kept_at(store, self.tenant)[current]))
        return published_before(store, self.tenant, begin, current)

    def generation_as_of(self, told: str, current: str) -> str:
        """Return the generation of an id, or the one that was published at the end of a date (ISO, or a month or year).
        Raises NotKeptError: there is none; the message says which are kept."""
        kept = {current: ""}
        if self.config.index.kind == "disk":
            kept |= kept_at(Store(self.config.home), self.tenant)
        if told in kept:
            return told
        times = sorted((when, one) for one, when in kept.items() if when)
        if re.fullmatch(r"\d{4}(?:-\d\d){0,2}", told) and (before := [t for t in times if t[0][: len(told)] <= told]):
            return before[-1][1]
        listed = ", ".join(f"{one} ({when[:10]})" for when, one in times) or current
        raise NotKeptError(f"No generation of {told!r} is kept. Kept are: {listed}.")

    @contextmanager
    def past(self, generation: str, phases: Phases) -> Iterator[ServedGeneration]:
        """Yield a kept generation; it stays open until the block and the last abandoned search have ended. Raises
        UnpublishedError: it cannot be opened."""
        lease = ExitStack()
        try:
            yield lease.enter_context(self.published.stored(generation))
        finally:
            phases.release(lease)

    def set_tables(
        self, generation: str, principal: Principal, among: Collection[str] | None = None
    ) -> SetTables | None:
        """Return the tables of a kept generation as a reader may see them; None if it cannot be opened."""
        with suppress(UnpublishedError), self.published.stored(generation) as opened:
            return opened.for_reader(principal).set_tables(among)
        return None

    @property
    def reranker(self) -> RemoteReranker | None:
        """The sidecar's client, if it is switched on."""
        return self.sidecar if self.config.features.FEATURE_RERANKER else None

    def watch(self, on_change: OnChange | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep answers for when search fails, bound its time and leave a phase that fails, as a server does; before
        the first question. `clock`: seconds, that all of it goes by."""
        self.memory.keep_earlier(self.published, clock)
        self.phases.watch(on_change, clock)

    def switch(self, features: Features, phases: PhaseSettings) -> None:
        """Ask by other switches, in other phases, from the next question on."""
        self.config = self.config.model_copy(update={"features": features})
        if phases != self.phases.configured:
            self.phases.switch(phases)

    def breakers(self) -> dict[str, State]:
        """Return the states of the circuit breakers before the models that are switched on."""
        found: dict[str, State] = {}
        if isinstance(self.embedder, GuardedEmbedder):
            found["embedder"] = self.embedder.breaker.state
        if self.config.generation.provider != EXTRACTIVE:
            found["generator"] = self.answering.generator.breaker.state
        if self.reranker:
            found["reranker"] = self.reranker.breaker.state
        return found

    def close(self) -> None:
        self.memory.close()
        self.published.close()
        self.receipts.close()
        if self.sessions:
            self.sessions.close()
        if self.sidecar:
            self.sidecar.close()
        self.log.close()

    def warm(self) -> None:
        """Open model and generation before the first question comes; failures show with the questions."""
        with suppress(UnpublishedError, RemoteError), self.published.acquire() as generation:
            generation.for_reader(Principal(self.tenant))
        with suppress(ModelError):
            self.embedder.embed_query("warm")
        self.is_word("warm")

    def problem(self) -> str | None:
        """Return why no question can be answered, or None."""
        return self.published.refusal()

    @contextmanager
    def reading(self, principal: Principal) -> Iterator[ReaderView]:
        """Yield the published generation as a principal may see it; it stays open until the block ends. Raises
        UnpublishedError: there is no generation to read; RemoteError: it is in a database that cannot answer."""
        with self.published.acquire() as generation:
            yield generation.for_reader(principal)

    def receipt(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """Return a stored receipt, where the principal may read it: `Proofs.shown`."""
        return self.proofs.shown(principal, identifier)

    def proof(self, identifier: str, principal: Principal | None = None) -> Proof:
        """Return the proof of a stored receipt; a given principal must be one that may see it."""
        return self.proofs.proved_to(principal, identifier) if principal else self.proofs.prove(identifier)

    def readable(self, principal: Principal, cited: Sequence[Chunks]) -> list[bool]:
        """Return for several answers whether the principal may still read their citations: `Proofs.open_to`."""
        return self.proofs.open_to(principal, cited)

    def config_of(self, phases: Phases) -> Config:
        """Return the configuration that a question which begins now is answered by."""
        if not phases.features:
            return self.config
        features = self.config.features.model_copy(update=phases.features)
        return self.config.model_copy(update={"features": features})

    def found(self, search: Search, features: Features, phases: Phases) -> Trace:
        """Return telemetry's record of a search, if telemetry is on."""
        if self.telemetry is None:
            return Trace()
        return telemetry_of(search, features, phases.phase, phases.retrieval_ms)

    def passages(self, search: Search) -> Iterable[Candidate]:
        """Return the lock's candidates, best first; an early stop leaves the rest unread."""
        return search.context.passages.candidates(search.ranking)

    @contextmanager
    def pages(
        self, principal: Principal, trace: StageTrace, phases: Phases
    ) -> Iterator[tuple[ReaderView, frozenset[str]]]:
        """Yield the pages visible to a principal, with the reader classes that they know; they stay open until the
        block and the last abandoned search have ended. Raises UnpublishedError: there is no generation to read;
        RetrievalError: its database is unavailable."""
        lease, tenant = ExitStack(), principal.tenant
        if self.followed and self.followed.staleness(tenant):
            trace.raise_flag(STALE)
        try:
            generation = lease.enter_context(self.published.acquire(partial(trace.raise_flag, STALE)))
        except UnpublishedError as error:
            if self.followed and self.followed.awaited(tenant, has_older=False):
                raise UnpublishedError(BEING_FETCHED) from error
            raise
        try:
            yield generation.for_reader(principal), generation.classes_for(principal)
        except RemoteError as error:
            _log.error("the database of `index`: %s", error)
            raise RetrievalError("the database of the pages cannot answer") from error
        finally:
            phases.release(lease)
