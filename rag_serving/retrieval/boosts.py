"""What a query asked for to the letter comes before what is only alike: quoted phrases, a page called by its name.

Belongs here: adding rows with a quoted phrase, and how much phrases and titles are worth.
Does not belong here: which rows hold a phrase (`ReaderView.holding`), what was asked (`query.parsing`).
"""

from __future__ import annotations

import numpy as np

from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Query
from rag_serving.retrieval.ranking import SCORE, Ranking
from rag_serving.retrieval.stage import SearchContext
from rag_serving.text.normalization import caseless, holds

ASKED_FOR = "asked for"
# In spans between the best and the last score: each phrase outweighs whatever ranked the candidates; words that name a
# page may be meant otherwise.
_PHRASE, _PAGE = 1.1, 0.5
# Passages with a quoted phrase that are added where the indexes ranked others before them.
_ADDED = 20


def add_quoted(context: SearchContext, ranking: Ranking) -> Ranking:
    """Return the ranking, and at its end rows with a quoted phrase that it lacks, scored as its last."""
    if context.holders is None:
        return ranking
    among = context.holders if context.among is None else context.holders & context.among
    hits = Ranking.of_hits("bm25", "lexical_rank", context.view.lexical(context.query.terms, _ADDED, among))
    added = hits.where(~np.isin(hits.rows, ranking.rows))
    last = float(ranking.score.min()) if len(ranking) else 0.0
    scores = {"bm25": added.columns["bm25"], SCORE: np.full(len(added), last)}
    return ranking.joined(Ranking(added.rows, scores))


def boost(context: SearchContext, ranking: Ranking) -> Ranking:
    """Return the rows best first, those with quoted phrases or of the named page raised; column `asked for`.

    Other rows keep score and order. No passage is read where the query names neither.
    """
    query = context.query
    if not len(ranking) or not (query.phrases or query.page):
        return ranking
    span = float(np.ptp(ranking.score)) or 1.0
    worth = np.array([_worth(chunk, query) for chunk in context.passages.read(ranking.rows)])
    raised = np.where(worth > 0, ranking.score + worth * span, np.nan)
    return ranking.scored(ASKED_FOR, raised).ordered_by(SCORE)


def _worth(chunk: Chunk, query: Query) -> float:
    text = caseless(f"{' '.join(chunk.heading_path)}\n{chunk.text}")
    phrases = sum(holds(text, caseless(phrase)) for phrase in query.phrases)
    return _PHRASE * phrases + _PAGE * (chunk.title == query.page)
