"""The documents of a generation in OpenSearch, and the one place that narrows a request to readable ones.

Belongs here: kinds, fields, mapping of their index; filters by tenant, generation, kind of document and reader class.
Does not belong here: ids (`remote.stored`), sending (`reader`, the writer).

Every document names its generation and tenant, even if its index is of that generation alone. Document-level security
of the server is not relied on: it would need a role for each set of reader classes. A request without these conditions
would return every document of the index, so no module but this one makes a `bool` query, which a test verifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal

from citelock_stores.remote.stored import GENERATION, POINT, TENANT
from rag_serving.config.index import Index

DocumentKind = Literal["chunk", "window", "block", "posting", "piece", "manifest"]
"""chunk: a chunk's text, sentences and, if it has one alone, its vector. window: a vector of a chunk with several.
block: rows of a table that readers fetch as a whole (`publishing.tables`, `lexical` and `keyword` for vocabularies,
`seals`). posting: where some terms stand. piece: a part of a page's file. manifest: what the generation says of
itself."""

DENSE, VECTOR = "dense", "vector"
"""A vector as it is searched, and its float32 components as bytes, by which what is found is compared again."""
CLASSES = "class_ids"
"""Who may read a document: `class_id` of each reader class; a class itself may be longer than a keyword may be."""
ROW, NUMBER = "row", "number"
NUMBERS = (ROW, NUMBER, "keys")
"""Fields of whole numbers: the chunk, the document among those of its kind, hashes of terms."""
HNSW_M, HNSW_EF_CONSTRUCTION = 16, 100
MOST = 10_000
"""Hits of one search (`index.max_result_window`), and candidates of one (`k`)."""
MOST_VALUES = 65_536
"""Values of one condition (`index.max_terms_count`)."""
SPACE = "innerproduct"
"""How vectors are compared: they are normalized, so that it is the cosine."""


def class_id(readers: str) -> str:
    """Return the key of a reader class."""
    return blake2b(readers.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def index_body(dimension: int, settings: Index) -> dict[str, Any]:
    """Return settings and mapping of an index; only searched fields are indexed, the rest is stored."""
    method = {
        "name": "hnsw",
        "engine": settings.engine,
        "space_type": SPACE,
        "parameters": {"m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION},
    }
    vector: dict[str, Any] = {"type": "knn_vector", "dimension": dimension, "method": method}
    if settings.compression != "1x":
        vector |= {"mode": "on_disk", "compression_level": settings.compression}
    keywords = (TENANT, GENERATION, POINT, CLASSES, "block", "posting", "sha256")
    fields = {name: {"type": "keyword"} for name in keywords} | {name: {"type": "long"} for name in NUMBERS}
    return {
        "settings": {
            "index": {
                "knn": True,
                "number_of_shards": settings.shards,
                "number_of_replicas": settings.replicas,
                "refresh_interval": "-1",  # the publisher refreshes; nothing is written after it
            }
        },
        "mappings": {
            "dynamic": False,
            "_source": {"excludes": [DENSE]},
            "properties": {**fields, DENSE: vector},
        },
    }


Query = dict[str, Any]


def readable(
    tenant: str, generation: str, kind: str, classes: Sequence[str], conditions: Sequence[Query] = ()
) -> Query:
    """Return the query of those documents of a kind whose reader class is one of `classes`.

    Raises:
        ValueError: there is no class, and so nothing to query.
    """
    if not classes:
        raise ValueError("nothing may be read without a reader class")
    return unread(tenant, generation, kind, [with_any(CLASSES, [*map(class_id, classes)]), *conditions])


def unread(tenant: str, generation: str, kind: str, conditions: Sequence[Query] = ()) -> Query:
    """Return the query of a generation's documents for all readers: for its manifest, for counts and for its
    publisher."""
    owner = [_is(TENANT, tenant), _is(GENERATION, generation), _is(POINT, kind)]
    return {"bool": {"filter": [*owner, *conditions]}}


def of_tenant(tenant: str, kind: str | None = None) -> Query:
    """Return the query of a tenant's documents of a kind, or of all, for its publisher."""
    return {"bool": {"filter": [_is(TENANT, tenant), *([] if kind is None else [_is(POINT, kind)])]}}


def of_kind(kind: str) -> Query:
    """Return the query of documents of a kind of all tenants, for the quota."""
    return {"bool": {"filter": [_is(POINT, kind)]}}


def with_any(field: str, values: Sequence[Any]) -> Query:
    """Return the condition that a field has one of some values."""
    if len(values) <= MOST_VALUES:
        return {"terms": {field: list(values)}}
    starts = range(0, len(values), MOST_VALUES)
    parts = [{"terms": {field: list(values[start : start + MOST_VALUES])}} for start in starts]
    return {"bool": {"should": parts, "minimum_should_match": 1}}


def with_value(field: str, value: str) -> Query:
    """Return the condition that a field has a value."""
    return _is(field, value)


def _is(field: str, value: str) -> Query:
    return {"term": {field: value}}
