"""One tenant's question path: the published generation, models, receipts and telemetry that its questions share.

Belongs here: what a question begins with and leaves behind, what is answered when none can be.
Does not belong here: the order of a question's stages (`pipeline.answers`), HTTP (`api.app`), terminals (`cli.main`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import Answering
from rag_serving.artifacts.store import Store
from rag_serving.caching.memory import Memory, from_memory
from rag_serving.concurrency import search_limit
from rag_serving.config.loading import Config
from rag_serving.config.phases import PhaseSettings
from rag_serving.conversations.turns import Conversation
from rag_serving.degradation.phases import Phases, RetrievalOffError
from rag_serving.degradation.tenant_phases import OnChange, TenantPhases
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.databases import RemoteError
from rag_serving.indexes.protocols import ReaderView
from rag_serving.models.breaker import State
from rag_serving.models.embedding.graph_cache import GraphCache
from rag_serving.models.embedding.vocabulary import Words
from rag_serving.models.lazy_embedder import GuardedEmbedder, open_guarded
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.pipeline.answers import answered, searched
from rag_serving.pipeline.book import of_books
from rag_serving.pipeline.conversing import Conversing
from rag_serving.pipeline.opened_pages import Opened, opened_pages
from rag_serving.pipeline.question_log import QuestionLog
from rag_serving.pipeline.selection import answered_from
from rag_serving.pipeline.tools import Tools
from rag_serving.receipts.proofs import Chunks, Proof, Proofs
from rag_serving.receipts.recording import ReceiptWriter, Request, answer_trace, telemetry_of
from rag_serving.receipts.secrecy import Secrecy
from rag_serving.receipts.store import ReceiptStore, open_receipts
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.records.claims import EXTRACTIVE
from rag_serving.records.flags import RETRIEVAL_DISABLED
from rag_serving.records.occasion import PLAIN, Occasion
from rag_serving.records.queries import Filters
from rag_serving.retrieval.explain import search_results
from rag_serving.retrieval.hybrid import Mode, RetrievalError
from rag_serving.telemetry.events import Trace
from rag_serving.telemetry.telemetry import Telemetry
from rag_serving.tracing import Listen, StageTrace

if TYPE_CHECKING:
    from rag_serving.config.sections import Features
    from rag_serving.conversations.sessions import SessionStore
    from rag_serving.models.reranker_client import RemoteReranker
    from rag_serving.object_home.follower import Follower
    from rag_serving.rendering.cited import CitedPlaces

RETRIEVAL_DOWN = "Search is not available at the moment. Try again in a minute."
RETRIEVAL_OFF = "Search is switched off at the moment."


@dataclass(frozen=True)
class Services:
    """What a pipeline uses beside the published generation."""

    embedder: Embedder
    receipts: ReceiptStore
    reranker: RemoteReranker | None = None
    telemetry: Telemetry | None = None


def open_sessions(config: Config, tenant: str) -> SessionStore | None:
    """Return the stored sessions of a tenant, or None where none are stored. Nothing is opened yet."""
    if not config.sessions.store:
        return None
    from rag_serving.conversations.sessions import SessionStore  # who asks in a terminal waits for no database

    return SessionStore(config, tenant, lambda: datetime.now(UTC))


class Pipeline:
    """One tenant's question path. Safe to use from several threads.

    A newer generation is picked up between questions; a question keeps the generation it began with.
    """

    def __init__(self, config: Config, tenant: str, published: CurrentGeneration, services: Services) -> None:
        self.config = config = config.of_tenant(tenant)
        self.tenant = tenant
        self.published = published
        self.receipts, self.telemetry = services.receipts, services.telemetry
        self.log = QuestionLog(services.telemetry)
        self.secrecy = Secrecy(config.home, config.telemetry.store_questions)
        self.proofs = Proofs(config, tenant, published, services.receipts, self.secrecy)
        self.sessions = open_sessions(config, tenant)
        self._sidecar = services.reranker
        self.mode: Mode | None = None  # what is searched in place of any phase
        self._embedder = services.embedder
        self.cited: CitedPlaces | None = None  # finds quotes on the pages of PDF files; None: nobody does
        self.followed: Follower | None = None  # fetches what is published from an object store; None: nothing is
        self._answering = Answering(config, services.embedder)
        self._conversing = Conversing(config, services.embedder)
        self._receipt_writer = ReceiptWriter(tenant, services.receipts, self.secrecy, self._answering.rules)
        self.memory = Memory(config, tenant, services.embedder, self._receipt_writer)
        self._is_word = Words(config.embedding, GraphCache(config.home))
        in_process = config.embedding.provider == "local" and not services.reranker
        self.phases = TenantPhases(config, tenant, search_limit(in_process, config.serving.workers))

    @classmethod
    def open(
        cls,
        config: Config,
        tenant: str,
        embedder: Embedder | None = None,
        reranker: RemoteReranker | None = None,
        telemetry: Telemetry | None = None,
    ) -> Self:
        """Return a pipeline that opens model and generation with the first question that needs them, so that it fails
        here for neither.

        Questions are recorded only where `telemetry` is given: what is asked to measure is no reader's question.

        Raises:
            ConfigError: the configured weights cannot be used.
        """
        published, receipts = CurrentGeneration(Store(config.home), tenant, config), open_receipts(config)
        if reranker is None and config.reranker.url:
            from rag_serving.models.reranker_client import open_reranker

            reranker = open_reranker(config.features_of(tenant), config.reranker)
        services = Services(embedder or open_guarded(config), receipts, reranker, telemetry)
        return cls(config, tenant, published, services)

    @property
    def reranker(self) -> RemoteReranker | None:
        """The sidecar's client, where it is switched on."""
        return self._sidecar if self.config.features.FEATURE_RERANKER else None

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
        if isinstance(self._embedder, GuardedEmbedder):
            found["embedder"] = self._embedder.breaker.state
        if self.config.generation.provider != EXTRACTIVE:
            found["generator"] = self._answering.generator.breaker.state
        if self.reranker:
            found["reranker"] = self.reranker.breaker.state
        return found

    def close(self) -> None:
        self.memory.close()
        self.published.close()
        self.receipts.close()
        if self.sessions:
            self.sessions.close()
        if self._sidecar:
            self._sidecar.close()
        self.log.close()

    @from_memory
    def search(
        self, principal: Principal, query: str, k: int = 10, filters: Filters | None = None, explain: bool = False
    ) -> SearchResults:
        """Return the k best chunks that the principal may read; with `explain`, or without any, also how the query was
        read.

        Raises:
            UnpublishedError: there is no generation to search.
            RetrievalError: no phase can answer, or retrieval is switched off.
        """
        trace, request = StageTrace(), Request(principal, query, filters, explain)
        with (
            self.phases.begun(request, self.mode) as phases,
            trace.part("total"),
            self._pages(trace, principal, phases) as opened,
        ):
            search = searched(self._tools(request, phases), trace, opened.view, request, k)
            shown = search_results(search, k, explain)
            recorded = (
                telemetry_of(search, self.config.features, phases.phase, phases.retrieval_ms)
                if self.telemetry
                else Trace()
            )
        shown = replace(shown, degraded=tuple(trace.flags), timings_ms=trace.timings_ms)
        self.log.searched(principal, query, shown, recorded)
        return shown

    @from_memory
    def ask(
        self,
        principal: Principal,
        question: str,
        filters: Filters | None = None,
        explain: bool = False,
        listen: Listen | None = None,
        conversation: Conversation | None = None,
        occasion: Occasion = PLAIN,
    ) -> Answer:
        """Return an answer whose citations were verified, or the reason why there is none.

        Args:
            listen: hears how far it is.
            conversation: the turns before the question, which it may lean on.
            occasion: what it is asked of and beside.
        """
        trace, recorded = StageTrace(listen), Trace(features=self.config.features.enabled)
        self.log.begin(trace)
        if occasion.mode == "book-wide":
            filters = of_books(self.config, principal.tenant, filters)
        if conversation:
            earlier = tuple(turn.question for turn in reversed(conversation.last_turns))
            occasion = replace(occasion, questions=earlier)
        request = Request(principal, question, filters, explain, occasion=occasion)
        is_read = not (conversation and conversation.turns)
        try:
            with (
                self.phases.begun(request, self.mode) as phases,
                trace.part("total"),
                self._pages(trace, principal, phases) as opened,
            ):
                tools = self._tools(request, phases)
                if conversation and conversation.turns:
                    request, is_read = self._conversing.read(tools, trace, opened.view, request, conversation), True
                place = self.memory.repeated.place(
                    request,
                    opened.view.id,
                    opened.known,
                    {
                        "features": sorted(tools.config.features.enabled),
                        "phase": phases.configured,
                        "searched": phases.mode,
                    },
                )
                cached = self.memory.repeated.find(place)
                if cached is None:
                    written, recorded = answered(tools, trace, opened.view, request)
            if cached:
                answer, recorded = (
                    self.memory.repeated.given(trace, cached, request),
                    replace(recorded, lock=cached.lock),
                )
            else:
                answer = self._receipt_writer.with_receipt(trace, written, request)
                self.memory.repeated.keep(place, answer, written)
                if self.memory.earlier:
                    self.memory.earlier.keep(request, answer, written, opened.known)
        except RetrievalOffError:
            answer = Answer("unavailable", RETRIEVAL_OFF, flags=(RETRIEVAL_DISABLED,))
        except UnpublishedError as error:
            answer = self._without_search(request if is_read else None, trace, str(error))
        except RetrievalError:
            answer = self._without_search(request if is_read else None, trace, RETRIEVAL_DOWN)
        answer = replace(answer, understood=request.understood)
        self.log.answered(principal, request.text, answer, recorded)
        return answer

    @from_memory
    def ask_selection(
        self,
        question: str,
        selection: str,
        explain: bool = False,
        listen: Listen | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        """Return an answer from the given text alone: nothing is retrieved, and citations are offsets into that
        text."""
        trace, vectors = StageTrace(listen), self.memory.vectors.of(principal.user if principal else None)
        self.log.begin(trace)
        with trace.part("total"):
            written = answered_from(selection, question, self._answering, vectors, trace, explain)
        answer = replace(written.answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)
        recorded = answer_trace(Trace(features=self.config.features.enabled), written)
        self.log.answered(principal, question, answer, recorded, "selected_text")
        return answer

    def warm(self) -> None:
        """Open model and generation before the first question comes; failures show with the questions."""
        with suppress(UnpublishedError, RemoteError), self.published.acquire() as generation:
            generation.for_reader(Principal(self.tenant))
        with suppress(ModelError):
            self._embedder.embed_query("warm")
        self._is_word("warm")

    def problem(self) -> str | None:
        """Return why no question can be answered, or None."""
        return self.published.refusal()

    @contextmanager
    def reading(self, principal: Principal) -> Iterator[ReaderView]:
        """Yield the published generation as a principal may see it; it stays open until the block ends.

        Raises:
            UnpublishedError: there is no generation to read.
            RemoteError: it is in a database that cannot answer.
        """
        with self.published.acquire() as generation:
            yield generation.for_reader(principal)

    def receipt(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """Return a stored receipt, where the principal may read it: `Proofs.shown`."""
        return self.proofs.shown(principal, identifier)

    def proof(self, identifier: str, principal: Principal | None = None) -> Proof:
        """Return whether a stored receipt holds; for a principal, who has to be one that may see it."""
        return self.proofs.proved_to(principal, identifier) if principal else self.proofs.prove(identifier)

    def readable(self, principal: Principal, cited: Sequence[Chunks]) -> list[bool]:
        """Return of several answers whether the principal may still read what they cite: `Proofs.open_to`."""
        return self.proofs.open_to(principal, cited)

    def _tools(self, request: Request, phases: Phases) -> Tools:
        """Return what a question that begins now is answered with."""
        features = self.phases.features(self.config.features, request)
        config = self.config if features is self.config.features else self.config.model_copy(
            update={"features": features}
        )  # fmt: skip
        return Tools(
            config=config,
            mode="hybrid",
            vectors=self.memory.vectors,
            is_word=self._is_word,
            phases=phases,
            reranker=self._sidecar if features.FEATURE_RERANKER else None,
            answering=self._answering,
            cited=self.cited,
            is_recorded=self.telemetry is not None,
        )

    def _without_search(self, request: Request | None, trace: StageTrace, text: str) -> Answer:
        """Return what a question gets that no phase answers: the answer that it had before, or a plain message;
        without a request, since its conversation was not read, the message."""
        plain = Answer("unavailable", text, flags=tuple(trace.flags), timings_ms=trace.timings_ms)
        earlier = self.memory.earlier
        return (earlier and request and earlier.find(request, trace)) or plain

    def _pages(self, trace: StageTrace, principal: Principal, phases: Phases) -> AbstractContextManager[Opened]:
        return opened_pages(self.published, self.followed, principal, trace, phases)
