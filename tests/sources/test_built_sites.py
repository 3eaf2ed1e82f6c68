"""Folders of built HTML: canonical addresses, ids on marks of headings, templates, pages of server-side includes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO

import pytest
from sources.site_docs import Docs

from rag_assets.sources.sites import site
from rag_assets.steps.formats.html import html_content
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.artifacts.store import open_file

BASE = "https://docs.example/en/"
PAGE = '<html><head>{}</head><body><main><h1 id="t">{}</h1><p>text of {}</p>{}</main></body></html>'


@pytest.fixture
def docs(tmp_path: Path) -> Docs:
    return Docs(tmp_path)


def link(href: str) -> str:
    return f"<meta name='a'><LINK href='{href}' data-x=1 rel=\"canonical\">"


def test_an_address_below_the_base_that_a_page_calls_its_own_is_its_address(docs: Docs) -> None:
    docs.write("a/index.html", PAGE.format(link("https://docs.example/en/a"), "A", "a", "<a href='../b.html'>b</a>"))
    docs.write("b.html", PAGE.format(link("/en/bee?x=1"), "B", "b", ""))
    docs.write("c.html", PAGE.format(link("//docs.example/en/c/#x"), "C", "c", "<a href='a/index.html#t'>a</a>"))
    docs.write("d.html", PAGE.format(link("https://elsewhere.example/en/d"), "D", "d", ""))
    docs.write("e.html", PAGE.format(link("https://docs.example/de/e"), "E", "e", ""))
    docs.write("f.html", PAGE.format(link("javascript:alert(1)"), "F", "f", ""))
    docs.sync(base_url=BASE)
    urls = {name: row["url"].removeprefix(BASE) for name, row in docs.rows().items()}
    assert urls == {
        "a/index.html": "a",
        "b.html": "b.html",
        "c.html": "c/",
        "d.html": "d.html",
        "e.html": "e.html",
        "f.html": "f.html",
    }
    assert f'href="{BASE}a#t"' in docs.rows()["c.html"]["body"]


def test_versions_of_a_page_that_all_name_the_newest_keep_addresses_of_their_own(docs: Docs) -> None:
    for version in ("stable", "v1", "v2"):
        docs.write(f"{version}/a.html", PAGE.format(link(f"{BASE}stable/a.html"), version, version, ""))
    docs.sync(base_url=BASE)
    assert {row["url"] for row in docs.rows().values()} == {f"{BASE}{one}/a.html" for one in ("stable", "v1", "v2")}


def test_a_canonical_address_is_of_no_use_without_a_base(docs: Docs) -> None:
    docs.write("a.html", PAGE.format(link("https://docs.example/en/a"), "A", "a", ""))
    docs.sync()
    assert docs.rows()["a.html"]["url"].startswith("/p/")


def test_a_file_is_opened_again_where_it_changed_and_nowhere_else(docs: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcde":
        docs.write(f"{name}.html", PAGE.format(link(f"{BASE}own-{name}") if name != "e" else "", name, name, ""))

    opened: list[str] = []

    def counted(path: Path) -> IO[bytes]:
        opened.append(path.name)
        return open_file(path)

    def sync(**settings: str) -> list[str]:
        opened.clear()
        if docs.last is not None:
            docs.last.state["began"] = time.time() + 60  # else a file's times cannot tell that it was not written since
        docs.sync(**settings)
        return sorted(opened)

    monkeypatch.setattr(site, "open_file", counted)
    assert set(sync(base_url=BASE)) == {f"{name}.html" for name in "abcde"}
    before = docs.rows()
    assert sync(base_url=BASE) == []
    assert docs.rows() == before
    docs.write("b.html", PAGE.format(link(f"{BASE}another"), "b", "b", ""))
    assert "b.html" in sync(base_url=BASE)
    assert docs.rows()["b.html"]["url"] == f"{BASE}another"
    assert docs.rows()["a.html"]["url"] == f"{BASE}own-a"
    assert docs.last is not None
    docs.last.state["canonical"] = {"a.html": 7}  # of another program
    assert set(sync(base_url=BASE)) == {f"{name}.html" for name in "abcde"}
    assert docs.rows()["b.html"]["url"] == f"{BASE}another"


def test_addresses_are_looked_up_once_a_base_is_set(docs: Docs) -> None:
    docs.write("a.html", PAGE.format(link(f"{BASE}own"), "A", "a", ""))
    docs.sync()
    assert docs.last is not None
    docs.last.state["began"] = time.time() + 60
    docs.sync(base_url=BASE)
    assert docs.rows()["a.html"]["url"] == f"{BASE}own"


def test_an_id_on_the_mark_beside_a_heading_stays_its_anchor(docs: Docs) -> None:
    marks = (
        '<h2><a class="header-anchor" id="inside" href="#inside">#</a>Inside</h2><p>one</p>'
        '<a class="headerlink" id="before"></a><h2>Before</h2><p>two</p>'
        '<div class="breadcrumbs" id="crumbs">Home</div><p>three</p>'
    )
    docs.write("a.html", PAGE.format("", "A", "a", marks))
    result = docs.sync()
    rows = build_sections(result.pages).sections.to_pylist()
    assert [(row["heading"], row["anchor"]) for row in rows] == [("A", "t"), ("Inside", "inside"), ("Before", "before")]
    assert "Home" not in rows[2]["text"]
    assert "crumbs" not in str(rows)


def test_templates_are_text_and_files_of_nothing_but_includes_are_excluded(docs: Docs) -> None:
    docs.write("a.html", "<script type='text/x-handlebars-template'><h3 id='x'>X</h3><p>Words.</p></script>")
    docs.write("b.html", "<!-- licence -->\n<!--#include virtual='a.html' -->\n")
    docs.write("c.html", "<h1 id='c'>C</h1><p>Own words.</p><!--#include virtual='a.html' -->")
    result = docs.sync()
    assert docs.reasons() == {"b.html": "it has no text"}
    made = build_sections(result.pages)
    assert {row["text"] for row in made.sections.to_pylist()} == {"Words.", "Own words."}
    lost = [
        (row["macro"], row["outcome"], row["count"]) for row in made.ledger.to_pylist() if row["macro"] == "include"
    ]
    assert lost == [("include", "unresolved", 1)]


def test_pages_that_leave_themselves_out_and_pages_of_the_generator_have_a_reason(docs: Docs) -> None:
    docs.write("a.html", PAGE.format("", "A", "a", ""))
    docs.write("no.html", PAGE.format("<meta name='ROBOTS' content='noindex, follow'>", "No", "no", ""))
    docs.write("old.html", PAGE.format("<meta http-equiv='refresh' content='0; url=a.html'>", "Old", "old", ""))
    for name in ("404.html", "genindex.html", "search.html", "toc.html", "print.html", "_static/x.html"):
        docs.write(name, PAGE.format("", name, name, ""))
    docs.write("changelog/index.html", PAGE.format("", "Changes", "changes", ""))
    docs.sync()
    assert list(docs.rows()) == ["a.html"]
    assert {name: why.split(";")[0] for name, why in docs.reasons().items()} == {
        "no.html": "its robots tag says noindex",
        "old.html": "it leads to another page",
        "404.html": "it is what the server shows for a page that is missing",
        "genindex.html": "it is a generated index",
        "search.html": "it is a search page",
        "toc.html": "it is navigation",
        "print.html": "it repeats all pages for printing",
        "_static/x.html": "it is no page of the documentation",
        "changelog/index.html": "it is a changelog",
    }


def test_pages_of_asciidoctor_have_their_ids_links_notes_and_code(docs: Docs) -> None:
    docs.write(
        "crane.html",
        '<html lang="en"><head><title>Crane manual</title></head><body class="article"><div id="header">'
        '<h1>Crane manual</h1><div id="toc" class="toc"><ul><li><a href="#_set_up">Set up</a></li></ul></div></div>'
        '<div id="content"><div class="sect1"><h2 id="_set_up">Set up</h2><div class="sectionbody">'
        '<div class="admonitionblock note"><table><tr><td class="icon"><div class="title">Note</div></td>'
        '<td class="content">Mind the gap.</td></tr></table></div><div class="listingblock"><div class="content">'
        '<pre class="highlight"><code class="language-bash" data-lang="bash">crane --start</code></pre></div></div>'
        '<div class="paragraph"><p>See <a href="berths.html#park">parking</a>.</p></div></div></div></div>'
        '<div id="footer">Last updated</div></body></html>',
    )
    docs.write(
        "berths.html", '<html><body><div id="content"><h2 id="park">Parking</h2><p>Free.</p></div></body></html>'
    )
    docs.sync(site="html", base_url="https://docs.example/")
    page = docs.rows()["crane.html"]
    text = html_content(page["body"])
    assert page["title"] == "Crane manual"
    assert [block.text for block in text.blocks if block.kind != "reference"] == [
        "Set up",
        "> Note",
        "> Mind the gap.",
        "```bash\ncrane --start\n```",
        "See parking.",
    ]
    assert 'href="/berths.html#park"' in page["body"] or "docs.example/berths.html#park" in page["body"]
    assert "Last updated" not in page["body"]
