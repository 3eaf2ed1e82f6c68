"""Passages without the heading that a question was made of: what is left when a page words it differently.

Belongs here: masking in a passage and in rows that are indexed. Does not belong here: which are masked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from rag_assets.evaluation.bench import with_column
from rag_assets.steps.contexts.context_prefix import metadata_prefix
from rag_assets.steps.contexts.lexical_fields import lexical_prefixes
from rag_serving.records.passages import Chunk


def mask_heading(chunk: Chunk) -> Chunk:
    """Return a passage without its last heading, and without its page's title where that says the same."""
    title, path = _masked(chunk.title, chunk.heading_path)
    return replace(chunk, title=title, heading_path=path)


def mask_headings(chunks: pa.Table, sections: Collection[str]) -> pa.Table:
    """Return rows of GENERATION_CHUNKS, those of some sections without their last heading in path, title and prefixes.

    What is embedded, and what the lexical index sees, follows from the prefixes.
    """
    columns = (chunks[name].to_pylist() for name in ("section_id", "title", "heading_path", "prefix"))
    titles, paths, prefixes = [], [], []
    for section, title, path, prefix in zip(*columns, strict=True):
        if section in sections:
            title, path = _masked(title, tuple(path))
            prefix = metadata_prefix(title, path)
        titles.append(title)
        paths.append(list(path))
        prefixes.append(prefix)
    for name, values in (("title", titles), ("heading_path", paths), ("prefix", prefixes)):
        chunks = with_column(chunks, name, values)
    return with_column(chunks, "lexical_prefix", lexical_prefixes(chunks))


def _masked(title: str, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    last = path[-1] if path else title
    return ("" if _same(title, last) else title), tuple(name for name in path if not _same(name, last))


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
