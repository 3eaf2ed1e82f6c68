"""Sections to be cut, made of atoms, and a tokenizer whose counts can be read off the text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from rag_serving.artifacts.schema import PAGES, SECTIONS


class WordTokenizer:
    """Counts words and punctuation marks, so that expectations can be read off the text."""

    name = "words"

    def offsets(self, texts: Any) -> list[Any]:
        return [
            np.array([m.span() for m in re.finditer(r"\w+|[^\w\s]", text)], dtype=np.int32).reshape(-1, 2)
            for text in texts
        ]


def section_of(atoms: list[tuple[str, str]]) -> pa.Table:
    text, blocks, previous = "", [], ""
    for kind, content in atoms:
        text += ("\n" if kind == previous and kind in ("list", "table") else "\n\n") if text else ""
        blocks.append({"kind": kind, "start": len(text), "end": len(text) + len(content)})
        text, previous = text + content, kind
    row = {
        "section_id": "7:3:s0", "page_id": "7", "version": 3, "order": 0, "level": 2, "heading": "Rolling back",
        "heading_path": ["Deploy guide", "Rolling back"], "anchor": "Rolling-back?", "anchor_rule": "cloud",
        "text": text, "blocks": blocks, "content_types": [], "is_boilerplate": False, "content_hash": "h",
        "also_readers": "everyone", "included_from": None, "links": [], "anchors": [],
    }  # fmt: skip
    return SECTIONS.table([row])


def page() -> pa.Table:
    row: dict[str, Any] = dict.fromkeys(PAGES.columns.names, "")
    row |= {"page_id": "7", "version": 3, "title": "Deploy guide", "url": "https://w.example/p/7", "updated_at": None}
    return PAGES.table(
        [row | {"labels": ["howto"], "ancestors": [], "ancestor_titles": [], "position": None, "readers": "group:ops"}]
    )
