"""The life of a question: the order of the stages up to the lock, then `answering.answerer`.

Belongs here: composing stages for one tenant, what is answered when a stage fails.
Does not belong here: what a stage does; HTTP and terminals (`api.app`, `cli.main`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import NO_VECTORS, Answering, AnswerTrace, Question
from rag_serving.answering.citations import pinpointed
from rag_serving.answering.lock import completed, freeze, lock_selection
from rag_serving.answering.refusals import nothing_kept
from rag_serving.artifacts.store import Store
from rag_serving.concurrency import search_limit
from rag_serving.config.loading import Config
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.protocols import ReaderView
from rag_serving.models.embedding.recent_vectors import RecentVectors
from rag_serving.models.embedding.vocabulary import Words
from rag_serving.models.lazy_embedder import open_guarded
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.receipts.proofs import Proof, Proofs
from rag_serving.receipts.receipt import make_receipt
from rag_serving.receipts.secrecy import Secrecy
from rag_serving.receipts.store import ReceiptStore, open_receipts
from rag_serving.records import Answer, Candidate, Filters, Query, SearchResults
from rag_serving.retrieval.boosts import boosted
from rag_serving.retrieval.hybrid import Mode, RetrievalError, Retrieved, SearchOptions
from rag_serving.retrieval.hygiene import is_clean, keyword_gate
from rag_serving.retrieval.lexical_reranker import POOL, rerank_by_words
from rag_serving.retrieval.rerank import Reranked, rerank
from rag_serving.retrieval.search import Found, find
from rag_serving.telemetry.events import MAX_RANKED, Trace
from rag_serving.telemetry.telemetry import Telemetry
from rag_serving.text.analyzer import analyze, analyze_passage
from rag_serving.text.question_types import kind_of
from rag_serving.tracing import Listen, StageTrace

if TYPE_CHECKING:
    from rag_serving.config.sections import Features
    from rag_serving.models.reranker_client import RemoteReranker

RETRIEVAL_DOWN = "Search is not available at the moment. Try again in a minute."

STALE, NO_RECEIPT, EXACT_SEARCH = "stale_generation", "receipt_not_stored", "dense_index_searched_exactly"

TermWeights = Callable[[], Mapping[str, float]]

# Fused candidates that hygiene may choose from.
_POOL = 100


@dataclass(frozen=True)
class _Request:
    """What a caller asks, and who the caller is."""

    principal: Principal
    text: str
    filters: Filters | None = None
    explain: bool = False


class Pipeline:
    """One tenant's question path. Safe to use from several threads.

    A newer generation is picked up between questions; a question keeps the generation it began with.
    """

    def __init__(
        self,
        config: Config,
        tenant: str,
        published: CurrentGeneration,
        embedder: Embedder,
        receipts: ReceiptStore,
        reranker: RemoteReranker | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.config = config
        self.tenant = tenant
        self.published = published
        self.receipts = receipts
        self.secrecy = Secrecy(config.home, config.telemetry.store_questions)
        self._proofs = Proofs(config, tenant, published, receipts, self.secrecy)
        self._sidecar = reranker
        self.telemetry = telemetry
        self.mode: Mode = "hybrid"
        self._embedder = embedder
        self._recent = RecentVectors(embedder, config.embedding.query_cache, config.serving.auth == "loopback")
        self._answering = Answering(config, embedder)
        self._is_word = Words(config.embedding)
        in_process = config.embedding.provider == "local" and not reranker
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
        store = Store(config.home)
        receipts = open_receipts(config)
        published = CurrentGeneration(store, tenant, config)
        if reranker is None and config.reranker.url:
            from rag_serving.models.reranker_client import open_reranker

            reranker = open_reranker(config.features, config.reranker)
        return cls(config, tenant, published, embedder or open_guarded(config), receipts, reranker, telemetry)

    @property
    def reranker(self) -> RemoteReranker | None:
        """The sidecar's client, where it is switched on."""
        return self._sidecar if self.config.features.FEATURE_RERANKER else None

    def switch(self, features: Features) -> None:
        """Ask by other switches from the next question on."""
        self.config = self.config.model_copy(update={"features": features})

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
        attempt = StageTrace()
        stale = partial(attempt.raise_flag, STALE)
        with attempt.part("total"), self.published.acquire(stale) as generation, self._turns:
            view = generation.for_reader(principal)
            depth = max(2 * k, self.config.reranker.candidates if self.reranker else POOL)
            found = self._find(attempt, view, _Request(principal, query, filters), depth)
            weights = partial(view.term_weights, found.query.terms)
            ranked = self._reranked(attempt, found.query, self._clean(found.retrieved.candidates), weights, k)
            results = tuple(islice(ranked.candidates, k))
            rankings = _rankings(view, found.retrieved)
        notes = found.query.notes if explain or not results else None
        shown = SearchResults(results, generation.id, tuple(attempt.flags), attempt.timings_ms, notes, ranked.by)
        if explain:
            candidates = _told(found.retrieved.candidates, results)
            shown = replace(shown, query=found.query, candidates=candidates)
        if self.telemetry:
            trace = Trace(_told(found.retrieved.candidates, shown.results), rankings=rankings, features=self._features)
            self.telemetry.searched(principal, query, shown, trace)
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
        attempt, trace = StageTrace(listen), Trace()
        request = _Request(principal, question, filters, explain)
        try:
            with attempt.part("total"), self.published.acquire(partial(attempt.raise_flag, STALE)) as generation:
                written = self._answer(attempt, generation.for_reader(principal), request)
            answer, trace = self._with_receipt(attempt, written, request), written.trace
        except UnpublishedError as error:
            answer = Answer("unavailable", str(error), timings_ms=attempt.timings_ms)
        except RetrievalError:
            answer = Answer("unavailable", RETRIEVAL_DOWN, flags=tuple(attempt.flags), timings_ms=attempt.timings_ms)
        if self.telemetry:
            self.telemetry.answered(principal, question, answer, replace(trace, features=self._features))
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
        attempt = StageTrace(listen)
        with attempt.part("total"):
            vector = None
            with attempt.part("embed", NO_VECTORS):
                vector = self._recent.of(principal.user if principal else None).embed_query(question)
            asked = Question(question, question, dict.fromkeys(analyze(question), 1.0), vector)
            written = self._answering.answer(attempt, asked, lock_selection(selection), explain=explain)
        answer = replace(written.answer, flags=tuple(attempt.flags), timings_ms=attempt.timings_ms)
        if self.telemetry:
            trace = replace(written.trace, features=self._features)
            self.telemetry.answered(principal, question, answer, trace, "selected_text")
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

    def receipt(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """Return a stored receipt, shown to its asker or an operator who could read all its passages and may still
        read them.

        Raises:
            ReceiptError: there is none, it was changed, its generation is gone, or the principal may not read it.
            UnpublishedError: there is no generation that says who may read what now.
        """
        return self._proofs.shown(principal, identifier)

    def proof(self, identifier: str) -> Proof:
        """Return whether a stored receipt holds.

        Raises:
            ReceiptError: there is no such receipt, or its generation is gone.
        """
        return self._proofs.prove(identifier)

    def _answer(self, attempt: StageTrace, view: ReaderView, request: _Request) -> AnswerTrace:
        with self._turns:
            found = self._find(attempt, view, request, _POOL)
            query, retrieved = found.query, found.retrieved
            with attempt.part("hygiene"):
                clean = self._clean(retrieved.candidates)
                gated = keyword_gate(clean, query.text, analyze, self.config.retrieval.min_keyword_overlap)
                weights = view.term_weights(query.terms)
            count = self.config.retrieval.final_passages
            ranked = self._reranked(attempt, query, gated, lambda: weights, count)
            lock = freeze(ranked.candidates, count, self.config.retrieval.passage_order)
        if kind_of(query.text) == "steps":
            lock = completed(lock, view.beside)
        asked = Question(query.text, request.text, weights, retrieved.vector)
        written = self._answering.answer(attempt, asked, lock, view.id, request.explain)
        notes = query.notes if request.explain or not written.answer.citations else None
        answer = pinpointed(written.answer, lock, view.page_text)
        answer = replace(answer, notes=notes, reranker=ranked.by)
        if answer.refusal and answer.refusal.gate == "passages":
            kept = nothing_kept(len(retrieved.candidates), self.config.retrieval.min_keyword_overlap)
            answer = replace(answer, refusal=kept)
        candidates, rankings = _told(retrieved.candidates, lock.passages), _rankings(view, retrieved)
        return replace(written, answer=answer, candidates=candidates, rankings=rankings)

    @property
    def _features(self) -> tuple[str, ...]:
        return self.config.features.enabled

    def _find(self, attempt: StageTrace, view: ReaderView, request: _Request, k: int) -> Found:
        """Return candidates, with what is wrong noted in the attempt."""
        rm3 = self.config.features.FEATURE_RM3
        options = SearchOptions(self.config.retrieval, self.mode, k, rm3, request.filters, self._is_word)
        attempt.tell("search")
        found = find(view, self._recent.of(request.principal.user), request.text, options)
        attempt.timings_ms.update(found.retrieved.timings_ms)
        for flag in found.retrieved.degraded:
            attempt.raise_flag(flag)
        if view.degraded:
            attempt.raise_flag(EXACT_SEARCH)
        return found

    def _reranked(
        self, attempt: StageTrace, query: Query, candidates: Iterable[Candidate], weights: TermWeights, count: int
    ) -> Reranked:
        """Return the best of the candidates, with what is wrong noted in the attempt; no model ranks quoted words
        down."""
        settings, features = self.config.reranker, self.config.features
        reranker = self.reranker
        switched_on = features.FEATURE_HEURISTIC_FALLBACK if reranker else features.FEATURE_HEURISTIC_RERANKER
        by_words = partial(rerank_by_words, analyze=analyze_passage, proximity=features.FEATURE_PROXIMITY)
        heuristic = partial(by_words, weights=weights()) if switched_on else None
        with attempt.part("rerank"):
            top_n = max(count, settings.top_n or count)
            ranked = rerank(query.text, candidates, top_n, settings.candidates, reranker, heuristic)
            if ranked.by == "sidecar":
                ranked = replace(ranked, candidates=boosted(tuple(ranked.candidates), query))
        for flag in ranked.flags:
            attempt.raise_flag(flag)
        return ranked

    def _clean(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        labels = self.config.ingestion.drop_labels
        return (candidate for candidate in candidates if is_clean(candidate.chunk, labels))

    def _with_receipt(self, attempt: StageTrace, written: AnswerTrace, request: _Request) -> Answer:
        """Return the answer with flags, timings and the id of its receipt; that no receipt can be stored is only a
        flag."""
        answer = replace(written.answer, flags=tuple(attempt.flags), timings_ms=dict(attempt.timings_ms))
        with attempt.part("receipt", NO_RECEIPT):
            made = written.lock, written.verdicts, written.draft
            receipt = make_receipt(self.tenant, request.text, answer, *made, self._answering.rules, request.filters)
            kept = self.secrecy.kept(request.principal, receipt)
            answer = replace(answer, receipt_id=self.receipts.put(kept))
        return replace(answer, flags=tuple(attempt.flags), timings_ms=attempt.timings_ms)


def _told(found: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """The candidates in the order they were found, the chosen ones with all of their scores."""
    scored = {candidate.chunk.chunk_id: candidate for candidate in chosen}
    return [scored.get(candidate.chunk.chunk_id, candidate) for candidate in found]


def _rankings(view: ReaderView, retrieved: Retrieved) -> dict[str, list[tuple[str, float]]]:
    """Return the rankings by chunk id, as far as telemetry keeps them."""
    kept = {name: hits[:MAX_RANKED] for name, hits in retrieved.rankings.items()}
    rows = list({hit.row for hits in kept.values() for hit in hits})
    ids = dict(zip(rows, view.chunk_ids(rows), strict=True))
    return {name: [(ids[hit.row], hit.score) for hit in hits] for name, hits in kept.items()}
