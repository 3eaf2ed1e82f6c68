"""From words to ranked candidates: a query is read, narrowed and embedded, then each stage ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rag_serving.artifacts.manifest import WORDS
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.view import Mask, ReaderView, Rows
from rag_serving.models.protocols import Embedder
from rag_serving.query.languages import is_of_pages, said_in
from rag_serving.query.parsing import read_query, with_synonyms
from rag_serving.query.spelling import Names
from rag_serving.records.answers import Ranker
from rag_serving.records.decisions import Decision
from rag_serving.records.flags import STILL_INDEXING
from rag_serving.records.queries import Filters, Query
from rag_serving.retrieval.hybrid import DENSE_UNAVAILABLE, query_vector
from rag_serving.retrieval.hygiene import rows_holding
from rag_serving.retrieval.keyword.question import KeywordQuestion, QuestionReader
from rag_serving.retrieval.keyword.search import By, keyword_run
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.rerank import HEURISTIC, RERANK
from rag_serving.retrieval.stage import SearchContext, Stage, run_stages
from rag_serving.retrieval.stages import SearchOptions, candidate_stages
from rag_serving.text.analyzer import analyze
from rag_serving.text.keyword_words import words_in
from rag_serving.tracing import StageTrace
from rag_serving.tracing.spans import QUERY_TEXT, current_span

NOTHING_READABLE = "who asks may read none of the published passages"
"""Also said where there is no passage at all: how many are hidden is told to nobody who may not read them."""
NOTHING_IN_SCOPE = "nothing was found there, so everything was searched"

# Of a question in another language than the pages': its words are not misspelt ones of theirs, and it is far from all.
_ABROAD = {"spelling": False, "cosine_floor": -1.0}


@dataclass(frozen=True)
class Search:
    """One search so far: the state shared by its stages, and each one's ranking."""

    query: Query  # with a note for each decision
    context: SearchContext
    candidates: Ranking
    rankings: Mapping[str, Ranking]  # by stage, in the order in which they ran
    trace: StageTrace
    decision: Decision | None = None  # the decision on the question; None: the results answer it

    @property
    def ranking(self) -> Ranking:
        """Return the last stage's ranking."""
        return [*self.rankings.values()][-1]

    @property
    def reranker(self) -> Ranker:
        """Return the ranker of the candidates after fusion."""
        columns = self.ranking.columns
        return "sidecar" if RERANK in columns else "heuristic" if HEURISTIC in columns else "none"

    def stored_similarity(self, chunk_ids: Sequence[str]) -> Callable[[Sequence[str]], list[float | None]] | None:
        """Return a comparison of some chunks' sentences with the query by their stored vectors; None without a query
        vector. It returns None for a sentence without a stored vector."""
        view, vector = self.context.view, self.context.vector
        rows = [row for chunk_id in chunk_ids if (row := view.row_of(chunk_id)) is not None]
        return None if vector is None else partial(view.sentence_similarities, vector, rows)

    def then(self, stages: Sequence[Stage], trace: StageTrace) -> Search:
        """Return the search with more stages run, timed in `trace`."""
        return replace(self, rankings={**self.rankings, **run_stages(stages, self.context, self.ranking, trace)})


@dataclass(frozen=True)
class _Corpus:
    """The words and names visible to a query's reader."""

    view: ReaderView
    words: ReaderView | ReadableKeywords  # the latter without the lexical index
    is_word: Callable[[str], bool]  # recognizes words that are never misspelt

    @property
    def names(self) -> Names:
        return self.view.names

    def frequency(self, term: str) -> int:
        return self.words.frequency(term)

    def correction(self, word: str) -> str | None:
        return None if self.is_word(word) else self.words.correction(word)


