"""Evidence: what an answer was made from, a record for each passage that was read.

Belongs here: a plain immutable record and its JSON shape. Does not belong here: making it (`retrieval.evidence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Source = Literal["keyword", "hybrid", "embedding"]
"""What found a passage: its words, words and meaning, or its meaning alone."""


@dataclass(frozen=True)
class Evidence:
    """A passage of the lock. Everything is of what its reader may see.

    Attributes:
        doc_slug: short name of its document, else of its file, else the id of its page.
        category: of its document; empty if it has none.
        snippet: where its text has most of the question's words. Here and in title, category and headings nothing is
            left of what is meant for an assistant.
        content_hash: of all texts of the page that the reader may see, in order.
        matched_terms: words of the question that title, labels, headings or text have.
        match_explain: what speaks for it, a line each.
        chunk_index: its place in the page.
        chunk_hash: of its text.
    """

    doc_slug: str
    title: str
    category: str
    snippet: str
    score: float
    header_path: tuple[str, ...]
    content_hash: str
    matched_terms: tuple[str, ...]
    source: Source
    match_explain: tuple[str, ...]
    chunk_index: int
    chunk_hash: str

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; a heading path is one line."""
        lists = {name: list(getattr(self, name)) for name in ("matched_terms", "match_explain")}
        return {**vars(self), **lists, "header_path": " > ".join(self.header_path)}
