"""Stages of a search by keywords."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from rag_serving.indexes.view import ReaderView, Rows
from rag_serving.retrieval.keyword.search import KEYWORD
from rag_serving.retrieval.ranking import SCORE, Ranking
from rag_serving.retrieval.stage import SearchContext
from rag_serving.text.keyword_words import words_in
from rag_serving.text.normalization import caseless, holds

_READ_AT_MOST = 1000  # rows whose text is looked at
_ADDED = 20  # rows with a phrase that are added where others were ranked before them


def rows_holding(view: ReaderView, phrase: str) -> Rows:
    """Return the rows with a phrase verbatim, ascending, among the first 1,000 with all its words in content or
    title."""
    keywords = view.keywords
    has_all = keywords.readable.copy()
    words = set(words_in(phrase))
    keywords.expect(words)
    for word in words:
        has_word = np.zeros(len(has_all), np.bool_)
        has_word[keywords.rows_with({word})] = True
        titled = np.zeros(keywords.size[1], np.bool_)
        titled[keywords.pages_titled({word}, frozenset())] = True
        has_all &= has_word | titled[keywords.page_of]
    rows = np.flatnonzero(has_all)[:_READ_AT_MOST].tolist() if words else []
    wanted = caseless(phrase)
    return np.array([row for row in rows if holds(caseless(view.indexed_text(row)), wanted)], np.int64)


def add_holders(context: SearchContext, ranking: Ranking) -> Ranking:
    """Return the ranking, and at its end the best rows with a quoted phrase that it lacks, with their own scores."""
    if context.holders is None or context.keywords is None:
        return ranking
    held = context.holders if context.among is None else context.holders & context.among
    rows = np.setdiff1d(np.flatnonzero(held), ranking.rows)
    scores = context.keywords.scored.scores_of(rows)
    best = np.argsort(-scores, kind="stable")[:_ADDED]
    added = {KEYWORD: scores[best], SCORE: scores[best]}
    return ranking.joined(Ranking(rows[best], added))


@dataclass(frozen=True)
class KeywordSearch:
    """The first k rows by keywords; columns `keyword` and `keyword_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        return context.keywords.ranking(self.k) if context.keywords else ranking


@dataclass(frozen=True)
class PerDocument:
    """At most so many rows of one document."""

    most: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        counts, kept = Counter[int](), list[int]()
        for at, page in enumerate(context.view.pages(ranking.rows).tolist()):
            counts[page] += 1
            if counts[page] <= self.most:
                kept.append(at)
        return ranking.take(kept)
