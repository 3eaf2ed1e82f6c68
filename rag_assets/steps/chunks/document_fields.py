"""What a chunk has of its page as a whole: slug, category, language.

Belongs here: columns that a site's navigation may change while the page stays as it is, and so are told anew with each
build; which of a page's texts are looked at where its source does not say the language. Does not belong here: cutting
(`chunking`), books (`book_places`), telling languages apart (`rag_serving.models.language_detector`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import pyarrow as pa

_OF_PAGES = ("slug", "category")


def with_document_fields(chunks: pa.Table, pages: pa.Table) -> pa.Table:
    """Return rows of CHUNKS with slug and category of their pages.

    Args:
        chunks: rows of CHUNKS.
        pages: rows of PAGES, all of the source.
    """
    rows = {row["page_id"]: row for row in pages.select(["page_id", *_OF_PAGES]).to_pylist()}
    page_ids = chunks["page_id"].to_pylist()
    for name in _OF_PAGES:
        field = chunks.schema.field(name)
        values = pa.array([rows[page_id][name] for page_id in page_ids], field.type)
        chunks = chunks.set_column(chunks.column_names.index(name), field, values)
    return chunks


LOOKED_AT = 5
"""Chunks of a page whose language is looked for: 60 µs each."""

Detect = Callable[[Sequence[str]], str | None]
"""Returns the language of the texts of a page, ISO 639-1; None where it cannot be told."""


def with_languages(chunks: pa.Table, detect: Detect) -> pa.Table:
    """Return rows of CHUNKS with the column `lang` filled: what the page says, else what most of its texts are in."""
    pages = chunks["page_id"].to_pylist()
    told = dict(zip(pages, chunks["lang"].to_pylist(), strict=True))
    texts: dict[str, list[str]] = defaultdict(list)
    kinds = chunks["content_type"].to_pylist()
    for page, text, kind in zip(pages, chunks["text"].to_pylist(), kinds, strict=True):
        if told[page] is None and kind != "code" and len(texts[page]) < LOOKED_AT:
            texts[page].append(text)
    languages = {page: told[page] or detect(texts[page]) for page in told}
    column = pa.array([languages[page] for page in pages], pa.string())
    return chunks.set_column(chunks.column_names.index("lang"), chunks.schema.field("lang"), column)
