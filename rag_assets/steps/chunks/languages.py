"""The language of each page's chunks, where its source does not say it.

Belongs here: which of a page's texts are looked at. Does not belong here: telling languages apart
(`rag_serving.models.language_detector`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import pyarrow as pa

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
