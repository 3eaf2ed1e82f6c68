"""AsciiDoc becomes HTML: what its blocks leave, and that bad input ends."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citelock_sites.asciidoc.page import asciidoc_page
from citelock_sites.markup import MarkupError
from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.html import html_content

HOSTILE_CHARS = 20_000


class Partials:
    """Files around a page, in memory."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def file(self, name: str, above: str) -> tuple[str, str] | None:  # noqa: ARG002
        return (name, self.files[name]) if name in self.files else None

    def target(self, kind: str, name: str, page: str) -> None:  # noqa: ARG002
        return None


def html(source: str) -> str:
    return asciidoc_page(source).html


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("NOTE: Mind the gap", "<blockquote><p><strong>Note</strong></p><p>Mind the gap</p></blockquote>"),
        ("[WARNING]\n====\nHot\n====", "<blockquote><p><strong>Warning</strong></p><p>Hot</p></blockquote>"),
        (
            ".It\n[source,c]\n----\na < b // <1>\n----\n<1> less",
            '<p>It</p><pre><code class="language-c">a &lt; b // (1)\n',
        ),
        ("[source,ruby]\nputs 1\n", '<pre><code class="language-ruby">puts 1\n</code></pre>'),
        ("* a\n** b\n* [x] c", "<ul><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>[x] c</p></li></ul>"),
        ("CPU:: brain\nRAM:: mind", "<dl><dt>CPU</dt><dd><p>brain</p></dd><dt>RAM</dt><dd><p>mind</p></dd></dl>"),
        ("* a\n+\nmore", "<ul><li><p>a</p><p>more</p></li></ul>"),
        ("|===\n|A|B\n\n|1|2\n|===", "<thead><tr><th><p>A</p></th><th><p>B</p></th></tr></thead>"),
        ('[cols="2*"]\n|===\n2+|wide\n.2+|tall|b\n|c\n|===', '<td colspan="2"><p>wide</p></td>'),
        (
            '[cols="2*"]\n|===\n2+|wide\n.2+|tall|b\n|c\n|===',
            "<p>tall</p></td><td><p>b</p></td></tr><tr><td>",
        ),
        (',===\na,"b, c"\n,===', "<tr><td><p>a</p></td><td><p>b, c</p></td></tr>"),
        ("image::a.png[A cat]", '<img alt="A cat" src="a.png"/>'),
        ("a footnote:[b *c*] d", "[1] b <strong>c</strong>"),
        (":v: 2\n\n{v} \\{v} {none}", "<p>2 {v} {none}</p>"),
        ("ifdef::x[]\nno\nendif::[]\nifndef::x[]\nyes\nendif::[]", "<p>yes</p>"),
        (':v: 2\n\nifeval::["{v}" == "2"]\nyes\nendif::[]', "<p>yes</p>"),
        ("https://a.example[Site] <https://b.example>", '<a href="https://a.example">Site</a>'),
        ("== A b\n\nsee <<_a_b>>", '<a href="#_a_b">A b</a>'),
        ("== A b\n\nsee <<A b>>", '<a href="#_a_b">A b</a>'),
        ("a +\nb", "<p>a<br/>\nb</p>"),
        ("+++<b>x</b>+++ `+{a}+`", "<p>x <code>{a}</code></p>"),
        ("[quote,Ada]\n____\nWords\n____", "<blockquote><p>Words</p><p>Ada</p></blockquote>"),
    ],
)
def test_markup_leaves_its_words(source: str, expected: str) -> None:
    assert expected in html(source)


def test_files_are_included_by_tag_line_and_level() -> None:
    files = {
        "part.adoc": "== Part\n\nText {v}.\n",
        "code.py": "# tag::one[]\nx = 1\n# end::one[]\ny = 2\n",
    }
    source = (
        ":v: 3\n\ninclude::part.adoc[leveloffset=+1]\n\n----\ninclude::code.py[tag=one]\n----\n\n"
        "----\ninclude::code.py[lines=4]\n----\n\ninclude::../secret[]\n"
    )
    page = asciidoc_page(source, "index.adoc", Partials(files))
    assert page.html == (
        '<h3 id="_part">Part</h3><p>Text 3.</p><pre><code>x = 1\n</code></pre><pre><code>y = 2\n</code></pre>'
    )
    assert page.read == ["part.adoc", "code.py"]
    assert page.lost == {"include": 1}


def test_a_file_of_asciidoc_has_sections() -> None:
    text = file_text("guide.adoc", "= Guide\n\n== Über uns\n\nWords.\n\n== Über uns\n\nMore.\n".encode())
    assert text.body_format == "html"
    headings = [block for block in html_content(text.body).blocks if block.kind == "heading"]
    assert [one.anchors for one in headings] == [(), ("_über_uns",), ("_über_uns_2",)]


_HOSTILE = {
    "bold": "*a " * 30_000,
    "code": "`a\n" * 40_000,
    "references": "<<a\n" * 30_000,
    "anchors": "[[a\n" * 30_000,
    "terms": "a::\n" * 20_000,
    "items": "* a\n" * 20_000,
    "deep items": "".join(f"{'*' * (1 + n % 5)} a\n" for n in range(20_000)),
    "cells": "|===\n" + "|a" * 40_000 + "\n|===",
    "attributes": "[a\n" * 30_000,
    "passed": "+++a\n" * 30_000,
    "links": "http://a[" * 12_000,
    "names": "{a}" * 30_000,
    "fences": "----\n" * 20_001,
    "quotes": '"`a\n' * 30_000,
    "doubling": ":a: xx\n" + "".join(f":a{n + 1}: {{a{n}}}{{a{n}}}\n" for n in range(20)).replace("a0", "a") + "{a20}",
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_pages_take_bounded_time_and_room(name: str) -> None:
    began = time.process_time()
    try:
        made = len(html(_HOSTILE[name][:HOSTILE_CHARS]))
    except MarkupError:
        made = 0
    assert made < 5_000_000
    assert time.process_time() - began < 5


_PIECES = st.sampled_from(
    [
        "= A\n",
        "== B\n",
        "----\n",
        "====\n",
        "|===\n",
        "|a |b\n",
        "* ",
        "** ",
        ". ",
        "a:: ",
        "+\n",
        "\n",
        "\n\n",
        "*b*",
        "`c`",
        "<<x>>",
        "[[y]]",
        "[source]\n",
        "NOTE: ",
        ":k: v\n",
        "{k}",
        "include::z[]\n",
        "ifdef::k[]\n",
        "endif::[]\n",
        "<1> ",
        "日本",
        "&<>",
        "://",
        "[",
    ]
)


@given(st.lists(_PIECES, max_size=25).map("".join))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_and_its_html_is_well_formed(source: str) -> None:
    page = asciidoc_page(source)
    html_content(f"<main>{page.html}</main>")
    assert not re.search(r"[\x02-\x05]", page.html)
