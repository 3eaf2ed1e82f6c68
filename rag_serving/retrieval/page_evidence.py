"""Evidence from a candidate's page, from the page above, and from the passages beside it.

Belongs here: what each of these adds to a candidate's score. Does not belong here: finding candidates
(`retrieval.hybrid`).

All of it comes from what the reader may see: a page that is hidden raises nothing. Scores are standard scores (mean 0,
deviation 1), one for each candidate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.sections import Retrieval
from rag_serving.retrieval.normalization import standard
from rag_serving.retrieval.ranking import SCORE, Ranking, Scores
from rag_serving.retrieval.stage import SearchContext

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class PageEvidence:
    """What is added to the fused score; columns `page`, `document`, `parent`, `neighbours`, none for a weight of 0."""

    settings: Retrieval

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        """`ranking`: in the order of the rows, with the column `fused`."""
        worth = self._worth(context, ranking)
        score = np.sum([ranking.columns["fused"], *worth.values()], axis=0)
        return Ranking(ranking.rows, {**ranking.columns, **worth, SCORE: score})

    def _worth(self, context: SearchContext, ranking: Ranking) -> dict[str, Scores]:
        view, rows, fused, settings = context.view, ranking.rows, ranking.columns["fused"], self.settings
        worth: dict[str, Scores] = {}
        pages = view.pages(rows)
        if settings.page_weight:
            worth["page"] = settings.page_weight * of_page(fused, pages)
        if settings.document_weight and "bm25" in ranking.columns:
            means = view.page_means(context.lexical_scores, rows)
            worth["document"] = settings.document_weight * standard(means)
        if settings.parent_weight:
            so_far = fused + worth.get("page", 0.0)
            worth["parent"] = settings.parent_weight * of_parent(so_far, pages, view.parents(rows))
        if settings.neighbour_weight:
            worth["neighbours"] = settings.neighbour_weight * of_neighbours(fused, pages, view.positions(rows))
        return worth


def of_page(scores: Scores, pages: Numbers) -> Scores:
    """Return the best score of a candidate's page, as a standard score [n].

    Passages of a page that has a good one are better than the same passages elsewhere: document evidence in passage
    retrieval, Callan, "Passage-Level Evidence in Document Retrieval", SIGIR 1994, turned around.
    """
    numbers, places = np.unique(pages, return_inverse=True)
    return standard(_best(scores, places, len(numbers))[places])


def of_parent(scores: Scores, pages: Numbers, parents: Numbers) -> Scores:
    """Return the best score of the page above a candidate's own [n], 0 where that has none above 0 or is not among
    them.

    Who asks in words of an overview page means one of the pages below it. `parents` are page numbers, below zero where
    there is none.
    """
    numbers, places = np.unique(pages, return_inverse=True)
    best = np.maximum(_best(scores, places, len(numbers)), 0.0)
    found = np.minimum(np.searchsorted(numbers, parents), max(len(numbers) - 1, 0))
    worth: Scores = np.where(numbers[found] == parents, best[found], 0.0) if len(numbers) else np.zeros(0)
    return worth


def of_neighbours(scores: Scores, pages: Numbers, places: Numbers) -> Scores:
    """Return the sum of the scores above 0 of the passages directly before and after a candidate in its page [n].

    Candidates of a page stand together in the order of their `places` in it. Places, not rows, tell neighbours: a
    passage that is hidden between two others must not bring them together.
    """
    positive = np.maximum(scores, 0.0)
    beside = (np.diff(places) == 1) & (np.diff(pages) == 0)
    worth = np.zeros(len(scores))
    worth[1:] += np.where(beside, positive[:-1], 0.0)
    worth[:-1] += np.where(beside, positive[1:], 0.0)
    return worth


def _best(scores: Scores, places: Numbers, count: int) -> Scores:
    best = np.full(count, -np.inf)
    np.maximum.at(best, places, scores)
    return best
