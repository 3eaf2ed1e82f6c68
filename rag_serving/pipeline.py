"""The life of a question: the order of the stages up to the lock, then `answering.answerer`.

Belongs here: composing stages for one tenant, what is answered when a stage fails.
Does not belong here: what a stage does; HTTP and terminals (`api.app`, `cli.main`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import NO_VECTORS, Answering, Question
from rag_serving.answering.citations import pinpointed
from rag_serving.answering.clarifying import examples_told, joined, spelling_told
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.extraction.precedence import beginning
from rag_serving.answering.gates import ASKING_NOTHING, is_heading
from rag_serving.answering.lock import completed, freeze, lock_selection
from rag_serving.answering.refusals import nothing_kept
from rag_serving.artifacts.store import Store
from rag_serving.concurrency import search_limit
from rag_serving.config.loading import Config
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.protocols import ReaderView
from rag_serving.models.breaker import State
from rag_serving.models.embedding.graph_cache import GraphCache
from rag_serving.models.embedding.recent_vectors import RecentVectors
from rag_serving.models.embedding.vocabulary import Words
from rag_serving.models.lazy_embedder import GuardedEmbedder, open_guarded
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.query.languages import FARTHER_ABROAD, is_of_pages, knows, languages_told
from rag_serving.reading.passage import numbered
from rag_serving.receipts.proofs import Proof, Proofs
from rag_serving.receipts.recording import ReceiptWriter, Request, answer_trace, telemetry_of
from rag_serving.receipts.secrecy import Secrecy
from rag_serving.receipts.store import ReceiptStore, open_receipts
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.records.claims import EXTRACTIVE
from rag_serving.records.flags import LANGUAGE_NOT_SERVED
from rag_serving.records.passages import Candidate
from rag_serving.records.queries import Filters
from rag_serving.records.refusal import Clarification
from rag_serving.retrieval.examples import example_questions
from rag_serving.retrieval.explain import search_results
from rag_serving.retrieval.hybrid import Mode, RetrievalError
from rag_serving.retrieval.lexical_reranker import POOL
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions, passage_stages
from rag_serving.retrieval.why import why_of
from rag_serving.telemetry.events import Trace
from rag_serving.telemetry.telemetry import Telemetry
from rag_serving.text.analyzer import analyze
from rag_serving.text.question_types import kind_of
from rag_serving.text.small_talk import remark_of
from rag_serving.tracing import Listen, StageTrace

if TYPE_CHECKING:
    from rag_serving.config.sections import Features
    from rag_serving.models.reranker_client import RemoteReranker
    from rag_serving.rendering.cited import CitedPlaces

RETRIEVAL_DOWN = "Search is not available at the moment. Try again in a minute."

STALE, EXACT_SEARCH = "stale_generation", "dense_index_searched_exactly"
NO_PLACES = "places_unavailable"

# Fused candidates that hygiene may choose from.
_POOL = 100


@dataclass(frozen=True)
class Services:
    """What a pipeline uses beside the published generation."""

    embedder: Embedder
    receipts: ReceiptStore
    reranker: RemoteReranker | None = None
    telemetry: Telemetry | None = None


class Pipeline:
    """One tenant's question path. Safe to use from several threads.

    A newer generation is picked up between questions; a question keeps the generation it began with.
    """

    def __init__(self, config: Config, tenant: str, published: CurrentGeneration, services: Services) -> None:
        self.config = config
        self.tenant = tenant
        self.published = published
        self.receipts, self.telemetry = services.receipts, services.telemetry
        self.secrecy = Secrecy(config.home, config.telemetry.store_questions)
        self.proofs = Proofs(config, tenant, published, services.receipts, self.secrecy)
        self._sidecar = services.reranker
        self.mode: Mode = "hybrid"
        self._embedder = services.embedder
        self.cited: CitedPlaces | None = None  # finds quotes on the pages of PDF files; None: nobody does
        self._recent = RecentVectors(services.embedder, config.embedding.query_cache, config.serving.auth == "loopback")
        self._answering = Answering(config, services.embedder)
        self._receipt_writer = ReceiptWriter(tenant, services.receipts, self.secrecy, self._answering.rules)
        self._is_word = Words(config.embedding, GraphCache(config.home))
        in_process = config.embedding.provider == "local" and not services.reranker
        self._turns = search_limit(in_process, config.serving.workers)

    @classmethod
    def open(
        cls,
        config: Config,
        tenant: str,
        embedder: Embedder | None = None,
        reranker: RemoteReranker | None = None,
        telemetry: Telemetry | None = None,
    ) -> Pipeline:
        """Return a pipeline that opens model and generation with the first question that needs them, so that it fails
        here for neither.

        Questions are recorded only where `telemetry` is given: what is asked to measure is no reader's question.

        Raises:
            ConfigError: the configured weights cannot be used.
        """
        published, receipts = CurrentGeneration(Store(config.home), tenant, config), open_receipts(config)
        if reranker is None and config.reranker.url:
            from rag_serving.models.reranker_client import open_reranker

            reranker = open_reranker(config.features, config.reranker)
        services = Services(embedder or open_guarded(config), receipts, reranker, telemetry)
        return cls(config, tenant, published, services)

    @property
    def reranker(self) -> RemoteReranker | None:
        """The sidecar's client, where it is switched on."""
        return self._sidecar if self.config.features.FEATURE_RERANKER else None

    def switch(self, features: Features) -> None:
        """Ask by other switches from the next question on."""
        self.config = self.config.model_copy(update={"features": features})

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
        self.published.close()
        self.receipts.close()
        if self._sidecar:
            self._sidecar.close()
        if self.telemetry:
            self.telemetry.close()

    def search(
        self, principal: Principal, query: str, k: int = 10, filters: Filters | None = None, explain: bool = False
    ) -> SearchResults:
        """Return the k best chunks that the principal may read; with `explain`, or without any, also how the query was
        read.

        Raises:
            UnpublishedError: there is no generation to search.
            RetrievalError: no index can answer.
        """
        trace, request = StageTrace(), Request(principal, query, filters, explain)
        with trace.part("total"), self._view(trace, principal) as view, self._turns:
            depth = max(2 * k, self.config.reranker.candidates if self.reranker else POOL)
            stages = passage_stages(self.config, k, self.reranker, is_gated=False)
            search = self._search(trace, view, request, depth).then(stages, trace)
            shown = search_results(search, k, explain)
            recorded = telemetry_of(search, self.config.features) if self.telemetry else Trace()
        shown = replace(shown, degraded=tuple(trace.flags), timings_ms=trace.timings_ms)
        if self.telemetry:
            self.telemetry.searched(principal, query, shown, recorded)
        return shown

    def ask(
        self,
        principal: Principal,
        question: str,
        filters: Filters | None = None,
        explain: bool = False,
        listen: Listen | None = None,
    ) -> Answer:
        """Return an answer whose citations were verified, or the reason why there is none; `listen` hears how far it
        is."""
        trace, recorded = StageTrace(listen), Trace(features=self.config.features.enabled)
        request = Request(principal, question, filters, explain)
        try:
            with trace.part("total"), self._view(trace, principal) as view:
                written, recorded = self._answer(trace, view, request)
            answer = self._receipt_writer.with_receipt(trace, written, request)
        except UnpublishedError as error:
            answer = Answer("unavailable", str(error), timings_ms=trace.timings_ms)
        except RetrievalError:
            answer = Answer("unavailable", RETRIEVAL_DOWN, flags=tuple(trace.flags), timings_ms=trace.timings_ms)
        if self.telemetry:
            self.telemetry.answered(principal, question, answer, recorded)
        return answer

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
        trace, lock = StageTrace(listen), lock_selection(selection)
        with trace.part("total"):
            vector = None
            with trace.part("embed", NO_VECTORS):
                vector = self._recent.of(principal.user if principal else None).embed_query(question)
            terms, remark = dict.fromkeys(analyze(question), 1.0), remark_of(question)
            read = Question(question, question, terms, vector, remark=remark)
            written = self._answering.answer(trace, read, lock, explain=explain)
        answer = replace(written.answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)
        if self.telemetry:
            recorded = answer_trace(Trace(features=self.config.features.enabled), written)
            self.telemetry.answered(principal, question, answer, recorded, "selected_text")
        return answer

    def warm(self) -> None:
        """Open model and generation before the first question comes; failures show with the questions."""
        with suppress(UnpublishedError), self.published.acquire():
            pass
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
        """
        with self.published.acquire() as generation:
            yield generation.for_reader(principal)

    def receipt(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """Return a stored receipt, where the principal may read it: `Proofs.shown`."""
        return self.proofs.shown(principal, identifier)

    def proof(self, identifier: str, principal: Principal | None = None) -> Proof:
        """Return whether a stored receipt holds; for a principal, who has to be one that may see it."""
        return self.proofs.proved_to(principal, identifier) if principal else self.proofs.prove(identifier)

    @contextmanager
    def _view(self, trace: StageTrace, principal: Principal) -> Iterator[ReaderView]:
        """Yield the published generation as a principal may see it; it stays open until the block ends."""
        with self.published.acquire(partial(trace.raise_flag, STALE)) as generation:
            yield generation.for_reader(principal)

    def _answer(self, trace: StageTrace, view: ReaderView, request: Request) -> tuple[AnswerTrace, Trace]:
        retrieval = self.config.retrieval
        with self._turns:
            search = self._search(trace, view, request, _POOL)
            is_foreign = not is_of_pages(search.query.language, view.languages)
            stages = passage_stages(self.config, retrieval.final_passages, self.reranker, is_gated=not is_foreign)
            search = search.then(stages, trace)
            lock = freeze(self._passages(search), retrieval.final_passages, retrieval.passage_order)
        query, weights = search.query, search.context.term_weights
        if kind_of(query.text) == "steps":
            lock = completed(lock, view.beside)
        stored = search.stored_similarity(lock.chunk_ids)
        remark = query.remark and (None if is_heading(query.text, lock) else query.remark)
        opening = partial(beginning, view.beside)
        vector = search.context.vector
        is_known = knows(view.embedder.name, query.language)
        farther = FARTHER_ABROAD if is_foreign and is_known else 0.0
        question = Question(
            query.text, request.text, weights, vector, stored, remark, opening, is_foreign, farther, query.analyze
        )
        written = self._answering.answer(trace, question, lock, view.id, request.explain)
        answer = numbered(pinpointed(written.answer, lock, view.page_text), view)
        if self.cited and any(citation.page for citation in answer.citations):
            with trace.part("places", NO_PLACES):
                answer = self.cited.located(answer, lock, view.original, request.principal)
        notes = query.notes if request.explain or answer.outcome != "told" else None
        answer = replace(answer, notes=notes, reranker=search.reranker)
        if answer.refusal and answer.refusal.gate == "passages":
            answer = replace(answer, refusal=nothing_kept(len(search.candidates), retrieval.min_keyword_overlap))
        if answer.refusal and answer.refusal.gate in ASKING_NOTHING:
            examples = example_questions(view, self.config.ingestion.drop_labels)
            answer = replace(answer, clarification=examples_told(examples))
        elif is_foreign and not is_known and answer.status != "refused":
            trace.raise_flag(LANGUAGE_NOT_SERVED)
            told = Clarification(languages_told(query.language, view.languages()))
            answer = replace(answer, clarification=joined(told, answer.clarification))
        elif answer.outcome != "told" and answer.status != "refused":
            read = spelling_told(request.text, query.corrections)
            answer = replace(answer, clarification=joined(read, answer.clarification))
        if request.explain:
            numbers = {citation.passage: citation.index for citation in answer.citations}
            answer = replace(answer, why=why_of(search, written.lock, numbers, retrieval.min_keyword_overlap))
        recorded = telemetry_of(search, self.config.features) if self.telemetry else Trace()
        originals = {cited: view.original(cited) for cited in {citation.page_id for citation in answer.citations}}
        files = {page_id: original.digests() for page_id, original in originals.items() if original}
        return replace(written, answer=answer, files=files), answer_trace(recorded, written)

    def _search(self, trace: StageTrace, view: ReaderView, request: Request, k: int) -> Search:
        """Return candidates, with what was degraded noted in the trace."""
        is_expanded = self.config.features.FEATURE_RM3
        options = SearchOptions(self.config.retrieval, self.mode, k, is_expanded, request.filters, self._is_word)
        trace.tell("search")
        search = search_candidates(view, self._recent.of(request.principal.user), request.text, options)
        trace.include(search.trace)
        if view.degraded:
            trace.raise_flag(EXACT_SEARCH)
        return search

    def _passages(self, search: Search) -> Iterable[Candidate]:
        """Return what the lock chooses from, best first; who stops early leaves the rest unread."""
        return search.context.passages.candidates(search.ranking)
