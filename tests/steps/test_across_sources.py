"""Text of a page of another source of the tenant: found on the same site alone, read by those who may read both."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shown_pages import READERS, STAFF, Words, include, page

from rag_assets.steps.chunks.chunking import DEFAULT, build_chunks
from rag_assets.steps.sections.splitting import Across, IncludingSource, build_sections, with_other_sources
from rag_serving.access.principals import Principal, satisfies
from rag_serving.artifacts.schema import PAGES


def eng(title: str, body: str, **changes: Any) -> dict[str, Any]:
    return page(title, body, source="eng") | changes


def ops(title: str, body: str, **changes: Any) -> dict[str, Any]:
    return page(title, body, source="ops", space="OPS", page_id=f"ops-{title}") | changes


def asking(*pages: dict[str, Any]) -> IncludingSource:
    rows = PAGES.table(list(pages))
    made = build_sections(rows)
    return IncludingSource(build_chunks(made.sections, rows, Words()), rows, made.missed)


def together(source: IncludingSource, *others: dict[str, Any], **more: dict[str, Any]) -> Across:
    tables = {"ops": PAGES.table(list(others)), **{key: PAGES.table([row]) for key, row in more.items()}}
    return with_other_sources(source, tables, Words(), DEFAULT, 5_000_000)


def texts(chunks: pa.Table) -> dict[str, str]:
    return {row["text"]: row["readers"] for row in chunks.to_pylist()}


OUTER = eng("Outer", f"<p>own</p>{include('Inner', 'OPS')}", readers="group:eng")


def test_text_of_another_source_is_taken_in_under_the_readers_of_both_pages() -> None:
    found = together(asking(OUTER, eng("Else", "<p>else</p>")), ops("Inner", "<p>in</p>", readers=STAFF))
    assert texts(found.chunks) == {"own": "group:eng", "else": "everyone", "in": "group:eng&group:staff"}
    assert found.resolved == 1
    first, second, third = found.chunks["chunk_id"].to_pylist()
    assert (first, second) == ("else:1:0", "outer:1:0")
    assert int(third.removeprefix("outer:1:")) >= 1 << 30  # text with fewer readers is numbered apart


def test_chunks_stay_as_they_are_where_the_other_sources_have_no_such_page() -> None:
    source = asking(OUTER)
    found = together(source, ops("Other", "<p>x</p>"))
    assert found.chunks is source.chunks
    assert found.resolved == 0


def test_a_page_that_is_found_by_way_of_one_of_its_own_source_is_taken_in_too() -> None:
    source = asking(eng("Outer", include("Near")), eng("Near", f"<p>near</p>{include('Inner', 'OPS')}"))
    assert set(source.missed) == {"outer", "near"}
    found = together(source, ops("Inner", f"<p>in</p>{include('Deep')}"), ops("Deep", "<p>deep</p>"))
    outer = {row["text"] for row in found.chunks.to_pylist() if row["page_id"] == "outer"}
    assert outer == {"near", "in", "deep"}


def test_the_sources_own_page_is_taken_rather_than_one_of_the_same_name() -> None:
    source = asking(eng("Outer", include("Inner") + include("Gone")), eng("Inner", "<p>ours</p>"))
    found = together(source, ops("Inner", "<p>theirs</p>", space="ENG"))
    assert "theirs" not in texts(found.chunks)


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([ops("Inner", "<p>in</p>", url="https://elsewhere.example/x")], False),
        ([ops("Inner", "<p>in</p>", url="https://W.example/y")], True),
    ],
)
def test_a_page_of_another_site_is_another_page(others: list[dict[str, Any]], taken: bool) -> None:
    assert ("in" in texts(together(asking(OUTER), *others).chunks)) == taken


def test_of_two_pages_of_the_same_name_in_other_sources_none_is_taken() -> None:
    twin = ops("Inner", "<p>twin</p>", source="ops2", page_id="9")
    found = together(asking(OUTER), ops("Inner", "<p>in</p>"), ops2=twin)
    assert texts(found.chunks) == {"own": "group:eng"}


WIKI = st.fixed_dictionaries(
    {title: st.tuples(st.sampled_from(READERS), st.lists(st.sampled_from("ABCD"), max_size=2)) for title in "ABCD"}
)


@given(WIKI)
def test_nobody_finds_text_of_a_page_that_he_may_not_read_in_whichever_source(wiki: dict[str, Any]) -> None:
    rows = []
    for title, (readers, shown) in wiki.items():
        body = f"<p>says {title}</p>" + "".join(include(each, "ENG" if each in "AB" else "OPS") for each in shown)
        rows.append((eng if title in "AB" else ops)(title, body, readers=readers))
    found = together(asking(*rows[:2]), *rows[2:]).chunks.to_pylist()
    for groups in ({"a"}, {"b"}, {"a", "b"}, set[str]()):
        principal = Principal("t", "u", frozenset(groups))
        for row in found:
            if satisfies(principal, row["readers"]):
                said = [title for title in wiki if f"says {title}" in row["text"]]
                assert all(satisfies(principal, wiki[title][0]) for title in said)
