"""Tables of one reader made by hand: pages with facts, passages of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from rag_serving.records.sets import SetTables
from rag_serving.text.structure import Structure
from rag_serving.text.units import units

_STRING, _STRINGS = pa.string(), pa.list_(pa.string())
PAGES = pa.schema(
    [
        ("page_id", _STRING), ("version", pa.int32()), ("title", _STRING), ("space", _STRING),
        ("space_name", _STRING), ("url", _STRING),
        ("status", _STRING), ("updated_at", pa.timestamp("ms", tz="UTC")), ("labels", _STRINGS),
        ("ancestors", _STRINGS), ("ancestor_titles", _STRINGS), ("author", _STRING), ("source", _STRING),
        ("kind", _STRING), ("category", _STRING), ("lang", _STRING), ("words", pa.int32()),
        ("links", pa.list_(pa.struct([("page_id", _STRING), ("url", _STRING)]))),
    ]
)  # fmt: skip
TEXTS = pa.schema(
    [
        ("chunk_id", _STRING), ("page_id", _STRING), ("version", pa.int32()), ("chunk_idx", pa.int32()),
        ("space", _STRING), ("title", _STRING), ("heading_path", _STRINGS), ("anchor", _STRING), ("url", _STRING),
        ("text", _STRING), ("structure", _STRING), ("kind", _STRING),
    ]
)  # fmt: skip


class Piece(NamedTuple):
    """The text of a passage under its headings below the title; `header` is that of a table which it begins inside."""

    text: str
    headings: tuple[str, ...] = ()
    header: str = ""


def page_facts(page_id: str, **given: Any) -> dict[str, Any]:
    """Return the facts of a page, with those that are given."""
    usual = {
        "version": 1, "title": f"Page {page_id}", "space": "OPS", "space_name": "Operations",
        "url": f"https://wiki.example/{page_id}",
        "status": "current", "updated_at": datetime(2026, 2, 9, tzinfo=UTC), "labels": [], "ancestors": [],
        "ancestor_titles": [], "author": None, "source": "ops", "kind": "page", "category": None, "lang": "en",
        "words": 100, "links": [],
    }  # fmt: skip
    return {"page_id": page_id, **usual, **given}


def passages(page: Mapping[str, Any], pieces: Iterable[Piece | str]) -> list[dict[str, Any]]:
    """Return the rows of the passages of a page."""
    rows = []
    for place, piece in enumerate(piece if isinstance(piece, Piece) else Piece(piece) for piece in pieces):
        path = [page["title"], *piece.headings]
        anchor = "-".join(path[-1].split())
        structure = Structure(tuple(units(piece.text)), piece.header)
        rows.append(
            {
                "chunk_id": f"{page['page_id']}:{page['version']}:{place}", "chunk_idx": place, "heading_path": path,
                "anchor": anchor, "url": f"{page['url']}#{anchor}", "text": piece.text, "kind": page["kind"],
                "structure": structure.encode(), **{n: page[n] for n in ("page_id", "version", "space", "title")},
            }
        )  # fmt: skip
    return rows


def set_tables(pages: Mapping[str, Sequence[Piece | str]], **facts: Mapping[str, Any]) -> SetTables:
    """Return the tables of some pages by id with their passages; `facts` of a page by its id."""
    known = [page_facts(page, **facts.get(page, {})) for page in sorted(pages)]
    texts = [row for page in known for row in passages(page, pages[page["page_id"]])]
    return SetTables(
        pa.Table.from_pylist(known, schema=PAGES), pa.Table.from_pylist(texts, schema=TEXTS), frozenset({"everyone"})
    )
