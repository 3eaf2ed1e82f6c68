"""Pages split at their headings: paths, anchors, what becomes a row, and what no page can break."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.section_pages import page, sections

from rag_assets.steps.sections.splitting import PageError, build_sections
from rag_serving.artifacts.schema import MACRO_LEDGER, PAGES, SECTIONS


def outline(body: str) -> list[tuple[int, list[str], str]]:
    return [(row["level"], row["heading_path"], row["text"]) for row in sections(body)]


def test_sections_carry_the_headings_above_them() -> None:
    body = "<p>top</p><h1>A</h1><p>a</p><h2>B</h2><p>b</p><h3>C</h3><p>c</p><h2>D</h2><p>d</p><h1>E</h1><p>e</p>"
    assert outline(body) == [
        (0, ["My Page"], "top"),
        (1, ["My Page", "A"], "a"),
        (2, ["My Page", "A", "B"], "b"),
        (3, ["My Page", "A", "B", "C"], "c"),
        (2, ["My Page", "A", "D"], "d"),
        (1, ["My Page", "E"], "e"),
    ]


def test_a_skipped_level_is_no_matter() -> None:
    body = "<h3>A</h3><p>a</p><h2>B</h2><p>b</p><h4>C</h4><p>c</p>"
    assert [row["heading_path"][1:] for row in sections(body)] == [["A"], ["B"], ["B", "C"]]


def test_a_heading_that_is_the_title_again_stands_in_the_path_once() -> None:
    body = "<h1>My Page</h1><p>One.</p><h2>My Page</h2><p>Two.</p><h1>Other</h1><h2>My Page</h2><p>Three.</p>"
    paths = [["My Page"], ["My Page", "My Page"], ["My Page", "Other", "My Page"]]
    assert [row["heading_path"] for row in sections(body)] == paths


def test_rows_have_ids_order_and_the_pages_hash() -> None:
    rows = sections("<p>x</p><h2>A</h2><p>y</p>")
    assert [(row["section_id"], row["order"], row["content_hash"]) for row in rows] == [
        ("7:3:s0", 0, "h"),
        ("7:3:s1", 1, "h"),
    ]


def test_a_heading_directly_above_a_deeper_one_makes_no_row_but_stands_in_its_path() -> None:
    assert outline("<h1>A</h1><h2>B</h2><p>b</p>") == [(2, ["My Page", "A", "B"], "b")]


def test_a_heading_with_nothing_below_is_its_own_text() -> None:
    row = sections("<h1>A</h1><h1>B</h1><p>b</p>")[0]
    assert row["text"] == "A"
    assert [(block["kind"], block["start"], block["end"]) for block in row["blocks"]] == [("heading", 0, 1)]
    assert row["is_boilerplate"]


def test_an_empty_heading_splits_nothing() -> None:
    assert outline("<p>a</p><h1> <br/> </h1><p>b</p>") == [(0, ["My Page"], "a\n\nb")]


@pytest.mark.parametrize(
    "around",
    [
        "<div><div>{}</div></div>",
        "<ac:layout><ac:layout-section><ac:layout-cell>{}</ac:layout-cell></ac:layout-section></ac:layout>",
        '<ac:structured-macro ac:name="expand"><ac:rich-text-body>{}</ac:rich-text-body></ac:structured-macro>',
        '<ac:structured-macro ac:name="panel"><ac:rich-text-body>{}</ac:rich-text-body></ac:structured-macro>',
        '<ac:structured-macro ac:name="column"><ac:rich-text-body>{}</ac:rich-text-body></ac:structured-macro>',
    ],
)
def test_headings_split_inside_containers(around: str) -> None:
    rows = sections(around.format("<h2>A</h2><p>a</p>") + "<h2>B</h2><p>b</p>")
    assert [row["anchor"] for row in rows] == ["A", "B"]


def test_a_heading_in_a_table_cell_is_text_and_takes_its_anchor() -> None:
    rows = sections("<table><tbody><tr><td><h2>A</h2><p>a</p></td></tr></tbody></table><h2>A</h2><p>b</p>")
    assert [(row["text"], row["anchor"]) for row in rows] == [("| A a |", "My-Page"), ("b", "A.1")]


def test_macros_and_emphasis_in_a_heading() -> None:
    anchor = '<ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">mark</ac:parameter></ac:structured-macro>'
    row = sections(f"<h2>{anchor}<strong>The</strong>&nbsp;<code>x()</code> call<br/></h2><p>a</p>")[0]
    assert (row["heading"], row["anchor"], row["anchor_rule"]) == ("The x() call", "The-x()-call", "cloud")


def test_an_image_in_a_heading_is_no_part_of_its_anchor() -> None:
    row = sections('<h2><ac:image><ri:attachment ri:filename="flow.png"/></ac:image> Flow</h2><p>a</p>')[0]
    assert (row["heading"], row["anchor"]) == ("Flow", "Flow")


def test_content_types_are_listed_once_in_order() -> None:
    body = "<p>a</p><ul><li>b</li></ul><p>c</p><pre>d</pre><table><tbody><tr><td>e</td></tr></tbody></table>"
    row = sections(body)[0]
    assert row["content_types"] == ["paragraph", "list", "code", "table"]
    assert [row["text"][b["start"] : b["end"]] for b in row["blocks"]] == ["a", "- b", "c", "```\nd\n```", "| e |"]


def test_an_unknown_format_or_flavor_is_named() -> None:
    with pytest.raises(PageError, match=r"'wiki'.*storage"):
        sections("x", body_format="wiki")
    with pytest.raises(PageError, match=r"'moon'.*cloud, datacenter"):
        sections("x", anchor_flavor="moon")


def test_one_bad_page_stops_no_other() -> None:
    deep = "<ul><li>" * 80 + "x" + "</li></ul>" * 80
    rows = [
        page("<p>a</p>", page_id="1"),
        page(deep, page_id="2"),
        page("x" * 2_000, page_id="3"),
        page(None, page_id="4"),
    ]
    result = build_sections(PAGES.table([*rows, page("<p>b</p>", page_id="5")]), max_page_bytes=1_500)
    assert result.sections["page_id"].to_pylist() == ["1", "5"]
    assert [page_id for page_id, _ in result.failures] == ["2", "3", "4"]
    assert [reason.split(";")[0] for _, reason in result.failures] == [
        "lists, tables and macros are nested more than 60 deep",
        "the body is larger than 1500 bytes",
        "the page has no body",
    ]


def test_tables_have_the_documented_schemas_even_when_empty() -> None:
    result = build_sections(PAGES.empty())
    assert isinstance(result.sections, pa.Table)
    assert result.sections.schema.equals(SECTIONS.arrow, check_metadata=True)
    assert result.ledger.schema.equals(MACRO_LEDGER.arrow, check_metadata=True)


# Random documents: text of letters that tell where they came from, code with all that is awkward in code.

STATUS = '<ac:structured-macro ac:name="status"><ac:parameter ac:name="title">OK</ac:parameter></ac:structured-macro>'
WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta&nbsp;x", "a &lt; b", "é", "|", "- "]), min_size=1, max_size=4
)
CODE = st.text(st.sampled_from(list("ab <>&|`\t\n]\u00a0")), min_size=1, max_size=30)
INLINE = st.recursive(
    WORDS.map(" ".join),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["strong", "em", "span", "code", "a"]), inner).map(
            lambda t: f"<{t[0]}>{t[1]}</{t[0]}>"
        ),
        st.lists(inner, max_size=3).map("<br/>".join),
        inner.map(lambda i: f'<ac:link><ri:page ri:content-title="P"/><ac:link-body>{i}</ac:link-body></ac:link>'),
        st.just(STATUS),
        st.just('<ac:image><ri:attachment ri:filename="flow.png"/></ac:image>'),
    ),
    max_leaves=6,
)


def code_macro(body: str) -> str:
    cdata = body.replace("]]>", "]]]]><![CDATA[>")
    parameter = '<ac:parameter ac:name="theme">HIDDENVALUE</ac:parameter>'
    return (
        f'<ac:structured-macro ac:name="code">{parameter}<ac:plain-text-body><![CDATA[{cdata}]]></ac:plain-text-body>'
        "</ac:structured-macro>"
    )


def rich_macro(name: str, body: str) -> str:
    return (
        f'<ac:structured-macro ac:name="{name}"><ac:parameter ac:name="x">HIDDENVALUE</ac:parameter>'
        f"<ac:rich-text-body>{body}</ac:rich-text-body></ac:structured-macro>"
    )


def cells(values: list[str]) -> str:
    row = "".join(f'<td colspan="{n % 3}" rowspan="{n % 2 + 1}">{value}</td>' for n, value in enumerate(values))
    return f"<table><tbody><tr>{row}</tr><tr><th>end</th></tr></tbody></table>"


BLOCKS = st.recursive(
    st.one_of(
        INLINE.map(lambda i: f"<p>{i}</p>"),
        INLINE,
        CODE.map(code_macro),
        st.tuples(st.integers(1, 6), INLINE).map(lambda t: f"<h{t[0]}>{t[1]}</h{t[0]}>"),
        WORDS.map(lambda w: f"<pre>{' '.join(w)}</pre>"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.tuples(st.sampled_from(["ul", "ol"]), st.lists(inner, max_size=3)).map(
            lambda t: f"<{t[0]}>" + "".join(f"<li>{item}</li>" for item in t[1]) + f"</{t[0]}>"
        ),
        st.lists(inner, min_size=1, max_size=3).map(cells),
        st.tuples(st.sampled_from(["info", "expand", "details", "unknown"]), inner).map(lambda t: rich_macro(*t)),
        st.tuples(st.sampled_from(["div", "blockquote", "ac:layout"]), inner).map(lambda t: f"<{t[0]}>{t[1]}</{t[0]}>"),
        inner.map(lambda i: f"<ac:task-list><ac:task><ac:task-body>{i}</ac:task-body></ac:task></ac:task-list>"),
    ),
    max_leaves=12,
)
RESIDUE = re.compile(r"</?(?:ac|ri):|CDATA|-text-body|HIDDENVALUE")
CODE_BODY = re.compile(r"<ac:plain-text-body><!\[CDATA\[(.*?)\]\]></ac:plain-text-body>", re.DOTALL)


def check(rows: list[dict[str, Any]]) -> None:
    """Atoms in order cover all but white space; every section can be linked to; nothing of the markup is left."""
    for row in rows:
        position, text = 0, row["text"]
        for atom in row["blocks"]:
            assert not text[position : atom["start"]].strip()
            assert text[atom["start"] : atom["end"]].strip()
            position = atom["end"]
        assert position == len(text)
        assert row["anchor"]
        assert not RESIDUE.search(text)
    assert len({row["anchor"] for row in rows}) == len(rows)


@given(BLOCKS)
def test_any_document_is_read_whole(body: str) -> None:
    rows = sections(body, anchor_flavor="datacenter")
    check(rows)
    assert rows == sections(body, anchor_flavor="datacenter")
    for match in CODE_BODY.finditer(body):
        code = match[1].replace("]]]]><![CDATA[>", "]]>")
        assert not code.strip() or any(code in row["text"] for row in rows)


@given(BLOCKS, st.floats(0, 1))
def test_a_document_that_breaks_off_anywhere_leaves_no_residue(body: str, where: float) -> None:
    with contextlib.suppress(PageError):
        check(sections(body[: int(len(body) * where)]))


MUTATIONS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 20),
        st.sampled_from(["", "<", ">", "&", "]]>", "<![CDATA[", "</p>", "\x00", "<!--"]),
    ),
    min_size=1,
    max_size=4,
)


@given(BLOCKS, MUTATIONS)
def test_a_damaged_document_is_read_or_refused(body: str, mutations: list[tuple[float, int, str]]) -> None:
    for where, length, new in mutations:
        start = int(len(body) * where)
        body = body[:start] + new + body[start + length :]
    with contextlib.suppress(PageError):
        for row in sections(body):
            assert row["anchor"]


@given(st.text(st.sampled_from(list("<>/&;![]CDATAac:rip-='\" \n\x00\u200b")), max_size=80))
def test_rubble_is_read_or_refused(body: str) -> None:
    with contextlib.suppress(PageError):
        sections(body)
