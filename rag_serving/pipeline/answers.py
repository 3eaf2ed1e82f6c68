"""From a reader's view to an answer: passages are searched and locked, an answer is written, what belongs beside it is
told.

Belongs here: the order of these stages for one question. Does not belong here: what a stage does; generations,
receipts, failures (`pipeline.pipeline`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rag_serving.answering.citations import pinpointed
from rag_serving.answering.clarifying import WHICH_PART, deeper, examples_told, joined, spelling_told
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.gates import ASKING_NOTHING
from rag_serving.answering.lock import completed, freeze
from rag_serving.answering.refusals import nothing_kept
from rag_serving.indexes.protocols import ReaderView
from rag_serving.pipeline.asked import Asked
from rag_serving.pipeline.book import book_gates, book_lock, in_book_order, refused
from rag_serving.pipeline.several import both_of, shows_both, tells_both
from rag_serving.pipeline.tools import Tools
from rag_serving.query.languages import is_of_pages, languages_told
from rag_serving.reading.passage import numbered
from rag_serving.receipts.recording import Request, answer_trace, telemetry_of
from rag_serving.records.answers import Answer
from rag_serving.records.flags import LANGUAGE_NOT_SERVED, NO_SHARED_WORDS
from rag_serving.records.refusal import Clarification
from rag_serving.retrieval.clarity import decided, topic_asked
from rag_serving.retrieval.examples import example_questions
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.lexical_reranker import POOL
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions, passage_stages
from rag_serving.retrieval.why import why_of
from rag_serving.telemetry.events import Trace
from rag_serving.text.question_types import kind_of
from rag_serving.tracing import StageTrace

EXACT_SEARCH = "dense_index_searched_exactly"
NO_PLACES = "places_unavailable"

# Fused candidates that hygiene may choose from.
_POOL = 100


def searched(tools: Tools, trace: StageTrace, view: ReaderView, request: Request, k: int) -> Search:
    """Return the k best passages for whoever only searches.

    Raises:
        RetrievalError: no phase can answer.
    """
    depth = max(2 * k, tools.config.reranker.candidates if tools.reranker else POOL)

    def search(mode: Mode, part: StageTrace) -> Search:
        stages = passage_stages(tools.config, k, tools.reranker, is_gated=False, mode=mode)
        return _candidates(replace(tools, mode=mode), part, view, request, depth).then(stages, part)

    return tools.phases.run(search, view.id, trace)


def answered(tools: Tools, trace: StageTrace, view: ReaderView, request: Request) -> tuple[AnswerTrace, Trace]:
    """Return an answer with what it was made of, and what telemetry keeps of it.

    Raises:
        RetrievalError: no phase can answer.
    """
    asked, written = _written(tools, trace, view, request)
    answer = _asked_which(asked, numbered(pinpointed(written.answer, asked.lock, view.page_text), view))
    if tools.cited and any(citation.page for citation in answer.citations):
        with trace.part("places", NO_PLACES):
            answer = tools.cited.located(answer, asked.lock, view.original, request.principal)
    answer = _with_notes(tools, trace, asked, request, answer)
    answer = replace(answer, phase=tools.phases.phase, decision=asked.search.decision)
    if request.occasion.mode == "book-wide":
        answer = refused(answer)
        if tools.config.profiles.book.warn_without_words and answer.gates.get("coverage") == 0 and answer.citations:
            trace.raise_flag(NO_SHARED_WORDS)
    if answer.status != "refused":
        with trace.part("evidence"):
            is_shown = answer.outcome != "none" or request.explain
            answer = replace(answer, evidence=asked.evidence(written.lock, is_shown))
    if request.explain:
        numbers = {citation.passage: citation.index for citation in answer.citations}
        overlap = tools.config.retrieval.min_keyword_overlap
        why = why_of(asked.search, written.lock, numbers, overlap)
        answer = replace(answer, why={**why, "decision": answer.decision.payload() if answer.decision else None})
    recorded = Trace()
    if tools.is_recorded:
        phases = tools.phases
        recorded = telemetry_of(asked.search, tools.config.features, phases.phase, phases.retrieval_ms)
    originals = {cited: view.original(cited) for cited in {citation.page_id for citation in answer.citations}}
    files = {page_id: original.digests() for page_id, original in originals.items() if original}
    return replace(written, answer=answer, files=files), answer_trace(recorded, written)


def _written(tools: Tools, trace: StageTrace, view: ReaderView, request: Request) -> tuple[Asked, AnswerTrace]:
    """Return what was written for a question: to both of two things that it asks, where both are answered; else to it
    as one."""

    def search(mode: Mode, part: StageTrace) -> Asked:
        passages_of = partial(_passages_of, replace(tools, mode=mode), part, view)
        return (
            None if request.occasion.mode == "book-wide" else both_of(passages_of, request, view.names)
        ) or passages_of(request)

    def search_as_one(mode: Mode, part: StageTrace) -> Asked:
        return _passages_of(replace(tools, mode=mode), part, view, request)

    asked = tools.phases.run(search, view.id, trace)
    written = tools.answering.answer(trace, asked.question(request), asked.lock, view.id, request.explain)
    if not asked.told or tells_both(asked, written):
        return asked, written
    as_one = tools.phases.beside().run(search_as_one, view.id, trace)
    told = tools.answering.answer(trace, as_one.question(request), as_one.lock, view.id, request.explain)
    if told.answer.outcome != "told" and shows_both(asked, written):
        return asked, written
    return as_one, told


def _passages_of(tools: Tools, trace: StageTrace, view: ReaderView, request: Request) -> Asked:
    """Return the question with the best passages, frozen: nothing is retrieved after this."""
    retrieval = tools.config.retrieval
    search = _candidates(tools, trace, view, request, _POOL)
    is_foreign = not is_of_pages(search.query.language, view.languages)
    if request.occasion.mode == "book-wide":
        book = tools.config.profiles.book
        stages = passage_stages(tools.config, book.pool, tools.reranker, is_gated=False, mode=tools.mode)
        search = search.then(stages, trace)
        lock = book_lock(tools.passages(search), book)
        if kind_of(search.query.text) == "steps":
            lock = in_book_order(completed(lock, view.beside))
        return Asked(view, search, lock, is_foreign, gates=book_gates(tools.config, lock))
    count = tools.config.keyword.top_k if search.context.keywords else retrieval.final_passages
    stages = passage_stages(tools.config, count, tools.reranker, not is_foreign, tools.mode)
    search = search.then(stages, trace)
    lock = freeze(tools.passages(search), count, retrieval.passage_order)
    if kind_of(search.query.text) == "steps":
        lock = completed(lock, view.beside)
    search = (
        search
        if search.decision or tools.mode != "hybrid"
        else replace(search, decision=decided(search, tools.config.gates.min_clear))
    )
    return Asked(view, search, lock, is_foreign).introduced(retrieval.final_passages)


def _candidates(tools: Tools, trace: StageTrace, view: ReaderView, request: Request, k: int) -> Search:
    """Return candidates, with what was degraded noted in the trace."""
    config = tools.config
    options = SearchOptions(
        config.retrieval,
        tools.mode,
        k,
        config.features.FEATURE_RM3,
        request.filters,
        tools.is_word,
        page=request.page,
        keyword=config.keyword,
        watch=trace.watch,
    )
    trace.tell("search")
    search = search_candidates(view, tools.vectors.of(request.principal.user), request.text, options)
    trace.include(search.trace)
    if not search.context.keywords and view.degraded:
        trace.raise_flag(EXACT_SEARCH)
    return search


def _asked_which(asked: Asked, answer: Answer) -> Answer:
    """Return what is asked back where something is to be explained, and nothing was found of it; any other answer as it
    is."""
    topic = topic_asked(asked.search) if answer.status == "not_found" and asked.gates is None else None
    return replace(answer, status="clarify", answer=WHICH_PART) if topic and topic.frame == "told" else answer


def _with_notes(tools: Tools, trace: StageTrace, asked: Asked, request: Request, answer: Answer) -> Answer:
    """Return the answer with how the question was read, and with what its asker is told beside it or can ask
    instead."""
    search, view = asked.search, asked.view
    notes = search.query.notes if request.explain or answer.outcome != "told" else None
    answer = replace(answer, notes=notes, reranker=search.reranker)
    if answer.refusal and answer.refusal.gate == "passages":
        refusal = nothing_kept(len(search.candidates), tools.config.retrieval.min_keyword_overlap)
        answer = replace(answer, refusal=refusal)
    if asked.told:
        return replace(answer, clarification=joined(answer.clarification, deeper(asked.told)))
    is_nothing = asked.search.decision is not None and asked.search.decision.action == "no_match"
    if answer.refusal and (answer.refusal.gate in ASKING_NOTHING or is_nothing):
        examples = example_questions(view, tools.config.ingestion.drop_labels)
        return replace(answer, clarification=examples_told(examples))
    if answer.status == "refused":
        return answer
    if asked.is_foreign and not asked.is_known:
        trace.raise_flag(LANGUAGE_NOT_SERVED)
        told: Clarification | None = Clarification(languages_told(search.query.language, view.languages()))
    elif answer.outcome != "told":
        told = spelling_told(request.text, search.query.corrections)
    else:
        return answer
    return replace(answer, clarification=joined(told, answer.clarification))
