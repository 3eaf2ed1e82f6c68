"""What the points of a generation are in Qdrant: their kinds, payload fields and vectors.

Belongs here: names. Does not belong here: collections and aliases (`remote.layout`), ids (`remote.point_ids`), requests
(`connection`, `readable_points`), values of payloads (`remote.payloads`).

Every point belongs to one generation of one tenant and says so in its payload, also where its collection is of that
generation alone.
"""

from __future__ import annotations

from typing import Literal

from citelock_stores.remote.stored import GENERATION, POINT, READERS

PointKind = Literal["chunk", "place", "original", "piece", "terms", "seal", "manifest"]
"""chunk: a chunk with its text and vectors. place: another place of a chunk's text. original: the file of a page.
piece: a part of its bytes. terms: a part of the vocabulary of a reader class. seal: a part of what seals a reader
class (REMOTE_SEALS). manifest: what the generation says of itself."""

DENSE, WINDOWS = "dense", "windows"
"""Vectors of chunks: one for each, or a multivector of its windows, of which the nearest counts."""
SPARSE = {"lexical": "lexical-counts", "keyword": "keyword-counts"}
"""Sparse vectors by kind of posting: how often the chunk has the term of each number."""
HNSW_M, HNSW_EF_CONSTRUCT = 16, 100

KEYWORD_FIELDS = (GENERATION, POINT, READERS, "posting", "sha256")
"""Payload fields with a keyword index beside `tenant`."""
BOOK_FIELDS = {
    "chapter": "keyword",
    "section": "keyword",
    "page": "integer",
    "passage_id": "keyword",
    "source_file": "keyword",
    "text": "text",
}
"""Payload fields of the passages of a book, each with an index of its own."""
