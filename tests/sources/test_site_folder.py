"""A folder, zip or working tree of documentation: what changes, what is renamed, what is left out."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path

import pytest
from sources.site_docs import Docs

from rag_assets.sources.base import SourceError
from rag_assets.steps.sections.splitting import build_sections

LONG = "\n".join(
    f"Step {number} of the procedure needs a person who knows the {number}th machine." for number in range(30)
)


@pytest.fixture
def docs(tmp_path: Path) -> Docs:
    return Docs(tmp_path)


def test_pages_have_addresses_ancestors_and_what_their_front_matter_says(docs: Docs) -> None:
    docs.write("README.md", "# Handbook\n\nSee [setup](guides/setup.md#install-it) and [web](https://x.example/).")
    docs.write("guides/README.md", "# Guides\n")
    docs.write(
        "guides/setup.md",
        "---\ntitle: Setting up\nslug: setup\ncategory: Admin\ntags: [install, linux]\nkeywords: a, b\nversion: 1.10\n"
        "lang: en-GB\n---\n# Set up\n\n## Install it\n\ntext\n",
    )
    docs.sync(base_url="https://docs.example/x/")
    rows = docs.rows()
    page = rows["guides/setup.md"]
    assert page["url"] == "https://docs.example/x/guides/setup.md"
    assert (page["title"], page["slug"], page["category"], page["lang"]) == ("Setting up", "setup", "Admin", "en")
    assert page["labels"] == ["install", "linux", "a", "b", "version 1.10"]
    assert page["ancestor_titles"] == ["Handbook", "Guides"]
    assert page["ancestors"] == [rows[name]["page_id"] for name in ("README.md", "guides/README.md")]
    assert 'href="https://docs.example/x/guides/setup.md#install-it"' in rows["README.md"]["body"]
    assert 'href="https://x.example/"' in rows["README.md"]["body"]
    assert 'id="install-it"' in page["body"]


def test_without_an_address_links_lead_to_the_pages_that_citelock_shows(docs: Docs) -> None:
    docs.write("a.md", "[b](b.md#x)")
    docs.write("b.md", "# B\n")
    docs.sync()
    assert f'href="/p/{docs.rows()["b.md"]["page_id"]}#x"' in docs.rows()["a.md"]["body"]
    assert docs.rows()["b.md"]["url"] == f"/p/{docs.rows()['b.md']['page_id']}"


def test_a_second_sync_changes_nothing_and_a_change_makes_a_version(docs: Docs) -> None:
    docs.write("a.md", "one")
    docs.write("b.md", "two")
    docs.sync()
    before = docs.rows()
    docs.write("b.md", "two")  # written again, and the same
    assert docs.sync().changed == 0
    assert docs.rows() == before
    docs.write("a.md", "other")
    result = docs.sync()
    assert (result.changed, result.deleted) == (1, 0)
    assert (docs.rows()["a.md"]["version"], docs.rows()["b.md"]) == (2, before["b.md"])


def test_a_moved_page_keeps_its_id_even_where_some_of_it_changed(docs: Docs) -> None:
    docs.write("a.md", "# A\n\n" + LONG)
    docs.write("b.md", "# B\n\nshort text of b")
    docs.write("c.md", "# C\n\nanother text")
    docs.sync(base_url="https://docs.example/")
    ids = {name: row["page_id"] for name, row in docs.rows().items()}
    (docs.path / "a.md").unlink()
    docs.write("moved/a.md", "# A\n\nA new first line.\n\n" + LONG)
    (docs.path / "b.md").rename(docs.path / "renamed.md")
    result = docs.sync(base_url="https://docs.example/")
    assert result.deleted == 0
    assert docs.rows()["moved/a.md"]["page_id"] == ids["a.md"]
    assert docs.rows()["moved/a.md"]["version"] == 2
    assert (docs.rows()["renamed.md"]["page_id"], docs.rows()["renamed.md"]["version"]) == (ids["b.md"], 1)
    assert docs.rows()["renamed.md"]["url"] == "https://docs.example/renamed.md"


def test_what_is_left_out_has_a_reason(docs: Docs) -> None:
    docs.write("good.md", "text")
    docs.write("draft.md", "---\ndraft: true\n---\ntext")
    docs.write("hidden.md", "---\nrobots: noindex, nofollow\n---\ntext")
    docs.write("CHANGELOG.md", "# 1.0")
    docs.write("SUMMARY.md", "- [x](good.md)")
    docs.write("broken.md", "---\na: [\n---\ntext")
    docs.write("notes.rst", "text")
    docs.write("logo.png", b"\x89PNG")
    result = docs.sync()
    assert list(docs.rows()) == ["good.md"]
    assert docs.reasons() == {
        "draft.md": "its front matter says draft",
        "hidden.md": "its front matter says noindex (robots)",
        "CHANGELOG.md": "it is a changelog; they are read with sources.docs.changelogs: true",
        "SUMMARY.md": "it is navigation",
        "notes.rst": "no page of a github site is made of it",
        "broken.md": docs.reasons()["broken.md"],
    }
    assert "not valid YAML in line" in docs.reasons()["broken.md"]
    assert result.notes == ("1 file is no document: pictures, settings, source code",)
    docs.sync(changelogs=True)
    assert set(docs.rows()) == {"good.md", "CHANGELOG.md"}


def test_a_version_that_cannot_be_read_leaves_the_one_before(docs: Docs) -> None:
    docs.write("a.md", "first version")
    docs.sync()
    docs.write("a.md", b"second\x00version")
    assert docs.sync().failed == 1
    assert docs.reasons()["a.md"].endswith("its last version stays")
    assert "first version" in docs.rows()["a.md"]["body"]
    docs.write("a.md", "third version")
    docs.sync()
    assert docs.rows()["a.md"]["version"] == 2


def test_many_pages_gone_at_once_stop_the_sync(docs: Docs) -> None:
    for number in range(10):
        docs.write(f"{number}.md", f"text {number} {number * 7}")
    docs.sync()
    for number in range(5):
        (docs.path / f"{number}.md").unlink()
    with pytest.raises(SourceError, match="lacks 5 of 10 pages"):
        docs.sync()
    assert docs.sync(max_deleted_share=1).deleted == 5


@pytest.mark.parametrize(
    ("site", "settings", "folder", "ending"),
    [
        ("github", "README.md", "", "md"),
        ("mkdocs", "mkdocs.yml", "docs", "md"),
        ("docusaurus", "docusaurus.config.js", "docs", "md"),
        ("sphinx", "conf.py", "", "rst"),
        ("html", "x.css", "", "html"),
    ],
)
def test_names_in_any_encoding_have_addresses(site: str, settings: str, folder: str, ending: str, docs: Docs) -> None:
    docs.write(settings, "")
    odd, spaced = docs.path / folder / os.fsdecode(b"caf\xe9." + ending.encode()), f"{folder}/two words.{ending}"
    docs.write(spaced.lstrip("/"), "text")
    odd.write_text("text", encoding="utf-8")
    docs.sync(site=site, base_url="https://docs.example/")
    urls = " ".join(row["url"] for row in docs.rows().values())
    assert "/caf%E9" in urls
    assert "/two%20words" in urls
    assert docs.sync(site=site, base_url="https://docs.example/").changed == 0


def test_asciidoc_is_read_as_the_html_that_is_built_of_it(docs: Docs) -> None:
    docs.write("antora.yml", "name: desk\n")
    docs.write("modules/ROOT/pages/index.adoc", "= Desk\n")
    with pytest.raises(SourceError, match="set path to the HTML that Asciidoctor or Antora builds of it"):
        docs.sync()


def test_links_to_pictures_keep_the_address_of_their_page(docs: Docs) -> None:
    docs.write("a b/c.md", "[plan](plan.png) [other](two%20words.md)")
    docs.write("a b/two words.md", "text")
    docs.sync(base_url="https://docs.example/")
    body = docs.rows()["a b/c.md"]["body"]
    assert 'href="https://docs.example/a%20b/plan.png"' in body
    assert 'href="https://docs.example/a%20b/two%20words.md"' in body


def test_a_folder_that_is_gone_or_empty_deletes_nothing(docs: Docs) -> None:
    docs.write("a.md", "text")
    docs.sync()
    (docs.path / "a.md").unlink()
    with pytest.raises(SourceError, match="holds no file"):
        docs.sync(max_deleted_share=1)
    docs.path.rmdir()
    with pytest.raises(SourceError, match="does not exist"):
        docs.sync(max_deleted_share=1)


def test_a_zip_is_read_like_the_folder_in_it(docs: Docs, tmp_path: Path) -> None:
    docs.write("README.md", "# A\n\n[b](sub/b.md)")
    docs.write("sub/b.md", "# B\n")
    docs.sync(base_url="https://docs.example/")
    rows = docs.rows()
    archive = tmp_path / "docs.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for name in ("README.md", "sub/b.md"):
            out.write(docs.path / name, f"repository-main/{name}")
        out.writestr("repository-main/../../outside.md", "text")
        out.writestr("/etc/absolute.md", "text")
        link = zipfile.ZipInfo("repository-main/link.md")
        link.external_attr = 0o120777 << 16
        out.writestr(link, "/etc/passwd")
    zipped = docs.source(path=archive, base_url="https://docs.example/").sync(None, {})
    zipped_rows = {row["source_file"]: row for row in zipped.pages.to_pylist()}
    assert {name: row["body"] for name, row in zipped_rows.items()} == {name: row["body"] for name, row in rows.items()}
    assert zipped_rows["sub/b.md"]["ancestor_titles"] == ["A"]


def test_what_is_no_archive_is_an_error_and_links_lead_nowhere(docs: Docs, tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(SourceError, match="not a readable zip"):
        docs.source(path=tmp_path / "no.zip").fingerprint()
    with pytest.raises(SourceError, match="does not exist"):
        docs.source(path=tmp_path / "absent").fingerprint()
    docs.write("a.md", "text")
    (tmp_path / "secret.md").write_text("secret")
    (docs.path / "link.md").symlink_to(tmp_path / "secret.md")
    (docs.path / "folder").symlink_to(tmp_path)
    docs.sync()
    assert list(docs.rows()) == ["a.md"]


LOSSES = {
    "sphinx": (
        {
            "conf.py": "",
            "index.rst": "A\n=\n\n.. frob:: x\n\n.. include:: no.inc\n\n.. image:: a.png\n\n:ref:`no` :zap:`x` text\n",
        },
        {
            "directive frob": "lost",
            "include": "unresolved",
            "figure": "lost",
            "reference": "unresolved",
            "role zap": "lost",
        },
    ),
    "docusaurus": (
        {
            "docusaurus.config.js": "",
            "docs/a.mdx": "import P from './p.mdx'\n\n# A\n\n<Chart /> {compute()} ![](a.png)\n\n<P />\n\n"
            "<iframe src='x'></iframe>\n",
        },
        {
            "component Chart": "lost",
            "expression": "lost",
            "figure": "lost",
            "include": "unresolved",
            "embedded object": "lost",
        },
    ),
    "mkdocs": (
        {
            "mkdocs.yml": "markdown_extensions: [pymdownx.snippets]",
            "docs/a.md": '# A\n\n--8<-- "no.md"\n\n![](a.png)\n',
        },
        {"include": "unresolved", "figure": "lost"},
    ),
    "mdbook": (
        {"src/SUMMARY.md": "[A](a.md)", "src/a.md": "# A\n\n{{#include no.md}}\n\n<video></video>\n"},
        {"include": "unresolved", "embedded object": "lost"},
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_a_page_lost_is_in_the_ledger(name: str, docs: Docs) -> None:
    files, expected = LOSSES[name]
    for file, text in files.items():
        docs.write(file, text)
    result = docs.sync(site=name)
    ledger = build_sections(result.pages).ledger.to_pylist()
    assert {row["macro"]: row["outcome"] for row in ledger if row["macro"] != "anchor"} == expected
    assert {row["count"] for row in ledger} == {1}
    again = docs.sync(site=name)
    assert again.changed == 0


@pytest.mark.load
def test_a_thousand_unchanged_pages_take_less_than_a_second(docs: Docs) -> None:
    for number in range(1000):
        docs.write(f"{number % 20}/{number}.md", f"# Page {number}\n\n[next]({number + 20}.md)\n")
    first = docs.sync()
    state = {**first.state, "began": time.time() + 60}  # as if the files had been written long before
    began = time.process_time()
    fingerprint = docs.source().fingerprint()
    again = docs.source().sync(first.pages, state)
    assert time.process_time() - began < 1
    assert again.changed == 0
    assert fingerprint == docs.source().fingerprint()
