"""What the documents of a generation are in OpenSearch: their kinds, fields, and the mapping of their index.

Belongs here: names, settings of an index. Does not belong here: names of indexes (`remote.layout`), ids
(`remote.point_ids`), requests (`connection`, `readable_documents`).

Every document belongs to one generation of one tenant and says so, also though its index is of that generation alone.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Literal

from citelock_stores.remote.stored import GENERATION, POINT, TENANT
from rag_serving.config.index import Index

DocumentKind = Literal["chunk", "window", "block", "posting", "piece", "manifest"]
"""chunk: a chunk's text, sentences and, if it has one alone, its vector. window: a vector of a chunk with several.
block: rows of a table that readers fetch as a whole (`remote_tables`, `lexical` and `keyword` for vocabularies,
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
    """Return what a reader class is found by."""
    return blake2b(readers.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def index_body(dimension: int, settings: Index) -> dict[str, Any]:
    """Return settings and mapping of an index; what is searched alone is indexed, the rest only kept."""
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
