"""What a page shows and its text does not say is counted in the ledger, with its kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import without_note
from rag_assets.steps.formats.html import html_content
from rag_assets.steps.formats.macros import with_losses
from rag_assets.steps.sections.splitting import sections_of_page

PNG = '<img src="a.png"/>'


def ledger(name: str, file: str) -> dict[tuple[str, str], int]:
    """What MACRO_LEDGER says of a file."""
    found = file_text(name, file.encode())
    page: dict[str, Any] = {"page_id": "1", "version": 1, "title": "T", "body": found.body, "content_hash": "h"}
    flavor = "markdown" if found.body_format == "markdown" else "html"
    rows = sections_of_page({**page, "body_format": found.body_format, "anchor_flavor": flavor}).ledger
    return {(row["macro"], row["outcome"]): row["count"] for row in rows if row["macro"] != "anchor"}


def test_a_file_of_restructuredtext_counts_what_it_cannot_show() -> None:
    source = (
        "Title\n=====\n\n.. frob:: Name\n\n.. include:: absent.inc\n\n.. image:: a.png\n\n.. image:: b.png\n"
        "   :alt: What it shows\n\n.. graphviz::\n\n   digraph {}\n\n:ref:`nowhere` end\n"
    )
    assert ledger("a.rst", source) == {
        ("directive frob", "lost"): 1,
        ("directive graphviz", "lost"): 1,
        ("figure", "lost"): 1,
        ("include", "unresolved"): 1,
        ("reference", "unresolved"): 1,
    }


def test_files_of_markdown_and_html_count_pictures_without_words_and_embedded_objects() -> None:
    assert ledger("a.md", "# A\n\n![](a.png) ![said](b.png)\n\n<iframe src='x'></iframe>\n\ntext") == {
        ("figure", "lost"): 1,
        ("embedded object", "lost"): 1,
    }
    html = (
        f'<p>{PNG}<img alt="said" src="b.png"/><img alt="c.png" src="c.png"/></p><object><embed></object>'
        '<video src="a"></video><svg><text>x</text></svg><span><svg></svg></span><canvas></canvas><p>text</p>'
    )
    assert ledger("a.html", html) == {
        ("figure", "lost"): 2,
        ("embedded object", "lost"): 2,
        ("drawing", "lost"): 2,
    }


def test_pictures_of_the_frame_of_a_page_are_not_of_its_text() -> None:
    page = f"<nav>{PNG}</nav><main><p>text</p></main><footer>{PNG}</footer>"
    assert ledger("a.html", page) == {}


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.integers(1, 5000), max_size=5))
def test_notes_of_losses_are_read_back_and_are_no_text(lost: dict[str, int]) -> None:
    lost = {" ".join(f"x{kind}".encode("ascii", "ignore").decode().split()): count for kind, count in lost.items()}
    lost = {kind: count for kind, count in lost.items() if kind.isprintable()}
    content = html_content(with_losses("<main><h1 id='a'>A</h1><p>text</p></main>", lost))
    assert [block.text for block in content.blocks if block.text] == ["A", "text"]
    assert {kind: count for (kind, outcome), count in content.ledger.items() if outcome == "lost"} == lost


def test_forged_notes_are_bounded() -> None:
    forged = "".join(
        f'<data class="citelock-lost" title="{"k" * 5000}{number}" value="{9 * 10**30}"></data>'
        for number in range(500)
    )
    assert not html_content(f"<main><p>text</p>{forged}</main>").ledger
    assert without_note(with_losses("<main></main>", {"x": 10**9}))[0].count("999999") == 1
