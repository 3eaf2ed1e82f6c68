"""Passages for tests of the stages behind retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.text.structure import chunk_structures


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


def chunks_of_section(texts: Sequence[str], **changes: object) -> list[Chunk]:
    """The chunks of one section of page 1, cut where these texts end."""
    section = "\n".join(texts)
    ends = [*accumulate(len(text) + 1 for text in texts)]
    ranges = [(end - 1 - len(text), end - 1) for text, end in zip(texts, ends, strict=True)]
    structures = chunk_structures(section, (), ranges)
    return [
        chunk_of(text, f"1:1:{place}", structure=structure.encode(), **changes)
        for place, (text, structure) in enumerate(zip(texts, structures, strict=True))
    ]


def candidate_of(text: str, chunk_id: str = "1:1:0", score: float = 1.0, **changes: object) -> Candidate:
    return Candidate(chunk_of(text, chunk_id, **changes), score)


def lock_of(texts: Sequence[str]) -> Lock:
    """A lock of one passage per text, each of another page."""
    return Lock(tuple(candidate_of(text, f"{page}:1:0") for page, text in enumerate(texts, start=1)))
