"""Text of other pages: found by space and title, read only by those who may read every page on the way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shown_pages import READERS, STAFF, Words, build, excerpt, include, outcomes, page, said

from rag_assets.steps.chunks.chunking import DEFAULT, ChunkSize, build_chunks
from rag_assets.steps.incremental import update_chunks, update_sections
from rag_assets.steps.sections.splitting import build_sections
from rag_assets.steps.sections.transclusion import DEPTH_MAX, INCLUDED_MAX
from rag_serving.access.principals import EVERYONE, Principal, satisfies
from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER, PAGES, SECTIONS

OUTER = f"<p>top</p><h2>Steps</h2><p>before</p>{include('Inner')}<p>after</p><h2>End</h2><p>end</p>"


def test_an_included_page_stands_under_the_heading_and_anchor_that_show_it() -> None:
    result = build(page("Outer", OUTER), page("Inner", "<p>one</p><h3>Deep</h3><p>two</p>", readers=STAFF))
    assert said(result) == [
        (["Outer"], "Outer", "top", EVERYONE),
        (["Outer", "Steps"], "Outer-Steps", "before\n\nafter", EVERYONE),
        (["Outer", "End"], "Outer-End", "end", EVERYONE),
        (["Outer", "Steps"], "Outer-Steps", "one", STAFF),
        (["Outer", "Steps", "Deep"], "Outer-Steps", "two", STAFF),
    ]
    assert outcomes(result) == {("include", "resolved"): 1}
    ids = result.sections.filter(pa.compute.equal(result.sections["page_id"], "outer"))["included_from"].to_pylist()
    assert ids == [None, None, None, "inner", "inner"]


def test_a_chunk_of_included_text_is_read_by_those_who_may_read_both_pages() -> None:
    rows = PAGES.table([page("Outer", OUTER, readers="group:ops"), page("Inner", "<p>secret</p>", readers=STAFF)])
    chunks = build_chunks(build_sections(rows).sections, rows, Words()).to_pylist()
    readers = {chunk["text"]: chunk["readers"] for chunk in chunks if chunk["page_id"] == "outer"}
    assert readers["secret"] == "group:ops&group:staff"
    assert readers["before\n\nafter"] == "group:ops"
    assert not any("secret" in chunk["context_before"] + chunk["context_after"] for chunk in chunks)


def test_the_pages_own_rows_do_not_tell_whether_the_included_page_is_there() -> None:
    outer = page("Outer", f"<h2>Rules</h2>{include('Inner')}<h2>End</h2><p>end</p>")
    own = [row for row in build(outer).sections.to_pylist() if row["page_id"] == "outer"]
    shown = build(outer, page("Inner", "<p>text</p>", readers=STAFF)).sections.to_pylist()
    assert [row | {"content_hash": ""} for row in own] == [row | {"content_hash": ""} for row in shown[:2]]
    assert [row["text"] for row in shown] == ["Rules", "end", "text", "text"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [({}, "first"), ({"name": "two"}, "second"), ({"name": "three"}, None)],
)
def test_an_excerpt_is_the_named_or_the_first_one(asked: dict[str, str], text: str | None) -> None:
    inner = "<p>around</p>" + excerpt("first") + excerpt("second", name="two")
    result = build(page("Outer", include("Inner", macro="excerpt-include", **asked)), page("Inner", inner))
    assert [row[2] for row in said(result)] == ([text] if text else [])
    assert outcomes(result) == {("excerpt-include", "resolved" if text else "unresolved"): 1}


def test_a_multiexcerpt_is_found_by_its_name() -> None:
    inner = excerpt("shared", MultiExcerptName="list").replace('"excerpt"', '"multiexcerpt"')
    link = '<ac:link><ri:page ri:content-title="Inner"/></ac:link>'
    body = (
        '<ac:structured-macro ac:name="multiexcerpt-include"><ac:parameter ac:name="MultiExcerptName">list'
        f'</ac:parameter><ac:parameter ac:name="PageWithExcerpt">{link}</ac:parameter></ac:structured-macro>'
    )
    assert [row[2] for row in said(build(page("Outer", body), page("Inner", inner)))] == ["shared"]


def test_a_hidden_excerpt_is_text_where_it_is_shown_and_not_where_it_stands() -> None:
    inner = "<p>own</p>" + excerpt("elsewhere", hidden="true")
    result = build(page("Outer", include("Inner", macro="excerpt-include")), page("Inner", inner))
    assert [row[2] for row in said(result)] == ["elsewhere"]
    assert [row[2] for row in said(result, "inner")] == ["own"]
    assert outcomes(result, "inner") == {("excerpt", "hidden"): 1}


def test_titles_are_found_in_the_pages_own_space_first_of_all_whatever_their_case() -> None:
    pages = [page("Inner", "<p>ours</p>"), page("Inner", "<p>theirs</p>", page_id="9", space="OPS")]
    assert [row[2] for row in said(build(page("Outer", include("INNER")), *pages))] == ["ours"]
    assert [row[2] for row in said(build(page("Outer", include("Inner", "OPS")), *pages))] == ["theirs"]


def test_a_bare_title_of_older_editors_may_name_its_space() -> None:
    body = '<ac:structured-macro ac:name="include"><ac:parameter ac:name="">{}</ac:parameter></ac:structured-macro>'
    inner = page("In: ner", "<p>theirs</p>", page_id="9", space="OPS")
    assert [row[2] for row in said(build(page("Outer", body.format("OPS:In: ner")), inner))] == ["theirs"]
    assert [row[2] for row in said(build(page("Outer", body.format("In: ner"), space="OPS"), inner))] == ["theirs"]


def test_what_cannot_be_found_or_read_is_counted_and_stops_nothing() -> None:
    deep = "<ul><li>" * 80 + "x" + "</li></ul>" * 80
    body = "<p>own</p>" + include("Gone") + include("Deep") + include("Outer") + include("Inner", macro="include")
    result = build(page("Outer", body), page("Deep", deep), page("Inner", "<p>in</p>"))
    assert [row[2] for row in said(result)] == ["own", "in"]
    assert outcomes(result) == {("include", "unresolved"): 3, ("include", "resolved"): 1}


def test_readers_narrow_along_the_whole_way() -> None:
    pages = [
        page("Outer", include("A")),
        page("A", "<p>a</p>" + include("B"), readers="group:a"),
        page("B", "<p>b</p>", readers="group:b"),
    ]
    assert [(row[2], row[3]) for row in said(build(*pages))] == [("a", "group:a"), ("b", "group:a&group:b")]


def test_the_same_text_is_taken_once_for_the_same_readers() -> None:
    pages = [
        page("Outer", include("A") + include("B") + include("B")),
        page("A", "<p>a</p>" + include("B"), readers=STAFF),
        page("B", "<p>b</p>"),
    ]
    assert [(row[2], row[3]) for row in said(build(*pages))] == [("a", STAFF), ("b", STAFF), ("b", EVERYONE)]


def test_circles_and_long_chains_end() -> None:
    circle = [page("Outer", "<p>o</p>" + include("B")), page("B", "<p>b</p>" + include("Outer") + include("B"))]
    assert [row[2] for row in said(build(*circle))] == ["o", "b", "o"][:2]
    chain = [page("Outer", include("P1"))] + [page(f"P{n}", f"<p>{n}</p>" + include(f"P{n + 1}")) for n in range(1, 20)]
    assert [row[2] for row in said(build(*chain))] == [str(n) for n in range(1, DEPTH_MAX + 1)]


def test_pages_that_all_include_each_other_end_quickly() -> None:
    every = "".join(include(f"P{n}") for n in range(15))
    result = build(*(page(f"P{n}", f"<p>{n}</p>{every}") for n in range(15)))
    assert len(result.failures) == 0
    assert len(said(result, "p0")) == 15


def test_the_same_text_from_another_page_is_cited_there() -> None:
    tables: tuple[pa.Table, ...] = (SECTIONS.empty(), MACRO_LEDGER.empty(), CHUNKS.empty())
    for named in ("one", "two"):
        inner = [page(title, "<p>the same</p>", page_id=name) for title, name in (("Inner", named), ("Other", "three"))]
        tables = update(PAGES.table([page("Outer", OUTER), *inner]), *tables)
        assert set(tables[2].filter(pc.equal(tables[2]["page_id"], "outer"))["included_from"].to_pylist()) == {
            None,
            named,
        }


def test_an_include_in_a_table_cell_stands_after_the_table() -> None:
    body = f"<table><tbody><tr><td>x</td><td>{include('Inner')}</td></tr></tbody></table>"
    assert [row[2] for row in said(build(page("Outer", body), page("Inner", "<p>in</p>")))] == ["| x | |", "in"]


def update(pages: pa.Table, sections: pa.Table, ledger: pa.Table, chunks: pa.Table) -> tuple[pa.Table, ...]:
    made = update_sections(pages, sections, ledger, 5_000_000)
    return made.sections, made.ledger, update_chunks(made.sections, pages, chunks, Words(), DEFAULT).chunks


TITLES = ["P0", "P1", "P2", "P3"]
WIKI = st.fixed_dictionaries(
    {
        title: st.none()
        | st.tuples(
            st.sampled_from(["", "<p>x</p>", "<h2>H</h2><p>y</p>"]), st.lists(st.sampled_from(TITLES), max_size=2),
            st.sampled_from(READERS), st.integers(1, 2),
        )
        for title in TITLES
    }
)  # fmt: skip


def wiki(state: dict[str, Any]) -> pa.Table:
    rows = []
    for title, each in state.items():
        if each is not None:
            text, includes, readers, version = each
            body = text + f"<p>says {title}</p>" + "".join(map(include, includes))
            rows.append(page(title, body, readers=readers, version=version))
    return PAGES.table(rows)


@given(st.lists(WIKI, min_size=2, max_size=4))
def test_tables_brought_up_to_date_equal_tables_made_anew(states: list[dict[str, Any]]) -> None:
    empty: tuple[pa.Table, ...] = (SECTIONS.empty(), MACRO_LEDGER.empty(), CHUNKS.empty())
    tables = empty
    for state in states:
        tables = update(wiki(state), *tables)
        for found, anew in zip(tables, update(wiki(state), *empty), strict=True):
            assert found.equals(anew)


@given(WIKI)
def test_no_chunk_says_what_its_readers_may_not_read(state: dict[str, Any]) -> None:
    pages = wiki(state)
    chunks = update(pages, SECTIONS.empty(), MACRO_LEDGER.empty(), CHUNKS.empty())[2].to_pylist()
    readers = {row["title"]: row["readers"] for row in pages.to_pylist()}
    for groups in ({"a"}, {"b"}, {"a", "b"}, set[str]()):
        principal = Principal("t", "u", frozenset(groups))
        seen = " ".join(chunk["text"] for chunk in chunks if satisfies(principal, chunk["readers"]))
        for title, needed in readers.items():
            assert satisfies(principal, needed) or f"says {title}" not in seen


HIDDEN = st.lists(st.integers(1, 9), max_size=3)


@given(HIDDEN, HIDDEN, st.integers(1, 3))
def test_ids_tell_nobody_of_text_that_he_may_not_read(hr: list[int], ops: list[int], own: int) -> None:
    def ids(groups: set[str], **texts: list[int]) -> list[tuple[str, str]]:
        shown = [
            page(f"{group} {number}", f"<h2>Part</h2><p>{'secret ' * 12 * length}</p>", readers=f"group:{group}")
            for group, lengths in texts.items()
            for number, length in enumerate(lengths)
        ]
        before, after = (
            "".join(include(row["title"]) for row in shown if int(row["title"][-1]) % 2 == half) for half in (0, 1)
        )
        parts = [f"<h2>Own {number}</h2><p>open words {number}</p>" for number in range(own)]
        body = "".join([before, *parts, after])
        pages = PAGES.table([*shown, page("Outer", body)])
        table = build_chunks(build_sections(pages).sections, pages, Words(), ChunkSize.about(10, 0))
        assert len(set(table["chunk_id"].to_pylist())) == len(table)
        who = Principal("t", None, frozenset(groups))
        rows = [row for row in table.to_pylist() if row["page_id"] == "outer" and satisfies(who, row["readers"])]
        return sorted((row["chunk_id"], row["text"]) for row in rows)

    assert ids(set(), hr=hr, ops=ops) == ids(set())
    assert ids({"ops"}, hr=hr, ops=ops) == ids({"ops"}, ops=ops)


def test_many_pages_of_other_readers_beside_it_move_no_id() -> None:
    shown = [page(f"Of {n}", f"<p>text {n}</p>", readers=f"group:g{n}") for n in range(100)]

    def ids(*pages: dict[str, Any]) -> dict[str, str]:
        rows = PAGES.table([page("Outer", "".join(include(row["title"]) for row in shown)), *pages])
        chunks = build_chunks(build_sections(rows).sections, rows, Words()).to_pylist()
        return {row["text"]: row["chunk_id"] for row in chunks if row["page_id"] == "outer"}

    alone = {text: chunk_id for row in shown for text, chunk_id in ids(row).items()}
    assert len(alone) == 100
    assert ids(*shown) == alone


def test_a_long_page_that_one_may_not_read_leaves_no_less_room_for_others() -> None:
    outer = page("Outer", include("Long") + include("Short"))
    long = page("Long", f"<p>{'x ' * INCLUDED_MAX}</p>", readers=STAFF)
    short = page("Short", f"<p>{'y ' * (INCLUDED_MAX // 2 - 10)}</p>", readers="group:ops")
    whole, rest = (build_sections(PAGES.table(rows), 9_000_000) for rows in ([outer, long, short], [outer, short]))
    assert [row for row in said(whole) if row[3] != STAFF] == said(rest)
    assert said(rest)
