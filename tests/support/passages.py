"""Passages for tests of the stages behind retrieval."""

from __future__ import annotations

from collections.abc import Sequence

from rag_serving.records import Candidate, Chunk, Lock


def chunk_of(text: str, chunk_id: str = "1:1:0", **changes: object) -> Chunk:
    """A chunk of page 1 with everything a citation needs."""
    page_id, version, index = chunk_id.split(":")
    fields: dict[str, object] = {
        "space": "ENG",
        "title": "Broker guide",
        "heading_path": ("Broker guide", "Restart"),
        "anchor": "Restart",
        "url": f"https://wiki.example/pages/{page_id}#Restart",
        "content_type": "paragraph",
    }
    return Chunk(
        chunk_id=chunk_id,
        page_id=page_id,
        version=int(version),
        chunk_idx=int(index),
        text=text,
        start=0,
        end=len(text),
        **{**fields, **changes},  # type: ignore[arg-type]
    )


def candidate_of(text: str, chunk_id: str = "1:1:0", score: float = 1.0, **changes: object) -> Candidate:
    return Candidate(chunk_of(text, chunk_id, **changes), score)


def lock_of(texts: Sequence[str]) -> Lock:
    """A lock of one passage per text, each of another page."""
    return Lock(tuple(candidate_of(text, f"{page}:1:0") for page, text in enumerate(texts, start=1)))
