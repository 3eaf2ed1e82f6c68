"""What a passage's place says, as text for the lexical index: title, headings, head of a table, enclosing definitions.

Belongs here: which parts of the place count, and how much. Does not belong here: the prefix that is embedded
(`context_prefix`), what a term is.

A part that counts twice stands there twice: BM25 over fields is BM25 over their weighted term counts (Robertson,
Zaragoza and Taylor, "Simple BM25 Extension to Multiple Weighted Fields", CIKM 2004). The embedding model reads no more
than some 250 tokens, and nothing is won by telling it the same thing thrice: it gets title and headings once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from rag_assets.steps.contexts.code_scopes import Enclosing
from rag_assets.steps.contexts.table_heads import table_head

VERSION = 2
"""Raised when the same chunk would get another text."""

TITLE, HEADINGS, DEFINITIONS = 3, 2, 2
_COLUMNS = ("section_id", "readers", "title", "heading_path", "text", "structure")


def lexical_prefixes(chunks: pa.Table) -> list[str]:
    """Return what stands above the text of each chunk for the lexical index.

    `chunks` needs section_id, readers, title, heading_path, text and structure; the chunks of a section in their order.
    What encloses a chunk is told only by chunks before it that have the same readers.
    """
    columns = (chunks[name].to_pylist() for name in _COLUMNS)
    read: defaultdict[tuple[str, str], Enclosing] = defaultdict(Enclosing)
    return [
        lexical_prefix(title, path or (), read[section, readers].definitions(text), table_head(structure))
        for section, readers, title, path, text, structure in zip(*columns, strict=True)
    ]


def lexical_prefix(title: str, heading_path: Sequence[str], definitions: Iterable[str] = (), head: str = "") -> str:
    """Title, headings, definitions and the head of a table, a line each, as often as they count."""
    headings = [heading for heading in heading_path if heading != title]
    lines = [*[title] * TITLE, *headings * HEADINGS, *tuple(definitions) * DEFINITIONS, head]
    return "\n".join(line for line in lines if line.strip())
