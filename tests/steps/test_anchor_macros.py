"""Anchor macros outside headings: links by their names lead to the text that stands below them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.section_pages import page, sections

from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.sections.anchors import anchor_figures, landings
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.artifacts.schema import PAGES
from rag_serving.config.loading import Config
from rag_serving.models.embedding.factory import open_tokenizer


def anchor(name: str) -> str:
    return f'<ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">{name}</ac:parameter></ac:structured-macro>'


def named(body: str, **changes: Any) -> list[tuple[str, list[str]]]:
    return [(row["heading"], [one["name"] for one in row["anchors"]]) for row in sections(body, **changes)]


PLACES = {
    "paragraph": "<p>{} limits</p>",
    "alone": "<p>{}</p><p>limits</p>",
    "list item": "<ul><li>{}limits</li></ul>",
    "nested item": "<ul><li>limits<ul><li>{} in</li></ul></li></ul>",
    "cell": "<table><tbody><tr><td>{}limits</td><td>9</td></tr></tbody></table>",
    "quote": "<blockquote><p>{}limits</p></blockquote>",
    "panel": '<ac:structured-macro ac:name="info"><ac:rich-text-body><p>{}limits</p></ac:rich-text-body>'
    "</ac:structured-macro>",
    "task": "<ac:task-list><ac:task><ac:task-status>complete</ac:task-status><ac:task-body>{}limits</ac:task-body>"
    "</ac:task></ac:task-list>",
    "link": '<p><ac:link><ri:page ri:content-title="A"/><ac:link-body>{}limits</ac:link-body></ac:link></p>',
    "code": "<pre>{}limits</pre>",
}


@pytest.mark.parametrize("place", PLACES)
def test_an_anchor_leads_to_the_section_it_stands_in_wherever_that_is(place: str) -> None:
    body = f"<h1>Above</h1><p>Text.</p><h1>Here</h1>{PLACES[place].format(anchor('max'))}<h1>Below</h1><p>Text.</p>"
    assert named(body) == [("Above", []), ("Here", ["max"]), ("Below", [])]
    without = f"<h1>Above</h1><p>Text.</p><h1>Here</h1>{PLACES[place].format('')}<h1>Below</h1><p>Text.</p>"
    assert [row["text"] for row in sections(body)] == [row["text"] for row in sections(without)]


def test_an_anchor_right_above_a_heading_leads_to_that_heading() -> None:
    assert named(f"<p>Intro.</p><p>{anchor('max')}</p><h2>Limits</h2><p>Text.</p>") == [
        ("My Page", []),
        ("Limits", ["max"]),
    ]


def test_a_link_to_a_heading_without_text_leads_to_what_stands_below_it() -> None:
    body = f"<h1>{anchor('a')}A</h1><p>{anchor('b')}</p><h2>B</h2><p>Text.</p><h1>C</h1>"
    assert named(body) == [("B", ["A", "a", "b"]), ("C", [])]


@pytest.mark.parametrize(("flavor", "name"), [("cloud", "max size"), ("datacenter", "MyPage-maxsize")])
def test_the_id_is_that_of_the_site(flavor: str, name: str) -> None:
    (row,) = sections(f"<p>{anchor('max size')}Text.</p>", anchor_flavor=flavor)
    assert row["anchors"] == [{"name": name, "rule": f"{flavor}-macro"}]


def test_a_heading_keeps_its_own_anchor_beside_that_of_a_macro_in_it() -> None:
    (row,) = sections(f"<h1>{anchor('max')}Limits</h1><p>Text.</p>")
    assert (row["anchor"], [one["name"] for one in row["anchors"]]) == ("Limits", ["max"])


def test_a_heading_in_a_cell_and_one_that_is_only_an_anchor_lead_to_their_place() -> None:
    body = f"<p>Text.</p><h2>{anchor('max')}</h2><table><tbody><tr><td><h3>Limits</h3>9</td></tr></tbody></table>"
    assert named(body) == [("My Page", ["max", "Limits"])]


def test_text_below_an_anchor_still_links_to_its_heading() -> None:
    body = f"<h1>Limits</h1><p>Some text.</p><p>{anchor('max')}At most nine.</p>"
    rows = PAGES.table([page(body, url="https://w.example/1", labels=[], ancestors=[], readers="everyone")])
    chunks = build_chunks(build_sections(rows).sections, rows, open_tokenizer(Config().embedding))
    assert set(chunks["url"].to_pylist()) == {"https://w.example/1#Limits"}


def test_an_anchor_counts_as_valid_unless_another_section_has_it_too() -> None:
    body = f"<p>{anchor('a')}Text.</p><h1>{anchor('B')}B</h1><p>{anchor('c')}Text.</p><h1>C</h1><p>{anchor('c')}x</p>"
    figures = anchor_figures(build_sections(PAGES.table([page(body)])).sections)
    assert (figures.anchors, figures.repeated, figures.valid) == (6, 2, 4)
    assert figures.rules == {"cloud-macro": 3, "cloud": 2, "cloud-title": 1}


def test_an_included_page_brings_no_anchor_to_the_page_that_shows_it() -> None:
    include = (
        '<ac:structured-macro ac:name="include"><ac:parameter ac:name=""><ac:link><ri:page ri:content-title="Other"/>'
        "</ac:link></ac:parameter></ac:structured-macro>"
    )
    other = page(f"<p>{anchor('max')}Shown.</p>", page_id="8", title="Other", readers="everyone", space="ENG")
    mine = page(f"<p>Mine.</p>{include}", readers="everyone", space="ENG")
    found = build_sections(PAGES.table([mine, other])).sections.to_pylist()
    assert [(row["text"], len(row["anchors"])) for row in found] == [("Mine.", 0), ("Shown.", 0), ("Shown.", 1)]


# Where links land


def landed(*pages: dict[str, Any]) -> list[tuple[str, str | None]]:
    """(words of the link, heading that it leads to) of every link to an anchor."""
    rows = PAGES.table(list(pages))
    found = build_sections(rows).sections
    headings: dict[str | None, str] = {row["section_id"]: row["heading"] for row in found.to_pylist()}
    return [(one.link["text"], headings.get(one.target)) for one in landings(found, rows)]


def link(words: str, name: str, title: str = "") -> str:
    to = f'<ri:page ri:content-title="{title}"/>' if title else ""
    return f'<ac:link ac:anchor="{name}">{to}<ac:link-body>{words}</ac:link-body></ac:link>'


@pytest.mark.parametrize("flavor", ["cloud", "datacenter"])
def test_links_lead_to_anchors_and_headings_of_the_same_and_of_other_pages(flavor: str) -> None:
    limits = f"<h1>Limits</h1><p>{anchor('max')}At most nine.</p><h1>Big plans</h1><p>{anchor('max')}Later.</p>"
    first = page(f"<p>{link('m', 'max')} {link('p', 'Big plans')} {link('no', 'gone')}</p>{limits}", space="ENG")
    second = page(
        f"<p>{link('m2', 'max', 'my page')} {link('gone2', 'x', 'No page')} {link('whole', '', 'My Page')}</p>",
        page_id="8",
        title="Other",
        space="ENG",
    )
    pages = [one | {"anchor_flavor": flavor} for one in (first, second)]
    assert landed(*pages) == [("m", "Limits"), ("p", "Big plans"), ("no", None), ("m2", "Limits")]


@pytest.mark.parametrize(
    ("flavor", "ids"), [("cloud", ("max", "Big-plans")), ("datacenter", ("MyPage-max", "MyPage-Bigplans"))]
)
def test_addresses_lead_to_anchors_by_their_whole_ids(flavor: str, ids: tuple[str, str]) -> None:
    url = "https://w.example/display/ENG/My+Page"
    to = "".join(f'<a href="#{one}">here</a> <a href="{url}#{one}">there</a> ' for one in ids)
    body = f"<p>{to}</p><h1>Limits</h1><p>{anchor('max')}Nine.</p><h1>Big plans</h1><p>Later.</p>"
    found = landed(page(body, url=url, space="ENG", anchor_flavor=flavor))
    assert found == [("here", "Limits"), ("there", "Limits"), ("here", "Big plans"), ("there", "Big plans")]


# Whatever the page


FORMS = ["<p>{}</p>", "<p>{} word{}</p>", "<ul><li>{}word{}</li></ul>", PLACES["cell"].replace("limits", "word{}")]
items = st.one_of(
    st.tuples(st.just("heading"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("text"), st.just(0), st.booleans()),
    st.tuples(st.just("anchor"), st.integers(0, 3), st.booleans()),
)


@given(st.lists(items, max_size=12))
def test_every_anchor_leads_to_what_stands_below_it(drawn: list[tuple[str, int, bool]]) -> None:
    body, told = "", list[tuple[str, str]]()  # what stands in the body, in order: (kind, name)
    for number, (kind, which, marked) in enumerate(drawn):
        mark = anchor(f"a{number}") if kind == "anchor" or marked else ""
        if mark:
            told.append(("anchor", f"a{number}"))
        if kind == "heading":
            told.append(("heading", f"head{number}"))
            body += f"<h{which}>{mark}head{number}</h{which}>"
        else:
            form = FORMS[which if kind == "anchor" else 1]
            told += [("text", f"word{number}")] if "word" in form else []
            body += form.format(mark, number)
    rows = sections(body + "<p>wordlast</p>")
    told.append(("text", "wordlast"))
    places = {one["name"]: row["order"] for row in rows for one in row["anchors"]}
    for position, (kind, name) in enumerate(told):
        if kind == "anchor":
            assert places[name] == next(filter(None, (_row_of(rows, *one) for one in told[position + 1 :])))["order"]
    of_macros = [one for row in rows for one in row["anchors"] if one["rule"] == "cloud-macro"]
    assert len(of_macros) == sum(kind == "anchor" for kind, _ in told)


def _row_of(rows: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any] | None:
    """The row that a text stands in, or that stands for a heading."""
    if kind == "anchor":
        return None
    if kind == "heading":
        return next((row for row in rows if row["heading"] == name), None)
    return next(row for row in rows if name in row["text"].replace("*", " ").split() or f"{name} " in row["text"])


def test_without_links_or_pages_nothing_lands() -> None:
    empty: pa.Table = build_sections(PAGES.empty()).sections
    assert list(landings(empty, PAGES.empty())) == []
