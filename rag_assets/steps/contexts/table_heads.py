"""What a passage that begins inside a table lacks of it: the names of its columns and the sentence above it.

Belongs here: its text, for the prefixes of both indexes. Does not belong here: what a reader sees of a table
(`rag_serving.text.structure`), where tables are cut (`steps.chunks`).

The passage itself stays to the letter. A table that is longer than a passage would otherwise be found by its first rows
alone: only they stand below "Three Months Ended" and "in millions".
"""

from __future__ import annotations

from rag_serving.text.structure import columns_of, decode

MAX_CHARS = 160
"""Of what is embedded above a passage: an embedding model reads some 250 tokens, and the rows must have them."""


def table_head(structure: str) -> str:
    """Return the sentence above a table and the names of its columns, each once, for a passage that begins inside it;
    empty for any other.

    `structure`: as `Structure.encode` wrote it; empty where no ingest has read the passage.
    """
    if not structure:
        return ""
    found = decode(structure)
    if not found.table_header:
        return ""
    names = dict.fromkeys(name for name in columns_of(found.table_header) if name)
    return " ".join(part for part in (found.introduction, ", ".join(names)) if part)


def shortened(head: str) -> str:
    """Return what of it is embedded: its end is nearest to the rows."""
    return head if len(head) <= MAX_CHARS else head[-MAX_CHARS:].partition(" ")[2]
