"""Comparing what Qdrant holds of a generation with its files, before it is published.

Belongs here: counts, sample queries against exact search, sample terms. Does not belong here: sending them
(`qdrant_upload`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assets.publishing.qdrant_points import GenerationPoints
from rag_serving.config.loading import Config
from rag_serving.indexes import exact
from rag_serving.indexes.qdrant import filters
from rag_serving.indexes.qdrant.layout import DENSE, SPARSE, WINDOWS, number_of
from rag_serving.indexes.qdrant.repeated_requests import RepeatedRequests
from rag_serving.indexes.remote.errors import RemoteDataError

if TYPE_CHECKING:
    pass

PROBES, NEAREST = 16, 10
Search = tuple[str, Any, int]
"""The named vectors, what is searched for in them, and how many are wanted."""
SAME = 1e-5  # difference of cosines that count as equal


def check_points(requests: RepeatedRequests, collection: str, points: GenerationPoints, config: Config) -> float:
    """Return recall@10 of sample queries, 0 to 1: every kind of point is there as often as it should be, and chunks are
    found by their vectors and terms.

    Raises:
        RemoteDataError: something is missing, or recall is below `indexing.min_ann_recall`.
    """
    where = f"collection {collection} is not as generation {points.manifest.id} was sent"
    for kind, expected in points.counts.items():
        narrowed = filters.unread(points.manifest.tenant, points.manifest.id, kind)
        found = requests.ask(
            partial(_count, collection=collection, narrowed=narrowed),
        )
        if found != expected:
            raise RemoteDataError(
                f"{where}: {found} of {expected} points of kind {kind}; `citelock generations repair` sends it again"
            )
    if not points.chunks:
        return 1.0
    _check_terms(requests, collection, points, where)
    recall = _recall(requests, collection, points, config)
    if recall < config.indexing.min_ann_recall:
        least = config.indexing.min_ann_recall
        raise RemoteDataError(f"{where}: recall@10 of sample queries is {recall:.3f}, indexing.min_ann_recall {least}")
    return recall


def _recall(requests: RepeatedRequests, collection: str, points: GenerationPoints, config: Config) -> float:
    """Return the share of the nearest chunks that searches find; one as near as the last of them is as good."""
    from qdrant_client.models import SearchParams

    table = points.files.vectors
    rows = np.unique(np.linspace(0, points.chunks - 1, PROBES).astype(np.int64))
    queries = table.mean(rows)
    params = SearchParams(hnsw_ef=config.index.ef_search)
    using = WINDOWS if points.has_windows else DENSE
    answers = _searched(requests, collection, points, [(using, query.tolist(), NEAREST) for query in queries], params)
    hits = 0
    for query, answer in zip(queries, answers, strict=True):
        nearest = exact.search(table, query, NEAREST)
        found = np.array([number_of(point.id) for point in answer], np.int64)
        similarities = exact.similarities(table, query, found)
        hits += min(len(nearest), int(np.count_nonzero(similarities >= nearest[-1].score - SAME)))
    return hits / (len(rows) * min(NEAREST, points.chunks))


def _check_terms(requests: RepeatedRequests, collection: str, points: GenerationPoints, where: str) -> None:
    """Compare the postings of some terms of each kind.

    Raises:
        RemoteDataError: they differ.
    """
    from qdrant_client.models import SparseVector

    for kind, counts in points.term_counts.items():
        last = len(counts.terms) - 1
        terms = sorted({round(number) for number in np.linspace(0, last, PROBES)}) if last >= 0 else []
        searches = [(SPARSE[kind], SparseVector(indices=[term], values=[1.0]), points.chunks) for term in terms]
        answers = _searched(requests, collection, points, searches, None) if searches else []
        owners = np.repeat(np.arange(points.chunks), np.diff(counts.starts))
        for term, answer in zip(terms, answers, strict=True):
            which = counts.numbers == term
            expected = dict(zip(owners[which].tolist(), counts.counts[which].tolist(), strict=True))
            if {number_of(point.id): round(point.score) for point in answer} != expected:
                raise RemoteDataError(
                    f"{where}: chunks with {counts.terms[term]!r} differ; `citelock generations repair` sends it again"
                )


def _searched(
    requests: RepeatedRequests, collection: str, points: GenerationPoints, searches: list[Search], params: Any
) -> list[list[Any]]:
    from qdrant_client.models import QueryRequest

    narrowed = filters.unread(points.manifest.tenant, points.manifest.id, "chunk")
    batch = [
        QueryRequest(query=query, using=using, filter=narrowed, limit=limit, params=params, with_payload=False)
        for using, query, limit in searches
    ]
    responses = requests.ask(lambda client: client.query_batch_points(collection, requests=batch))
    return [list(response.points) for response in responses]


def _count(client: Any, collection: str, narrowed: Any) -> int:
    return int(client.count(collection, count_filter=narrowed, exact=True).count)
