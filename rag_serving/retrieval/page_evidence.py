"""What stands around a candidate speaks for it: its page, the page above, the passages beside it.

Belongs here: what each of these is worth to every candidate. Does not belong here: finding candidates
(`retrieval.hybrid`).

All of it is told from the other candidates alone, none of which the asker may not read: a page that he may not read
lifts nothing. Scores are standard scores (mean 0, deviation 1), one for each candidate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rag_serving.retrieval.fusion import standard

Scores = NDArray[np.float64]
Numbers = NDArray[np.int64]


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
