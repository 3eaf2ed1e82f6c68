"""HTML pages become the same blocks as storage format, and headings keep the ids that links reach them by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.formats.html import html_content
from rag_assets.steps.sections.splitting import sections_of_page


def sections(body: str) -> list[dict[str, Any]]:
    page = {"page_id": "1", "version": 1, "title": "Guide", "body": body, "content_hash": "x", "readers": "everyone"}
    return sections_of_page({**page, "body_format": "html", "anchor_flavor": "html", "space": "K"}).sections


@pytest.mark.parametrize(
    "heading",
    [
        '<h2 id="setup">Set up</h2>',
        '<h2><a id="setup" href="#setup">Set up</a></h2>',
        '<h2 class="anchor-heading"><a id="setup" class="anchor-link"></a><a href="#setup">Set up</a></h2>',
        '<a name="setup"></a><h2>Set up</h2>',
        '<section id="setup"><h2>Set up</h2></section>',
        '<section id="setup"><span id="label"></span><h2>Set up</h2></section>',  # Sphinx
        '<div class="section" id="setup"><h2>Set up</h2></div>',
        '<a id="setup"><!-- --></a><ul class="blockList"><li><h4>Set up</h4></li></ul>',  # Javadoc
        '<section class="detail" id="setup"><h3>Set up</h3></section>',
        '<h2 id="setup"><a class="anchor" href="#setup"></a>Set up</h2>',  # Asciidoctor
        '<h2 class="anchor" id="setup">Set up<a class="hash-link" href="#setup">​</a></h2>',  # Docusaurus
        '<section class="level2" id="setup"><h2 data-number="1">Set up</h2></section>',  # pandoc
        '<span id="further"></span>\n<span id="setup"></span>\n<h2>Set up</h2>',
    ],
)
def test_a_heading_is_reached_by_its_id_wherever_that_stands(heading: str) -> None:
    (section,) = sections(f"{heading}<p>Run it.</p>")
    assert (section["heading"], section["anchor"], section["anchor_rule"]) == ("Set up", "setup", "html-id")


def test_a_heading_without_an_id_is_reached_by_the_nearest_above_it() -> None:
    found = sections('<p>Intro.</p><h1 id="a">A</h1><p>One.</p><h2>B</h2><p>Two.</p>')
    assert [(s["anchor"], s["anchor_rule"]) for s in found] == [
        ("top", "html-title"),
        ("a", "html-id"),
        ("a", "html-above"),
    ]


def test_all_ids_beside_a_heading_lead_to_it_and_not_to_the_text_before() -> None:
    body = (
        '<p>Before.</p><section id="setup"><span id="label"></span><a name="old"></a>'
        '<h2>Set up<span id="inner"></span></h2><p>Run it.</p></section><p><span id="word"></span>After.</p>'
    )
    before, section = sections(body)
    assert before["anchors"] == []
    assert (section["anchor"], {one["name"] for one in section["anchors"]}) == (
        "inner",
        {"setup", "label", "old", "word"},
    )


def test_ids_of_all_that_holds_text_lead_to_its_section() -> None:
    body = (
        '<h2 id="a">A</h2><p>One.</p><h2 id="b">B</h2><table id="t"><tr><th id="h">X</th></tr>'
        '<tr><td id="c">1</td></tr></table><pre id="p">code</pre>'
        '<ul id="u"><li id="l">item</li></ul><p>a <code id="k">word</code></p>'
    )
    first, second = sections(body)
    assert first["anchors"] == []
    assert {one["name"] for one in second["anchors"]} == set("thcpulk")
    assert [block["kind"] for block in second["blocks"]] == ["table", "table", "code", "list", "paragraph"]


def test_boxes_and_forms_around_text_are_text_and_lists_of_links_are_not() -> None:
    body = (
        "<main><form><p>Whole pages stand in forms.</p></form>"
        '<aside><p>Mind the step, see <a href="/x">x</a>.</p></aside>'
        '<aside><a href="/a">Page one</a> <a href="/b">Page two</a></aside><form role="search">Search</form>'
        "<blockquote>Words.<footer>Who said them</footer></blockquote><footer>Imprint</footer></main>"
    )
    (section,) = sections(body)
    assert section["text"] == "Whole pages stand in forms.\n\nMind the step, see x.\n\n> Words.\n\n> Who said them"


def test_the_text_of_a_template_in_a_script_is_read_and_scripts_are_not() -> None:
    body = '<script>var x = "no";</script><script id="t" type="text/x-handlebars-template"><p>Yes.</p></script>'
    assert [section["text"] for section in sections(body)] == ["Yes."]


def test_navigation_around_the_main_part_is_left_out() -> None:
    body = "<nav>Home</nav><main><nav>Up</nav><h1 id='x'>X</h1><p>Text.</p></main><footer>Imprint</footer>"
    assert [section["text"] for section in sections(body)] == ["Text."]


def test_lists_tables_and_code_are_atoms_as_in_storage_format() -> None:
    body = (
        '<ul><li>One</li><li>Two</li></ul><table v-if="x"><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr>'
        '</table><pre class="brush: bash;">bin/run &lt;x&gt;\n  --now</pre><o:p>Odd.</o:p>'
    )
    (section,) = sections(body)
    assert [block["kind"] for block in section["blocks"]] == ["list", "list", "table", "table", "code", "paragraph"]
    assert "| 1 | 2 |" in section["text"]
    assert "bin/run <x>\n  --now" in section["text"]


@given(
    st.lists(
        st.sampled_from(["<h1 id='a&b'>", "</h1>", "<p>", "<li>", "<table>", "<td>", "x ", "&", "<", "<!--", "]]>"])
    )
)
def test_broken_html_never_fails(parts: list[str]) -> None:
    html_content("".join(parts))
