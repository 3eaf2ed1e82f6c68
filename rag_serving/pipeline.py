"""The life of a question: the only file that knows the order of the stages.

Belongs here: composing stages for one tenant, statuses, what is answered when a stage fails.
Does not belong here: what a stage does; HTTP and terminals (`app`, `cli`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from rag_serving.access import Principal, satisfied_classes
from rag_serving.attempts import Attempt, Listen
from rag_serving.config import Config
from rag_serving.extract import MODEL, Similarity, extract
from rag_serving.gates import NOT_FOUND, closest, gate_confidence, gate_passages, gate_question, likeness
from rag_serving.generate import Generator
from rag_serving.generation import Generation
from rag_serving.guard import GuardedEmbedder
from rag_serving.heuristic import POOL, rerank_by_words
from rag_serving.hygiene import is_clean, keyword_gate
from rag_serving.indexes.terms import analyze, analyze_passage
from rag_serving.lock import freeze, lock_selection
from rag_serving.models.embedders import open_embedder
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.models.reranker import RemoteReranker, open_reranker
from rag_serving.models.words import Words
from rag_serving.prefer import prefer
from rag_serving.proofs import Proof, Proofs
from rag_serving.published import Published, UnpublishedError
from rag_serving.receipt_store import ReceiptStore
from rag_serving.receipts import make_receipt
from rag_serving.records import Answer, Candidate, Draft, Filters, Lock, Query, SearchResults, Verdict
from rag_serving.render import answer_text, citations_of, explained, pinpointed
from rag_serving.rerank import Reranked, rerank
from rag_serving.retrieve import Mode, RetrievalError, Vector
from rag_serving.search import Found, find
from rag_serving.store import Store
from rag_serving.telemetry.events import Trace
from rag_serving.telemetry.telemetry import Telemetry
from rag_serving.verify import verify

NEEDS_MORE_CONTEXT = "The passages found do not support an answer. Ask more precisely, or name the page or product."
RETRIEVAL_DOWN = "Search is not available at the moment. Try again in a minute."

STALE, NO_RECEIPT, NO_VECTORS, EXACT_SEARCH, UNSUPPORTED = (
    "stale_generation",
    "receipt_not_stored",
    "sentence_vectors_unavailable",
    "dense_index_searched_exactly",
    "unsupported_claims",
)

# Fused candidates that hygiene may choose from.
_POOL = 100


@dataclass(frozen=True)
class Written:
    """An answer with what it was made of."""

    answer: Answer
    draft: Draft
    lock: Lock
    verdicts: list[Verdict]
    candidates: Sequence[Candidate] = ()  # all that were found, the locked ones with what later stages said of them

    @property
    def trace(self) -> Trace:
        return Trace(self.candidates, self.lock, self.verdicts)


class Pipeline:
    """One tenant's question path. Safe to use from several threads.

    A newer generation is picked up between questions; a question keeps the generation it began with.
    """

    def __init__(
        self,
        config: Config,
        tenant: str,
        published: Published,
        embedder: Embedder,
        receipts: ReceiptStore,
        reranker: RemoteReranker | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.config = config
        self.tenant = tenant
        self.published = published
        self.receipts = receipts
        self._proofs = Proofs(config, tenant, published, receipts)
        self.reranker = reranker
        self.telemetry = telemetry
        self.mode: Mode = "hybrid"
        self._embedder = embedder
        self._generator = Generator(config.generation)
        self._is_word = Words(config.embedding)

    @classmethod
    def open(
        cls,
        config: Config,
        tenant: str,
        embedder: Embedder | None = None,
        reranker: RemoteReranker | None = None,
        telemetry: Telemetry | None = None,
    ) -> Pipeline:
        """A pipeline that opens model and generation with the first question that needs them; it never fails here.

        Questions are recorded only where `telemetry` is given: what is asked to measure is no reader's question.
        """
        store = Store(config.home)
        receipts = ReceiptStore(store.serving_db())
        published = Published(store, tenant, config)
        reranker = reranker or open_reranker(config.features, config.reranker)
        return cls(config, tenant, published, embedder or open_guarded(config), receipts, reranker, telemetry)

    def close(self) -> None:
        self.published.close()
        self.receipts.close()
        if self.reranker:
            self.reranker.close()
        if self.telemetry:
            self.telemetry.close()

    def search(
        self, principal: Principal, query: str, k: int = 10, filters: Filters | None = None, explain: bool = False
    ) -> SearchResults:
        """The k best chunks that the principal may read; with `explain` also how the query was read.

        Raises:
            UnpublishedError: there is no generation to search.
            RetrievalError: no index can answer.
        """
        attempt = Attempt()
        with attempt.part("total"), self.published.lease() as generation:
            classes = _classes(principal, generation)
            depth = max(2 * k, self.config.reranker.candidates if self.reranker else POOL)
            found = self._find(attempt, generation, query, classes, filters, depth)
            weights = generation.term_weights(found.query.terms, classes)
            ranked = self._reranked(attempt, found.query, self._clean(found.retrieved.candidates), weights, k)
            results = islice(ranked.candidates, k)
        notes = found.query.notes if explain else None
        shown = SearchResults(tuple(results), generation.id, tuple(attempt.flags), attempt.timings_ms, notes, ranked.by)
        if self.telemetry:
            trace = Trace(_told(found.retrieved.candidates, shown.results))
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
        """An answer whose citations were verified, or the reason why there is none; `listen` hears how far it is."""
        attempt, trace = Attempt(listen), Trace()
        try:
            with attempt.part("total"), self.published.lease() as generation:
                written = self._answer(attempt, generation, principal, question, filters, explain)
            answer, trace = self._with_receipt(attempt, written, question, filters), written.trace
        except UnpublishedError as error:
            answer = Answer("unavailable", str(error), timings_ms=attempt.timings_ms)
        except RetrievalError:
            answer = Answer("unavailable", RETRIEVAL_DOWN, flags=tuple(attempt.flags), timings_ms=attempt.timings_ms)
        if self.telemetry:
            self.telemetry.answered(principal, question, answer, trace)
        return answer

    def ask_selection(
        self,
        question: str,
        selection: str,
        explain: bool = False,
        listen: Listen | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        """An answer from the given text alone: nothing is retrieved, and citations are offsets into that text."""
        attempt = Attempt(listen)
        with attempt.part("total"):
            vector = None
            with attempt.part("embed", NO_VECTORS):
                vector = self._embedder.embed_query(question)
            weights = dict.fromkeys(analyze(question), 1.0)
            lock = lock_selection(selection)
            written = self._written(attempt, "", question, lock, weights, vector, explain, question)
        answer = replace(written.answer, flags=tuple(attempt.flags), timings_ms=attempt.timings_ms)
        if self.telemetry:
            self.telemetry.answered(principal, question, answer, written.trace, "selected_text")
        return answer

    def warm(self) -> None:
        """Open model and generation before the first question comes; failures show with the questions."""
        with suppress(UnpublishedError), self.published.lease():
            pass
        with suppress(ModelError):
            self._embedder.embed_query("warm")
        self._is_word("warm")

    def problem(self) -> str | None:
        """Why no question can be answered, or None."""
        try:
            with self.published.lease():
                return None
        except UnpublishedError as error:
            return self.published.problem or str(error)

    def receipt(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """A stored receipt, shown to whoever could read all of its passages and may still read their pages.

        Raises:
            ReceiptError: there is none, it was changed, its generation is gone, or the principal may not read it.
            UnpublishedError: there is no generation that says who may read what now.
        """
        return self._proofs.shown(principal, identifier)

    def proof(self, identifier: str) -> Proof:
        """Whether a stored receipt holds.

        Raises:
            ReceiptError: there is no such receipt, or its generation is gone.
        """
        return self._proofs.prove(identifier)

    def _answer(
        self,
        attempt: Attempt,
        generation: Generation,
        principal: Principal,
        question: str,
        filters: Filters | None,
        explain: bool,
    ) -> Written:
        classes = _classes(principal, generation)
        found = self._find(attempt, generation, question, classes, filters, _POOL)
        query, retrieved = found.query, found.retrieved
        with attempt.part("hygiene"):
            clean = self._clean(retrieved.candidates)
            gated = keyword_gate(clean, query.text, analyze, self.config.retrieval.min_keyword_overlap)
            weights = generation.term_weights(query.terms, classes)
        count = self.config.retrieval.final_passages
        ranked = self._reranked(attempt, query, gated, weights, count)
        lock = freeze(ranked.candidates, count, self.config.retrieval.passage_order)
        written = self._written(attempt, generation.id, query.text, lock, weights, retrieved.vector, explain, question)
        notes = query.notes if explain else None
        answer = pinpointed(written.answer, lock, lambda page_id: generation.page_text(page_id, classes))
        answer = replace(answer, notes=notes, reranker=ranked.by)
        return replace(written, answer=answer, candidates=_told(retrieved.candidates, lock.passages))

    def _find(
        self,
        attempt: Attempt,
        generation: Generation,
        query: str,
        classes: frozenset[str],
        filters: Filters | None,
        k: int,
    ) -> Found:
        """Candidates, with what is wrong noted in the attempt."""
        settings = self.config.retrieval
        attempt.tell("search")
        rm3 = self.config.features.FEATURE_RM3
        found = find(generation, self._embedder, query, classes, settings, self.mode, k, filters, self._is_word, rm3)
        attempt.timings_ms.update(found.retrieved.timings_ms)
        for flag in found.retrieved.degraded:
            attempt.raise_flag(flag)
        if generation.degraded:
            attempt.raise_flag(EXACT_SEARCH)
        if self.published.problem:
            attempt.raise_flag(STALE)
        return found

    def _reranked(
        self, attempt: Attempt, query: Query, candidates: Iterable[Candidate], weights: Mapping[str, float], count: int
    ) -> Reranked:
        """The best of the candidates, with what is wrong noted in the attempt; no model ranks quoted words down."""
        settings, features = self.config.reranker, self.config.features
        switched_on = features.FEATURE_HEURISTIC_FALLBACK if self.reranker else features.FEATURE_HEURISTIC_RERANKER
        heuristic = partial(rerank_by_words, weights=weights, analyze=analyze_passage) if switched_on else None
        with attempt.part("rerank"):
            top_n = max(count, settings.top_n)
            ranked = rerank(query.text, candidates, top_n, settings.candidates, self.reranker, heuristic)
            if ranked.by == "sidecar":
                ranked = replace(ranked, candidates=prefer(ranked.candidates, query))
        for flag in ranked.flags:
            attempt.raise_flag(flag)
        return ranked

    def _clean(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        labels = self.config.ingestion.drop_labels
        return [candidate for candidate in candidates if is_clean(candidate.chunk, labels)]

    def _written(
        self,
        attempt: Attempt,
        generation: str,
        question: str,
        lock: Lock,
        weights: Mapping[str, float],
        vector: Vector | None,
        explain: bool,
        asked: str,
    ) -> Written:
        """From the lock to the answer: nothing is retrieved any more. The question is as it was read, and as asked."""
        settings, gates = self.config.generation, self.config.gates
        found = likeness(lock, set(weights), weights, analyze)
        chosen = len(lock) == 1 and not lock.passages[0].scores  # a selection is read, however far it seems
        stop = gate_question(question, weights) or (None if chosen else gate_passages(lock, found, gates))
        if stop:
            answer = replace(stop.answer(generation), gates=found)
            return Written(answer, Draft((), MODEL), lock, [])
        with attempt.part("generate"):
            draft = self._generator.write(
                question,
                lock,
                lambda: self._extracted(attempt, question, lock, weights, vector),
                lambda chars: attempt.tell("generate", f"{chars} characters written"),
            )
        for flag in draft.flags:
            attempt.raise_flag(flag)
        with attempt.part("verify"):
            fuzzy_min = self.config.verification.fuzzy_partial_ratio_min
            verdicts = verify(draft, lock, fuzzy_min, settings.max_citations, settings.require_quotes, asked)
        if any(verdict.support == "differs" for verdict in verdicts):
            attempt.raise_flag(UNSUPPORTED)
        with attempt.part("render"):
            answer = _composed(draft, verdicts, lock, generation, settings.unverified == "mark")
            if answer.status == "answered" and (stop := gate_confidence(question, draft.confidence, gates)):
                answer, verdicts = stop.answer(generation, lock), []
            told = {} if draft.confidence is None else {"confidence": draft.confidence}
            answer = replace(answer, generator=draft.model, gates={**found, **told})
            if explain:
                answer = replace(answer, passages=explained(lock, verdicts))
        return Written(answer, draft, lock, verdicts)

    def _extracted(
        self, attempt: Attempt, question: str, lock: Lock, weights: Mapping[str, float], vector: Vector | None
    ) -> Draft:
        settings = self.config.generation

        def extracted(similarity: Similarity | None) -> Draft:
            citations, words = settings.max_citations, settings.quote_max_words
            return extract(question, lock, weights, analyze, similarity, citations, words)

        if vector is not None:
            with attempt.part("sentences", NO_VECTORS):
                return extracted(lambda texts: (self._embedder.embed_documents(texts) @ vector).tolist())
        return extracted(None)

    def _rules(self) -> dict[str, float]:
        """The arguments of `verify`, for whoever verifies again."""
        verification, settings = self.config.verification, self.config.generation
        return {
            "fuzzy_min": verification.fuzzy_partial_ratio_min,
            "max_citations": settings.max_citations,
            "require_quotes": settings.require_quotes,
        }

    def _with_receipt(self, attempt: Attempt, written: Written, question: str, filters: Filters | None) -> Answer:
        """The answer with flags, timings and the id of its receipt; that no receipt can be stored is only a flag."""
        answer = replace(written.answer, flags=tuple(attempt.flags), timings_ms=dict(attempt.timings_ms))
        with attempt.part("receipt", NO_RECEIPT):
            made = written.lock, written.verdicts, written.draft
            receipt = make_receipt(self.tenant, question, answer, *made, self._rules(), filters)
            answer = replace(answer, receipt_id=self.receipts.put(receipt))
        return replace(answer, flags=tuple(attempt.flags), timings_ms=attempt.timings_ms)


def _classes(principal: Principal, generation: Generation) -> frozenset[str]:
    """What the principal may read of a generation, decided before anything is looked at."""
    return satisfied_classes(principal, generation.tenant, generation.known_classes)


def _told(found: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """The candidates in the order they were found, the chosen ones with all of their scores."""
    scored = {candidate.chunk.chunk_id: candidate for candidate in chosen}
    return [scored.get(candidate.chunk.chunk_id, candidate) for candidate in found]


def open_guarded(config: Config) -> GuardedEmbedder:
    """The configured embedding model, opened when first needed."""
    return GuardedEmbedder(lambda: open_embedder(config.embedding))


def _composed(draft: Draft, verdicts: Sequence[Verdict], lock: Lock, generation: str, mark: bool) -> Answer:
    """The answer of the claims that stand; without one it is withheld."""
    citations = citations_of(verdicts, lock)
    made = Answer(
        "not_found",
        NOT_FOUND,
        clarification=closest(lock),
        generation=generation,
        generator=draft.model,
        usage=draft.usage,
    )
    if citations:
        return replace(
            made,
            status="answered",
            answer=answer_text(verdicts, lock, mark),
            citations=citations,
            clarification=None,
        )
    if draft.claims and not draft.declined:
        return replace(made, status="needs_more_context", answer=NEEDS_MORE_CONTEXT)
    return made
