"""The ledger: every macro that a body holds is counted once, wherever it stands and whatever became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.formats.element_tree import AC, PageError, parse_storage
from rag_assets.steps.sections.splitting import PageSections, sections_of_page

DATA = Path(__file__).parents[3] / "shared" / "data"
REAL = sorted((DATA / "cwiki").glob("*/*.json"))

MACRO = '<ac:structured-macro ac:name="{}">{}</ac:structured-macro>'
RICH = "<ac:rich-text-body>{}</ac:rich-text-body>"
TARGET = '<ac:parameter ac:name=""><ac:link><ri:page ri:content-title="Inner"/></ac:link></ac:parameter>'
BLANK = MACRO.format("toc", "")
INCLUDE = MACRO.format("include", TARGET)
CODE = MACRO.format("code", "<ac:plain-text-body><![CDATA[a\n  b]]></ac:plain-text-body>")
LINK = '<ac:link><ri:page ri:content-title="P"/><ac:link-body>{}</ac:link-body></ac:link>'
IMAGE = '<ac:image><ri:attachment ri:filename="a.png"/><ac:caption><p>{}</p></ac:caption></ac:image>'


def read(body: str) -> PageSections:
    row = {"page_id": "1", "version": 1, "title": "T", "body": body, "body_format": "storage"}
    return sections_of_page({**row, "anchor_flavor": "cloud", "content_hash": "h"})


def counted(result: PageSections) -> dict[tuple[str, str], int]:
    """Nodes of the new editor and struck text, which are no macros, left out."""
    others = ("adf-", "struck text")
    return {(r["macro"], r["outcome"]): r["count"] for r in result.ledger if not r["macro"].startswith(others)}


def written(body: str) -> int:
    return sum(1 for _ in parse_storage(body).iter(f"{AC}structured-macro", f"{AC}macro"))


@pytest.mark.parametrize("around", [LINK, IMAGE, "<pre>x {}\n</pre>", "<table><caption>{}</caption></table>"])
def test_an_include_in_a_link_a_caption_or_preformatted_text_is_counted(around: str) -> None:
    assert counted(read(f"<p>See {around.format(INCLUDE)}</p>")) == {("include", "unresolved"): 1}


def test_code_in_the_text_of_a_link_is_kept_to_the_letter() -> None:
    assert "```\na\n  b\n```" in read(f"<p>See {LINK.format(CODE)}</p>").sections[0]["text"]


def test_macros_where_nothing_is_text_are_hidden_and_those_in_a_body_that_is_dropped_are_lost() -> None:
    hidden = '<ac:parameter ac:name="hidden">true</ac:parameter>' + RICH.format(CODE + CODE)
    assert counted(read(MACRO.format("excerpt", hidden))) == {("excerpt", "hidden"): 1, ("code", "hidden"): 2}
    assert counted(read(f"<ac:placeholder>{BLANK}</ac:placeholder>")) == {("toc", "hidden"): 1}
    assert counted(read(MACRO.format("toc", RICH.format(CODE)))) == {("toc", "navigation"): 1, ("code", "lost"): 1}


LEAVES = [BLANK, INCLUDE, CODE, MACRO.format("gone", ""), MACRO.format("anchor", ""), "<p>words</p>", "words"]
AROUND = [
    *(MACRO.format(name, RICH.format("{}")) for name in ("info", "expand", "details", "excerpt", "unknown", "toc")),
    MACRO.format("excerpt", '<ac:parameter ac:name="hidden">true</ac:parameter>' + RICH.format("{}")),
    MACRO.format("status", '<ac:parameter ac:name="title">{}</ac:parameter>'),
    *(
        "<table><tbody><tr><td>{}</td></tr></tbody></table>",
        "<table><caption>{}</caption></table>",
        "<table>{}</table>",
    ),
    *("<ul><li>{}</li></ul>", "<ul>{}</ul>", "<h2>{}</h2>", "<pre>{}</pre>", "<blockquote>{}</blockquote>"),
    *("<p>{}</p>", "<p><code>{}</code></p>", "<time>{}</time>", "<ac:placeholder>{}</ac:placeholder>", LINK, IMAGE),
    "<ac:link><ac:plain-text-link-body>{}</ac:plain-text-link-body></ac:link>",
    "<ac:task-list><ac:task><ac:task-body>{}</ac:task-body></ac:task></ac:task-list>",
    "<ac:task-list><ac:task>{}</ac:task></ac:task-list>",
    "<ac:layout><ac:layout-section><ac:layout-cell>{}</ac:layout-cell></ac:layout-section></ac:layout>",
    "<ac:adf-extension><ac:adf-node><ac:adf-content>{}</ac:adf-content></ac:adf-node>"
    "<ac:adf-fallback>{}</ac:adf-fallback></ac:adf-extension>",
    "<ac:emoticon>{}</ac:emoticon>",
    "<script>{}</script>",
]
BODIES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.tuples(st.sampled_from(AROUND), st.lists(inner, max_size=3).map("".join)).map(
        lambda pair: pair[0].replace("{}", pair[1])
    ),
    max_leaves=12,
)


@given(st.lists(BODIES, max_size=3).map("".join), st.booleans())
def test_every_macro_of_a_body_is_in_the_ledger(body: str, malformed: bool) -> None:
    body += "<p>cut" * malformed
    assert sum(counted(read(body)).values()) == written(body)


@pytest.mark.skipif(not REAL, reason="the real pages at ../shared/data/cwiki are absent")
def test_every_macro_of_the_real_pages_is_in_the_ledger() -> None:
    macros = 0
    for file in REAL:
        body: Any = json.loads(file.read_text())["body"]["storage"]["value"]
        try:
            assert sum(counted(read(body)).values()) == written(body), file.name
        except PageError:
            continue
        macros += written(body)
    assert macros > 1000
