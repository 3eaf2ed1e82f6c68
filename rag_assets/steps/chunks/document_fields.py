"""What the page says of the document that its chunks are of: slug and category.

Belongs here: columns that a site's navigation may change while the page stays as it is, and so are told anew with each
build. Does not belong here: cutting (`chunking`), books (`book_places`).
"""

from __future__ import annotations

import pyarrow as pa

_COLUMNS = ("slug", "category")


def with_document_fields(chunks: pa.Table, pages: pa.Table) -> pa.Table:
    """Return rows of CHUNKS with slug and category of their pages.

    Args:
        chunks: rows of CHUNKS.
        pages: rows of PAGES, all of the source.
    """
    rows = {row["page_id"]: row for row in pages.select(["page_id", *_COLUMNS]).to_pylist()}
    page_ids = chunks["page_id"].to_pylist()
    for name in _COLUMNS:
        field = chunks.schema.field(name)
        values = pa.array([rows[page_id][name] for page_id in page_ids], field.type)
        chunks = chunks.set_column(chunks.column_names.index(name), field, values)
    return chunks
