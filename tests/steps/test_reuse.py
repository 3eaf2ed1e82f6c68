"""Incremental steps: what is kept is what would be made again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.incremental import content_stamp, merged, page_stamp, renumbered, split_unchanged
from rag_serving.artifacts.schema import CHUNKS, PAGES, SECTIONS


def page(page_id: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAGES.columns.names, "")
    row |= {"page_id": page_id, "version": 1, "space": "ENG", "url": f"https://wiki.example/{page_id}"}
    row |= {
        "labels": [],
        "ancestors": [],
        "ancestor_titles": [],
        "position": None,
        "readers": "everyone",
        "content_hash": "one",
    }
    return row | {"updated_at": datetime(2026, 1, 1, tzinfo=UTC)} | changes


def sections_of(pages: pa.Table) -> pa.Table:
    rows: list[Any] = []
    for row in pages.to_pylist():
        for order in range(2):
            section: dict[str, Any] = dict.fromkeys(SECTIONS.columns.names, "")
            section |= {"section_id": f"{row['page_id']}:{row['version']}:s{order}", "page_id": row["page_id"]}
            section |= {"version": row["version"], "order": order, "level": 1, "text": row["content_hash"] * 2}
            section |= {"heading_path": [], "blocks": [], "content_types": [], "is_boilerplate": False}
            rows.append(section | {"content_hash": row["content_hash"]})
    return SECTIONS.table(rows)


def chunks_of(pages: pa.Table) -> pa.Table:
    rows: list[Any] = []
    for row in pages.to_pylist():
        chunk: dict[str, Any] = dict.fromkeys(set(CHUNKS.columns.names) - CHUNKS.optional, "")
        chunk |= {"chunk_id": f"{row['page_id']}:{row['version']}:0", "chunk_idx": 0, "start": 0, "end": 1}
        chunk |= {"token_count": 1, "heading_path": [], "is_boilerplate": False, "url": row["url"] + "#top"}
        carried = ("page_id", "version", "space", "labels", "readers", "updated_at", "content_hash")
        rows.append(chunk | {name: row[name] for name in carried} | {"page_readers": row["readers"]})
    return CHUNKS.table(rows)


def test_the_first_run_makes_every_page() -> None:
    reuse = split_unchanged(PAGES.table([page("1")]), SECTIONS.empty(), content_stamp)
    assert reuse.changed["page_id"].to_pylist() == ["1"]
    assert len(reuse.kept) == 0


def test_a_page_of_unchanged_content_keeps_its_sections_under_the_new_version() -> None:
    before, now = PAGES.table([page("1")]), PAGES.table([page("1", version=7)])
    reuse = split_unchanged(now, sections_of(before), content_stamp)
    kept = renumbered(reuse.kept, now)
    assert len(reuse.changed) == 0
    assert kept["section_id"].to_pylist() == ["1:7:s0", "1:7:s1"]
    assert kept["version"].to_pylist() == [7, 7]


def test_a_deleted_page_keeps_nothing_and_is_counted() -> None:
    reuse = split_unchanged(PAGES.table([page("2")]), sections_of(PAGES.table([page("1"), page("2")])), content_stamp)
    assert set(reuse.kept["page_id"].to_pylist()) == {"2"}


def test_new_readers_make_a_pages_chunks_again() -> None:
    before, now = PAGES.table([page("1")]), PAGES.table([page("1", readers="group:staff")])
    assert split_unchanged(now, chunks_of(before), page_stamp).changed["page_id"].to_pylist() == ["1"]


pages_by_id = st.dictionaries(
    st.sampled_from(["1", "2", "3"]),
    st.fixed_dictionaries(
        {
            "version": st.integers(1, 3),
            "content_hash": st.sampled_from(["one", "two"]),
            "readers": st.sampled_from(["everyone", "group:staff"]),
            "labels": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        }
    ),
)


@given(pages_by_id, pages_by_id)
def test_an_incremental_build_equals_a_full_one(before: dict[str, Any], now: dict[str, Any]) -> None:
    old = PAGES.table([page(page_id, **changes) for page_id, changes in before.items()])
    new = PAGES.table([page(page_id, **changes) for page_id, changes in now.items()])

    reuse = split_unchanged(new, sections_of(old), content_stamp)
    sections = merged(renumbered(reuse.kept, new), sections_of(reuse.changed), "order")
    assert sections.to_pylist() == merged(SECTIONS.empty(), sections_of(new), "order").to_pylist()

    reuse = split_unchanged(new, chunks_of(old), page_stamp)
    chunks = merged(reuse.kept, chunks_of(reuse.changed), "chunk_idx")
    assert chunks.to_pylist() == merged(CHUNKS.empty(), chunks_of(new), "chunk_idx").to_pylist()
