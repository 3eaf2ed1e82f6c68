"""Candidates that must not become passages: boilerplate, excluded labels, no shared words.

Belongs here: one stage per rule. Does not belong here: ordering.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np

from rag_serving.indexes.protocols import Mask
from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Query
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.stage import SearchContext

# The source document's exemption: code and tables answer with few words of prose.
_UNGATED_TYPES = frozenset({"code", "table"})
# Cosine similarity of a passage that says the same in other words.
_NEAR = 0.45
# Share of the query's weight (inverse document frequency) that one rare word brings.
_ENOUGH_WEIGHT = 0.4


@dataclass(frozen=True)
class Hygiene:
    """Rows that are content: no boilerplate, none of the excluded labels."""

    drop_labels: Set[str]

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        clean = ~context.view.boilerplate(ranking.rows)
        if self.drop_labels:
            labels = context.view.labels(ranking.rows)
            clean &= np.array([self.drop_labels.isdisjoint(each) for each in labels], dtype=np.bool_)
        return ranking.where(clean)


@dataclass(frozen=True)
class KeywordGate:
    """The first rows that share words with the query: several, or rare ones, or that are near to it by meaning.

    Attributes:
        min_overlap: terms that a row must share; a query of fewer terms needs fewer.
        enough: rows that later stages look at; no passage is read for more.
        in_front: rows that are read whatever their words are, because both indexes together put them in front of all.
    """

    min_overlap: int
    enough: int
    in_front: int = 3

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        passed = list[int]()
        near, weights = is_near(ranking), context.term_weights
        for start in range(0, len(ranking), self.enough):
            chunks = context.passages.read(ranking.rows[start : start + self.enough])
            passed += [
                at
                for at, chunk in enumerate(chunks, start)
                if at < self.in_front or near[at] or shares_words(chunk, context.query, self.min_overlap, weights)
            ]
            if len(passed) >= self.enough:
                break
        return ranking.take(passed[: self.enough])


def is_near(ranking: Ranking) -> Mask:
    """Return which rows [n] may say the same in other words, by cosine similarity."""
    near: Mask = ranking.column("dense") >= _NEAR
    return near


def shares_words(chunk: Chunk, query: Query, min_overlap: int, weights: Mapping[str, float]) -> bool:
    """Return whether heading path and text share enough stemmed terms with the query, by number or by weight."""
    if chunk.content_type in _UNGATED_TYPES:
        return True
    terms = query.text_terms
    shared = terms & set(query.analyze(" ".join((*chunk.heading_path, chunk.text))))
    if len(shared) >= min(min_overlap, len(terms)):
        return True
    return sum(weights.get(term, 0.0) for term in shared) >= _ENOUGH_WEIGHT * sum(weights.values()) > 0
