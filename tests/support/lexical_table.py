"""Texts as the columns that a lexical index is made of."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def lexical_table(texts: Sequence[str], languages: Sequence[str | None] | None = None) -> pa.Table:
    """One row of chunk_id, lexical_prefix, text and lang for each text."""
    columns = {
        "chunk_id": [f"{row}:1:0" for row in range(len(texts))],
        "lexical_prefix": [""] * len(texts),
        "text": list(texts),
        "lang": list(languages or [None] * len(texts)),
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
