"""RM3: a lexical query that learns from the passages it finds first.

Belongs here: the expanded query and its scores. Does not belong here: searching an index, what a term is.

Abdul-Jaleel et al., "UMass at TREC 2004: Novelty and HARD". The relevance model is estimated from the best passages,
each weighted by its score; its strongest terms are mixed with the query as it was asked. Passages that the asker may
not read are not among the best, and no term comes from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.bm25 import best_of
from rag_serving.indexes.protocols import ReaderView
from rag_serving.text.analyzer import analyze

PASSAGES = 10
"""Passages that the model is estimated from."""
TERMS, ORIGINAL = 40, 0.7
"""Terms that are taken from it, and what the query's own weigh beside them."""
_COMMON = 2.3  # idf of a term that a tenth of all passages hold: it expands no query


def expanded_scores(view: ReaderView, terms: Mapping[str, float], scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the BM25 score [rows] of every row by the expanded query; `scores` [rows] are those of the query."""
    best = best_of(scores, PASSAGES)
    if not best:
        return scores
    passages = [(hit.score, analyze(view.indexed_text(hit.row))) for hit in best]
    weights = view.term_weights({term for _, passage in passages for term in passage})
    return view.lexical_scores(expanded(terms, passages, lambda term: weights[term] < _COMMON))


def expanded(
    query: Mapping[str, float],
    passages: Sequence[tuple[float, Sequence[str]]],
    is_common: Callable[[str], bool] = lambda _: False,
    count: int = TERMS,
    original: float = ORIGINAL,
) -> dict[str, float]:
    """Weights by term that sum to 1: `original` of them the query's, the others of the `count` strongest.

    `passages` are scores above 0 and analyzed terms; a common term is never taken from them.
    """
    total = sum(score for score, terms in passages if terms)
    model: defaultdict[str, float] = defaultdict(float)
    for score, terms in passages:
        for term, frequency in Counter(terms).items():
            model[term] += score / total * frequency / len(terms)
    strongest = sorted(model, key=lambda term: (-model[term], term))
    taken = [term for term in strongest[: 2 * count] if not is_common(term)][:count]
    if not taken:
        return dict(query)
    weights = {term: original * weight / sum(query.values()) for term, weight in query.items()}
    rest = (1 - original) / sum(model[term] for term in taken)
    for term in taken:
        weights[term] = weights.get(term, 0.0) + rest * model[term]
    return weights
