"""Lists of pages, where a source asks for them: children and page properties reports, for each reader his own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.macro_bodies import macro
from support.shown_pages import STAFF, Words, excerpt, outcomes, page, said

from rag_assets.steps.chunks.chunking import DEFAULT
from rag_assets.steps.incremental import update_chunks, update_sections
from rag_assets.steps.sections.splitting import SectionsResult, build_sections
from rag_serving.access.principals import EVERYONE, Principal, satisfies
from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER, PAGES, SECTIONS

REAL = sorted((Path(__file__).parents[3] / "shared" / "data" / "cwiki").glob("*/*.json"))


def build(*pages: dict[str, Any]) -> SectionsResult:
    rows = PAGES.table(list(pages))
    return build_sections(rows, listed=rows)


def below(title: str, *ancestors: str, **changes: Any) -> dict[str, Any]:
    return page(title, changes.pop("body", ""), ancestors=list(ancestors), position=None, status="current") | changes


def children(**parameters: str) -> dict[str, Any]:
    return below("Outer", body=f"<p>own</p><h2>Below</h2>{macro('children', **parameters)}")


def shown(result: SectionsResult) -> list[str]:
    return [text for _, _, text, _ in said(result) if text not in ("own", "Below")]


TREE = [
    below("B 10", "outer"),
    below("b 9", "outer"),
    below("A", "outer", body="<p>x</p>" + excerpt("in short")),
    below("Deep", "outer", "a"),
    below("Deeper", "outer", "a", "deep"),
]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "- A\n- b 9\n- B 10"),
        ({"reverse": "true"}, "- B 10\n- b 9\n- A"),
        ({"all": "true"}, "- A\n  - Deep\n    - Deeper\n- b 9\n- B 10"),
        ({"depth": "2"}, "- A\n  - Deep\n- b 9\n- B 10"),
        ({"excerptType": "simple"}, "- A: in short\n- b 9\n- B 10"),
        ({"page": "A"}, "- Deep"),
        ({"page": "/"}, "- Outer"),
        ({"page": "@home", "sort": "title"}, "- A\n- b 9\n- B 10"),
        ({"page": "ENG:"}, "- Outer"),
        ({"first": "2"}, "- A\n- b 9"),
        ({"first": "1", "reverse": "true"}, "- B 10"),
        ({"first": "1", "all": "true"}, "- A\n  - Deep\n    - Deeper"),
        ({"first": "0"}, "- A\n- b 9\n- B 10"),
    ],
)
def test_children_are_listed_as_the_macro_asks(parameters: dict[str, str], text: str) -> None:
    result = build(children(**parameters), *TREE)
    assert shown(result) == [text]
    assert outcomes(result) == {("children", "resolved"): 1}


@given(st.lists(st.sampled_from(["everyone", "group:a", "group:b", "group:a&group:b"]), max_size=6), st.integers(1, 3))
def test_the_first_children_are_never_fewer_than_the_site_shows_and_none_that_may_not_be_read(
    readers: list[str], first: int
) -> None:
    pages = [below(f"C{number}", "outer", readers=each) for number, each in enumerate(readers)]
    found = said(build(children(first=str(first)), *pages))
    for groups in ({"a"}, {"b"}, {"a", "b"}, set[str]()):
        principal = Principal("t", "u", frozenset(groups))
        mine = [f"C{number}" for number, each in enumerate(readers) if satisfies(principal, each)]
        lines = [line for _, _, text, each in found if satisfies(principal, each) for line in text.split("\n")]
        seen = {line.removeprefix("- ") for line in lines if line.startswith("- ")}
        assert set(mine[:first]) <= seen <= set(mine)
    classes = {each: sum(one == each for one in readers) for each in readers}
    assert all(text.count("- C") <= min(first, classes.get(each, first)) for _, _, text, each in found)


def test_a_list_stands_under_the_heading_and_anchor_that_show_it() -> None:
    assert said(build(children(), *TREE))[-1] == (["Outer", "Below"], "Outer-Below", "- A\n- b 9\n- B 10", EVERYONE)


def test_children_stand_as_someone_arranged_them_and_archived_ones_are_left_out() -> None:
    pages = [below("A", "outer", position=9), below("B", "outer", position=3), below("C", "outer", status="archived")]
    assert shown(build(children(), *pages)) == ["- B\n- A"]
    newest = [
        below(title, "outer", updated_at=datetime(2026, 1, day, tzinfo=UTC)) for title, day in (("A", 2), ("B", 1))
    ]
    assert shown(build(children(sort="modified"), *newest)) == ["- B\n- A"]


def test_blog_posts_are_no_pages_at_the_top_of_a_space() -> None:
    post = below("News", url="https://w.example/display/ENG/2026/01/02/News")
    assert shown(build(children(page="/"), post)) == ["- Outer"]


def test_a_list_without_pages_is_resolved_and_says_nothing() -> None:
    result = build(children())
    assert shown(result) == []
    assert outcomes(result) == {("children", "resolved"): 1}


@pytest.mark.parametrize(
    "body",
    [
        macro("children", page="Gone"),
        macro("children", depth="some"),
        macro("detailssummary"),
        macro("detailssummary", cql="creator = currentUser()"),
        macro("detailssummary", label="x", spaces="@global"),
    ],
)
def test_a_list_that_asks_for_more_than_is_read_is_dropped_as_navigation(body: str) -> None:
    result = build(below("Outer", body=body), *TREE)
    assert said(result) == []
    assert [outcome for _, outcome in outcomes(result)] == ["navigation"]


def test_lists_stay_away_where_nobody_asked_for_them() -> None:
    result = build_sections(PAGES.table([children(), *TREE]))
    assert shown(result) == []
    assert outcomes(result) == {("children", "navigation"): 1}


def details(*pairs: tuple[str, str], **parameters: str) -> str:
    rows = "".join(f"<tr><th>{key}</th><td><p>{value}</p></td></tr>" for key, value in pairs)
    return macro("details", f"<table><tbody>{rows}</tbody></table>", **parameters)


def report(**parameters: str) -> dict[str, Any]:
    return below("Outer", body=macro("detailssummary", **parameters))


KIPS = [
    below("KIP-10", body=details(("Release", "3.0"), ("JIRA", macro("jira", key="K-1"))), labels=["accepted"]),
    below("KIP-9", body=details(("Release", "4.0"), ("State", "done")), labels=["Accepted"]),
    below("No properties", body="<p>Release 5.0</p>", labels=["accepted"]),
    below("Other", body=details(("Release", "6.0")), labels=["rejected"]),
]
CQL = "label = &quot;accepted&quot; and space = currentSpace()"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"cql": CQL, "headings": "release,JIRA", "sortBy": "Title"},
            "| Title | release | JIRA |\n|---|---|---|\n| KIP-9 | 4.0 | |\n| KIP-10 | 3.0 | K-1 |",
        ),
        (
            {"cql": CQL, "headings": "Release", "sortBy": "Release", "firstcolumn": "KIP"},
            "| KIP | Release |\n|---|---|\n| KIP-10 | 3.0 |\n| KIP-9 | 4.0 |",
        ),
        (
            {"label": "accepted", "headings": "State", "reverseSort": "true"},
            "| Title | State |\n|---|---|\n| KIP-10 | |\n| KIP-9 | done |",
        ),
        ({"label": "rejected, none"}, "| Title | Release |\n|---|---|\n| Other | 6.0 |"),
        ({"label": "accepted", "spaces": "OPS"}, ""),
    ],
)
def test_a_report_shows_the_properties_of_the_pages_that_it_asks_for(parameters: dict[str, str], text: str) -> None:
    result = build(report(**parameters), *KIPS)
    assert "".join(shown(result)) == text
    assert outcomes(result) == {("detailssummary", "resolved"): 1}


def test_hidden_properties_stand_in_reports_and_not_on_their_own_page() -> None:
    one = below("One", body="<p>Text.</p>" + details(("A", macro("status", title="DONE")), hidden="true"), labels=["x"])
    found = build(report(label="x"), one)
    assert found.sections["text"].to_pylist() == ["| Title | A |\n|---|---|\n| One | DONE |", "Text."]
    ledger = {(row["macro"], row["outcome"]) for row in found.ledger.to_pylist()}
    assert ledger == {("detailssummary", "resolved"), ("details", "hidden"), ("status", "hidden")}


def test_properties_are_told_apart_by_their_id_and_may_stand_in_the_first_row() -> None:
    across = "<table><tbody><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></tbody></table>"
    one = below("One", body=details(("A", "0"), id="first") + macro("details", across, id="second"), labels=["x"])
    assert shown(build(report(label="x", id="second"), one)) == ["| Title | A | B |\n|---|---|---|\n| One | 1 | 2 |"]


def test_who_may_not_read_a_page_finds_neither_its_row_nor_a_column_of_it() -> None:
    hidden = below("KIP-1", body=details(("Secret", "1")), labels=["accepted"], readers=STAFF)
    found = {readers: text for _, _, text, readers in said(build(report(label="accepted"), hidden, *KIPS))}
    assert found[STAFF] == "| Title | Secret |\n|---|---|\n| KIP-1 | 1 |"
    assert "KIP-1 " not in found[EVERYONE]
    assert "Secret" not in found[EVERYONE]


def test_a_page_below_a_restricted_one_is_set_in_only_below_those_in_the_same_list() -> None:
    pages = [below("A", "outer", readers=STAFF), below("Deep", "outer", "a", readers=STAFF), below("Z", "outer")]
    found = {readers: text for _, _, text, readers in said(build(children(all="true"), *pages)) if text != "own"}
    assert found[STAFF] == "- A\n  - Deep"
    assert found[EVERYONE] == "- Z"


READERS = ["everyone", "group:a", "group:b", "group:a&group:b", "nobody"]
WIKI = st.fixed_dictionaries(
    {
        title: st.none() | st.tuples(st.sampled_from([(), ("outer",), ("outer", "p0")]), st.sampled_from(READERS))
        for title in ("P0", "P1", "P2")
    }
)
LISTS = macro("children", all="true", excerptType="simple") + macro("detailssummary", cql=CQL)


def wiki(state: dict[str, Any], readers: str) -> pa.Table:
    rows = [below("Outer", body=f"<p>own</p>{LISTS}", readers=readers)]
    for title, each in state.items():
        if each is not None:
            ancestors, narrower = each
            body = details((f"key{title}", f"says {title}")) + excerpt(f"tells {title}")
            rows.append(below(title, *ancestors, body=body, readers=narrower, labels=["accepted"]))
    return PAGES.table(rows)


def update(pages: pa.Table, sections: pa.Table, ledger: pa.Table, chunks: pa.Table) -> tuple[pa.Table, ...]:
    made = update_sections(pages, sections, ledger, 5_000_000, pages)
    return made.sections, made.ledger, update_chunks(made.sections, pages, chunks, Words(), DEFAULT).chunks


EMPTY = (SECTIONS.empty(), MACRO_LEDGER.empty(), CHUNKS.empty())


@given(st.lists(st.tuples(WIKI, st.sampled_from(READERS)), min_size=2, max_size=3))
def test_lists_brought_up_to_date_equal_lists_made_anew(states: list[tuple[dict[str, Any], str]]) -> None:
    tables: tuple[pa.Table, ...] = EMPTY
    for state in states:
        tables = update(wiki(*state), *tables)
        for found, anew in zip(tables, update(wiki(*state), *EMPTY), strict=True):
            assert found.equals(anew)


def is_below(row: dict[str, Any], rows: dict[str, Any]) -> bool:
    above = row["ancestors"]
    return above == ["outer"] or (len(above) == 2 and "P0" in rows and rows["P0"]["ancestors"] == ["outer"])


@given(WIKI, st.sampled_from(READERS))
def test_each_reader_of_a_list_finds_all_that_he_may_read_and_nothing_else(state: dict[str, Any], outer: str) -> None:
    pages = wiki(state, outer)
    chunks = update(pages, *EMPTY)[2].to_pylist()
    rows = {row["title"]: row for row in pages.to_pylist() if row["title"] != "Outer"}
    for groups in ({"a"}, {"b"}, {"a", "b"}, set[str]()):
        principal = Principal("t", "u", frozenset(groups))
        seen = " ".join(
            chunk["text"] for chunk in chunks if chunk["page_id"] == "outer" and satisfies(principal, chunk["readers"])
        )
        for title, row in rows.items():
            may = satisfies(principal, row["readers"]) and satisfies(principal, outer)
            assert (f"says {title}" in seen) == may
            assert (f"key{title}" in seen) == may
            assert (f"tells {title}" in seen) == (may and is_below(row, rows))


@pytest.mark.skipif(not REAL, reason="the real pages at ../shared/data/cwiki are absent")
def test_every_list_of_the_real_pages_is_resolved() -> None:
    rows = []
    for file in REAL:
        told = json.loads(file.read_text())
        body = told["body"]["storage"]["value"]
        row = below(told["title"], *(str(one["id"]) for one in told["ancestors"]), body=body, page_id=told["id"])
        labels = [label["name"] for label in told["metadata"]["labels"]["results"]]
        rows.append(row | {"space": told["space"]["key"], "labels": labels})
    found = build(*rows).ledger.to_pylist()
    counts = {(row["macro"], row["outcome"]) for row in found if row["macro"] in ("children", "detailssummary")}
    assert counts == {("children", "resolved"), ("detailssummary", "resolved")}


def test_lists_of_one_page_show_no_more_than_it_may_include() -> None:
    long = [below(f"L{n}", "outer", body=excerpt("w" * 400_000)) for n in range(9)]
    outer = below("Outer", body=macro("children", excerptType="simple") * 3 + "<h2>Below</h2>")
    listed = "\n".join(text for text in shown(build(outer, *long)) if text.startswith("- L"))
    assert 800_000 < len(listed) < 1_100_000
    assert listed.startswith("- L0: www")


def test_a_report_has_only_so_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assets.steps.sections.page_lists.CELLS_MAX", 8)
    rows = "".join(f"<tr><th>key {n}</th><td>value {n}</td></tr>" for n in range(9))
    details = f'<ac:structured-macro ac:name="details"><ac:rich-text-body><table>{rows}</table></ac:rich-text-body>'
    pages = [below(f"P{n}", body=f"{details}</ac:structured-macro>", labels=["x"]) for n in range(2)]
    [text] = shown(build(below("Outer", body=macro("detailssummary", label="x")), *pages))[-1:]
    assert text.splitlines()[0] == "| Title | key 0 | key 1 | key 2 | key 3 |"
