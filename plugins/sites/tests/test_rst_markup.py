"""reStructuredText becomes HTML: what its directives and roles leave, and that bad input ends."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from citelock_sites.markup import MarkupError
from citelock_sites.rst.page import rst_page
from rag_assets.steps.files.file_text import FileError, file_text
from rag_assets.steps.formats.html import html_content


class Folder:
    """Files around a page, in memory."""

    def __init__(self, **files: str) -> None:
        self.files = {name.replace("__", "."): text for name, text in files.items()}

    def file(self, name: str, above: str) -> tuple[str, str] | None:  # noqa: ARG002
        return (name, self.files[name]) if name in self.files else None

    def target(self, kind: str, name: str, page: str) -> None:  # noqa: ARG002
        return None


def html(source: str) -> str:
    return rst_page(source).html


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            ".. note:: Mind\n\n   the gap\n",
            "<blockquote><p><strong>Note</strong></p><p>Mind</p><p>the gap</p></blockquote>",
        ),
        (".. versionadded:: 1.2 A thing.\n", "<p><strong>New in version 1.2:</strong> A thing.</p>"),
        (".. versionadded:: 1.2\n", "<p><strong>New in version 1.2</strong></p>"),
        (".. deprecated:: 2.0\n\n   Gone.\n", "<p><strong>Deprecated since version 2.0:</strong> Gone.</p>"),
        (".. versionchanged:: 3.8\n   The *x*\n   is.\n", "version 3.8:</strong> The <em>x</em>\nis.</p>"),
        (".. versionadded:: 1.2\n\n   - One.\n", "<p><strong>New in version 1.2</strong></p><ul>"),
        (
            ".. deprecated-removed:: 3.9 3.12\n   Use y.\n",
            "<strong>Deprecated since version 3.9, removed in version 3.12:</strong> Use y.",
        ),
        (
            ".. code-block:: c\n   :caption: It\n\n   a < b\n",
            '<p>It</p><pre><code class="language-c">a &lt; b\n</code></pre>',
        ),
        (".. highlight:: ruby\n\n.. code-block::\n\n   x\n", '<pre><code class="language-ruby">x\n</code></pre>'),
        (".. tabs::\n\n   .. tab:: One\n\n      text\n", "<p><strong>One</strong></p><p>text</p>"),
        (".. only:: html\n\n   yes\n\n.. only:: latex\n\n   no\n", "<p>yes</p>"),
        (".. only:: not html\n\n   no\n", ""),
        (".. image:: a.png\n   :alt: A cat\n", '<img alt="A cat" src="a.png"/>'),
        (":guilabel:`&Open` :menuselection:`A --> B`", "<p>Open A ‣ B</p>"),
        (":func:`~os.path.join` :file:`a.txt`", "<p><code>join()</code> <code>a.txt</code></p>"),
        (".. option:: --all\n\n   Everything.\n", '<dt><a id="cmdoption-all"></a><code>--all</code></dt>'),
        ("a [#n]_\n\n.. [#n] note\n", '<a id="n"></a><p>[1] note</p>'),
        (".. csv-table::\n   :header: A, B\n\n   1, 2\n", "<tr><th><p>A</p></th><th><p>B</p></th></tr>"),
    ],
)
def test_markup_leaves_its_words(source: str, expected: str) -> None:
    assert expected in html(source)
    assert expected or not html(source)


def test_what_is_not_known_keeps_its_words_and_counts_as_lost() -> None:
    page = rst_page(".. frob:: Name\n   :x: y\n\n   inner *words*\n\n:zap:`said <target>` end\n")
    assert page.html == "<p>Name</p><p>inner <em>words</em></p><p>said end</p>"
    assert page.lost == {"directive frob": 1, "role zap": 1}


def test_raw_markup_and_drawings_are_lost() -> None:
    page = rst_page(".. raw:: html\n\n   <script>x</script>\n\n.. graphviz::\n\n   digraph {}\n")
    assert "script" not in page.html
    assert page.lost == {"directive raw": 1, "directive graphviz": 1}


def test_no_file_is_read_but_those_of_the_tree() -> None:
    folder = Folder(a__inc="Included *text*.\n", b__py="x = 1\n\n\ndef f():\n    return 2\n", c__csv="1,2\n")
    source = (
        ".. include:: a.inc\n\n.. include:: /etc/passwd\n\n.. literalinclude:: b.py\n   :pyobject: f\n\n"
        ".. csv-table::\n   :file: c.csv\n\n.. csv-table::\n   :file: /etc/passwd\n\n"
        ".. csv-table::\n   :url: http://127.0.0.1/\n\n.. literalinclude:: /etc/passwd\n"
    )
    page = rst_page(source, "index.rst", folder)
    assert "root:" not in page.html
    assert "<p>Included <em>text</em>.</p>" in page.html
    assert '<pre><code class="language-python">def f():\n    return 2\n</code></pre>' in page.html
    assert "<td><p>1</p></td><td><p>2</p></td>" in page.html
    assert page.read == ["a.inc", "b.py", "c.csv"]
    assert sum(page.lost.values()) == 4


def test_a_file_that_includes_itself_ends() -> None:
    folder = Folder(a__rst="A\n\n.. include:: a.rst\n")
    page = rst_page(".. include:: a.rst\n", "index.rst", folder)
    assert page.html.count("A") <= 25
    assert page.lost["include"]


_HOSTILE = {
    "openings of inline markup have no end": "*a\n" * 5_100,
    "substitutions stand for more than": ".. |a| replace:: " + "x" * 9_000 + "\n\n" + "|a| \n" * 300,
    "a line of more than 100,000 characters": "a" * 100_001,
    "nested too deep": "".join(" " * depth + "* a\n\n" for depth in range(300)),
}


@pytest.mark.parametrize("why", _HOSTILE)
def test_hostile_pages_are_refused_with_a_reason(why: str) -> None:
    with pytest.raises(FileError, match=why):
        file_text("page.rst", _HOSTILE[why].encode())


def test_docutils_is_left_as_it_was() -> None:
    from docutils.parsers.rst import directives, roles

    before: list[Callable[..., object]] = [directives.directive, roles.role]
    html(".. role:: mine\n\n:mine:`x`\n")
    assert [directives.directive, roles.role] == before
    assert "mine" not in roles._roles


def test_a_file_of_restructuredtext_has_sections() -> None:
    text = file_text("guide.rst", "Über uns\n========\n\nWords.\n\nTeam\n----\n\nMore.\n".encode())
    assert text.body_format == "html"
    headings = [block for block in html_content(text.body).blocks if block.kind == "heading"]
    assert [(one.text, one.anchors) for one in headings] == [("Über uns", ("uber-uns",)), ("Team", ("team",))]


_PIECES = st.sampled_from(
    [
        ".. note::",
        "   ",
        "\n",
        "\n\n",
        "*",
        "**",
        "``",
        ":ref:`",
        "`",
        "|",
        "+---+",
        "====",
        "----",
        "- ",
        "1. ",
        "_",
        "::",
        ".. _a:",
        ".. |x| replace:: y",
        "[#]_",
        "Titel",
        "日本",
        ".. toctree::",
        ".. glossary::",
        ".. list-table::",
        "<",
        "&",
        "\t",
    ]
)


@given(st.lists(_PIECES, max_size=25).map("".join))
@settings(max_examples=examples(2), deadline=None)
def test_any_text_is_read_or_refused_and_its_html_is_well_formed(source: str) -> None:
    try:
        page = rst_page(source)
    except MarkupError:
        return
    html_content(f"<main>{page.html}</main>")
    assert not re.search(r"<(?!/?[a-z][a-z0-9]*[ />])", page.html)
