"""What a search can tell of its candidates afterwards, read from the columns that its stages left.

Belongs here: candidates with all of their scores, rankings by chunk id. Does not belong here: how they are shown or
kept (`cli.printing`, `telemetry.events`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rag_serving.indexes.protocols import Rows
from rag_serving.records.answers import SearchResults
from rag_serving.records.passages import Candidate
from rag_serving.retrieval.hybrid import COLUMNS
from rag_serving.retrieval.ranking import Ranking, Scores
from rag_serving.retrieval.search import Search

RankedIds = list[tuple[str, float]]


def search_results(search: Search, k: int, explain: bool) -> SearchResults:
    """Return the first k passages; with `explain`, or without any, also how the query was read."""
    results = tuple(search.context.passages.candidates(search.ranking.head(k)))
    return SearchResults(
        results,
        search.context.view.id,
        notes=search.query.notes if explain or not results else None,
        reranker=search.reranker,
        query=search.query if explain else None,
        candidates=explained_candidates(search) if explain else (),
    )


def scored_ids(search: Search, most: int) -> list[tuple[str, dict[str, float]]]:
    """Return the first candidates by chunk id, each with what every stage said of it."""
    ranking = all_columns(search).head(most)
    ids = search.context.view.chunk_ids(ranking.rows.tolist())
    return [(chunk_id, scores) for chunk_id, (_, scores, _) in zip(ids, ranking.records(), strict=True)]


def explained_candidates(search: Search) -> tuple[Candidate, ...]:
    """Return all candidates in the order before reranking, each with what every stage said of it."""
    ranking = all_columns(search)
    candidates = search.context.passages.candidates(ranking, together=max(1, len(ranking)))
    clean = np.isin(ranking.rows, search.rankings["hygiene"].rows).tolist()
    pairs = zip(candidates, clean, strict=True)
    return tuple(candidate if kept else replace(candidate, dropped_by="hygiene") for candidate, kept in pairs)


def all_columns(search: Search) -> Ranking:
    """Return the candidates in their order, with the columns of the stages after them."""
    return search.candidates.joined(search.ranking)


def index_rankings(search: Search, most: int) -> dict[str, RankedIds]:
    """Return the best rows by chunk id: of each index alone (`dense`, `lexical`), and of both (`fused`)."""
    best = search.rankings["best"].head(most)
    found = {"fused": (best.rows, best.score)}
    for index, column in COLUMNS.items():
        if index in search.rankings and column in search.rankings[index].columns:
            hits = search.rankings[index].found_by(index).head(most)
            found[index] = hits.rows, hits.columns[column]
    return _by_id(search, found)


def _by_id(search: Search, found: dict[str, tuple[Rows, Scores]]) -> dict[str, RankedIds]:
    rows = sorted({row for those, _ in found.values() for row in those.tolist()})
    ids = dict(zip(rows, search.context.view.chunk_ids(rows), strict=True))
    return {
        name: [(ids[row], score) for row, score in zip(those.tolist(), scores.tolist(), strict=True)]
        for name, (those, scores) in found.items()
    }
