"""Evidence from a passage's parts: its nearest sentence, and its headings.

Belongs here: the contribution of each to the score of the first candidates. Does not belong here: the vectors
(`indexes.sentence_vectors`), the answering sentence (`answering.selection`).

A passage of 250 tokens covers several topics, and so does its one vector: one answering sentence, or a heading with the
topic, is visible in its own vector only (the best passage of a document represents it in Dai and Callan, "Deeper Text
Understanding for IR with Contextual Neural Language Modeling", SIGIR 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rag_serving.retrieval.ranking import SCORE, Ranking, Scores, standard
from rag_serving.retrieval.stage import SearchContext

HEADING, SENTENCE = "heading", "sentence"
"""The columns of both similarities; NaN where no vector is stored."""
POOL = 30
HEADING_WORTH, SENTENCE_WORTH = 0.1, 0.2
"""Deviations of the score that one deviation of each is worth: twice and three times as much find more of what people
ask in their own words, and put the right paragraph of SQuAD first less often."""


@dataclass(frozen=True)
class SentenceEvidence:
    """The first rows in the order of score and sentences; columns `heading` and `sentence`.

    Without stored vectors, or without a vector of the query, everything stays as it is.

    Attributes:
        pool: how many rows are reordered.
    """

    pool: int = POOL

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        first = ranking.head(self.pool)
        if context.vector is None or not len(first):
            return ranking
        found = context.view.sentence_evidence(context.vector, first.rows.tolist())
        if np.isnan(found).all():
            return ranking
        evidence = np.full((len(ranking), 2), np.nan)
        evidence[: len(first)] = found
        score, order = ranking.score.copy(), np.arange(len(ranking))
        worth = HEADING_WORTH * _standard(found[:, 0]) + SENTENCE_WORTH * _standard(found[:, 1])
        deviation = first.score.std() or 1.0
        lifted = first.score + deviation * worth
        floor = score[len(first)] if len(ranking) > len(first) else -np.inf
        score[: len(first)] = np.maximum(lifted, floor)
        order[: len(first)] = np.argsort(-score[: len(first)], kind="stable")
        columns = {HEADING: evidence[:, 0], SENTENCE: evidence[:, 1], SCORE: score}
        return Ranking(ranking.rows, {**ranking.columns, **columns}).take(order)


def _standard(values: Scores) -> Scores:
    """Return values [n] with mean 0 and deviation 1; unknown ones become the least of them."""
    known = values[~np.isnan(values)]
    return standard(np.where(np.isnan(values), known.min() if len(known) else 0.0, values))
