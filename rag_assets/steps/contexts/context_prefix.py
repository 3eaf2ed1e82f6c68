"""The metadata context: what tells a chunk where it comes from when no model writes it.

Belongs here: its text. Does not belong here: which chunks get one, or where it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rag_assets.steps.contexts.table_heads import shortened, table_head

MAX_PREFIX_CHARS = 160
"""A longer path loses its middle: an embedding model reads some 250 tokens, and the text must have them."""


def under_prefixes(prefixes: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return each text below its prefix: what an index sees."""
    return [f"{prefix}\n{text}" if prefix else text for prefix, text in zip(prefixes, texts, strict=True)]


def embedded_texts(chunks: pa.Table) -> list[str]:
    """Return what is embedded for each row of GENERATION_CHUNKS: its prefix above its text."""
    return under_prefixes(chunks["prefix"].to_pylist(), chunks["text"].to_pylist())


def metadata_prefixes(chunks: pa.Table) -> list[str]:
    """Return what is embedded above the text of each chunk: chapter, page title and headings, and the head of the table
    that it begins inside. `chunks` needs title, heading_path, chapter and structure."""
    columns = (chunks[name].to_pylist() for name in ("title", "heading_path", "chapter", "structure"))
    return [
        "\n".join(filter(None, (metadata_prefix(title, path or (), chapter), shortened(table_head(structure)))))
        for title, path, chapter, structure in zip(*columns, strict=True)
    ]


def metadata_prefix(title: str, heading_path: Sequence[str], chapter: str | None = None) -> str:
    """Chapter, page title and headings, each once: `Deploy guide › Rolling back`; empty where there are none.

    `chapter`: of a book, such as `Chapter 3: Common Concepts`; its number says nothing.
    """
    names: list[str] = []
    for name in ((chapter or "").partition(": ")[2], title, *heading_path):
        clean = " ".join(name.split())
        if clean and clean not in names:
            names.append(clean)
    while len(names) > 2 and len(" › ".join(names)) > MAX_PREFIX_CHARS:
        del names[1]
    return " › ".join(names)[:MAX_PREFIX_CHARS].strip()