def search_candidates(view: ReaderView, embedder: Embedder, text: str, options: SearchOptions) -> Search:
    """Return the k best chunks visible to a reader for a question or keywords, best first. The caller's filters and the
    operators in the text both narrow the search. Raises RetrievalError: no index of the search can answer."""
    current_span().set({QUERY_TEXT: text})
    if options.by_keywords:
        return _by_keywords(view, text, options, options.by_keywords)
    trace = StageTrace(watch=options.watch)
    with trace.part("query"):
        typed = text
        text, meant = with_synonyms(typed, options.keyword.synonyms)
        said = said_in(text, view.languages)
        if not is_of_pages(said.language, view.languages):
            options = replace(options, settings=options.settings.model_copy(update=_ABROAD))
        spelling = options.settings.spelling
        view.expect(analyze(text))
        query = read_query(text, _Corpus(view, view, options.is_word), spelling, options.is_word, said)
        query = replace(query, original=typed).noting(*(f"read '{word}' as '{other}'" for word, other in meant.items()))
        query = _preferring(query, options.page)
        everything = narrowed(view, options.filters, query.filters)
        inside = narrowed(view, options.filters, query.filters, query.scope) if query.scope else None
        holders, missing = _holders(view, query, view.holding)
    vector = None
    if options.mode != "lexical":
        with trace.part("embed", DENSE_UNAVAILABLE):
            vector = query_vector(view, embedder, query.text)
        if view.embedder == WORDS:
            trace.raise_flag(STILL_INDEXING)
    stages, notes = candidate_stages(options), [] if len(view) else [NOTHING_READABLE]
    context = SearchContext(view, query, everything if inside is None else inside, holders, vector, options.rm3)
    rankings = run_stages(stages, context, Ranking(), trace)
    if inside is not None and not len(rankings["candidates"]):
        notes.append(NOTHING_IN_SCOPE)
        context = replace(context, among=everything)
        rankings = run_stages(stages, context, Ranking(), trace)
    return Search(query.noting(*notes, *missing), context, [*rankings.values()][-1], rankings, trace)


def _by_keywords(view: ReaderView, text: str, options: SearchOptions, by: By) -> Search:
    trace = StageTrace(watch=options.watch)
    with trace.part("query"):
        query = read_query(
            text, _Corpus(view, view.keywords, options.is_word), False, options.is_word, said_in(text, view.languages)
        )
        query = _preferring(query, options.page)
        among = narrowed(view, options.filters, query.filters, query.scope)
        notes = [] if len(view) else [NOTHING_READABLE]
        if query.scope and among is not None and not among.any():
            among = narrowed(view, options.filters, query.filters)
            notes.append(NOTHING_IN_SCOPE)
    with trace.part("keywords"):
        quoted = {word for phrase in query.phrases for word in words_in(phrase)}
        reader = QuestionReader(options.keyword, view.keywords, lambda word: word in quoted or options.is_word(word))
        run = keyword_run(reader, query.text, by, among)
        query = _keyword_query(query, run.question)
        holders, missing = _holders(view, query, partial(rows_holding, view))
    context = SearchContext(view, query, among, holders, keywords=run)
    rankings = run_stages(candidate_stages(options), context, Ranking(), trace)
    with trace.part("decision"):
        decision = run.decision(context.passages, holders, query.page)
    noted = query.noting(*notes, *missing)
    return Search(noted, context, [*rankings.values()][-1], rankings, trace, decision)


def _keyword_query(query: Query, question: KeywordQuestion) -> Query:
    terms = dict.fromkeys((term for word in question.words for term in query.analyze(word)), 1.0)
    changed = {**question.rewritten, **question.corrections}
    notes = [f"read '{said}' as '{meant}'" for said, meant in changed.items()]
    text = question.text_of(query.text)
    return replace(query, text=text, terms=terms, corrections=question.corrections).noting(*notes)


def narrowed(view: ReaderView, *filters: Filters | None) -> Mask | None:
    """Return the rows that match all filters; None if there is no filter."""
    masks = [view.matching(wanted) for wanted in filters if wanted]
    return np.logical_and.reduce(masks) if masks else None


def _preferring(query: Query, page: str | None) -> Query:
    if not page or query.page:
        return query
    return replace(query, page=page).noting(f"the page “{page}” before others")


def _holders(view: ReaderView, query: Query, holding: Callable[[str], Rows]) -> tuple[Mask | None, list[str]]:
    """Return the rows with a quoted phrase, None without any, and a note for each phrase without a match."""
    found = {phrase: holding(phrase).tolist() for phrase in query.phrases}
    rows = sorted({row for rows in found.values() for row in rows})
    missing = [f"no passage holds the words “{phrase}”" for phrase, rows in found.items() if not rows]
    return (view.mask(rows) if rows else None), missing
