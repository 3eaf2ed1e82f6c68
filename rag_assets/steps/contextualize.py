"""The prefix that tells a chunk where it comes from.

Belongs here: what is put before a chunk's text for both indexes, and at which level it was made.
Does not belong here: embedding, and anything a reader sees: a prefix is never shown and never quotable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from rag_serving.schema import CONTEXTS

VERSION = 1
"""Raised when the same chunk would get another prefix."""

MAX_PREFIX_CHARS = 160
"""A longer path loses its middle: an embedding model reads some 250 tokens, and the text must have them."""

Level = Literal["metadata", "none"]


def build_contexts(chunks: pa.Table, level: Level) -> pa.Table:
    """Rows of CONTEXTS, one for each row of CHUNKS, in the same order."""
    ids = chunks["chunk_id"].to_pylist()
    if level == "none":
        prefixes = [""] * len(ids)
    else:
        places = zip(chunks["title"].to_pylist(), chunks["heading_path"].to_pylist(), strict=True)
        prefixes = [metadata_prefix(title, path or ()) for title, path in places]
    return pa.table({"chunk_id": ids, "prefix": prefixes, "level": [level] * len(ids)}, schema=CONTEXTS.arrow)


def metadata_prefix(title: str, heading_path: Sequence[str]) -> str:
    """Page title and headings, each once: `Deploy guide › Rolling back` and a line end; empty where there are none."""
    names: list[str] = []
    for name in (title, *heading_path):
        clean = " ".join(name.split())
        if clean and clean not in names:
            names.append(clean)
    while len(names) > 2 and len(" › ".join(names)) > MAX_PREFIX_CHARS:
        del names[1]
    path = " › ".join(names)[:MAX_PREFIX_CHARS].strip()
    return f"{path}\n" if path else ""


def embedded_texts(chunks: pa.Table, contexts: pa.Table) -> list[str]:
    """What is embedded and indexed for each chunk: its prefix, then its text.

    Raises:
        ValueError: the contexts are of other chunks, or in another order.
    """
    if chunks["chunk_id"].to_pylist() != contexts["chunk_id"].to_pylist():
        raise ValueError("the contexts do not belong to these chunks; materialize `contexts` again")
    pairs = zip(contexts["prefix"].to_pylist(), chunks["text"].to_pylist(), strict=True)
    return [prefix + text for prefix, text in pairs]
