"""The ids of our headings are those of the real generators, and links lead to them.

MkDocs and Sphinx build their form of the corpus here. What Asciidoctor gives is in `asciidoctor_ids.json`, which
`node asciidoctor.mjs corpus/asciidoc` prints where `@asciidoctor/core` is installed; what Docusaurus' own plugin gives
the headings is in `docusaurus_ids.json` (`docusaurus.mjs`).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from rag_assets.sources.sites.asciidoc import AsciidocSite
from rag_assets.sources.sites.built_html import BuiltSite
from rag_assets.sources.sites.docusaurus import DocusaurusSite
from rag_assets.sources.sites.mkdocs import MkdocsSite
from rag_assets.sources.sites.site import Site
from rag_assets.sources.sites.sphinx import SphinxSite

HERE = Path(__file__).parent
_OF_THEMES = {"searchlabel", "keyboardModalLabel", "searchModalLabel"}


class Files:
    """The files of a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())

    def stamp(self, name: str) -> str:
        return name

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()


def bodies(site: Site, root: Path) -> dict[str, str]:
    """Return the HTML of the pages of a site, by their paths."""
    tree = Files(root)
    plan = site.plan(tree)
    return {page.path: site.body(tree, plan, page).html for page in plan.pages}


def ids(source: str | bytes) -> list[str]:
    """Return the ids of the headings of a page: their own, or those of the sections that they open."""
    found = []
    for heading in html.fromstring(source).iter("h1", "h2", "h3", "h4", "h5", "h6"):
        above: Any = heading.getparent()
        name = heading.get("id") or (above.get("id") if above is not None and above.tag == "section" else None)
        if name and name not in _OF_THEMES:
            found.append(name)
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where MkDocs and Sphinx built the corpus."""
    folder = tmp_path_factory.mktemp("built")
    corpus = HERE / "corpus"
    commands = {
        "sphinx": ["sphinx", "-q", "-d", str(folder / "trees"), str(corpus / "sphinx"), str(folder / "sphinx")],
        "markdown": [
            "mkdocs",
            "build",
            "-q",
            "-f",
            str(corpus / "markdown/mkdocs.yml"),
            "-d",
            str(folder / "markdown"),
        ],
    }
    running = [subprocess.Popen([sys.executable, "-m", *command], cwd=folder) for command in commands.values()]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    return {name: folder / name for name in commands}


@pytest.mark.parametrize(("name", "site"), [("sphinx", SphinxSite()), ("markdown", MkdocsSite())])
def test_ids_are_those_of_the_generator_and_links_lead_to_them(name: str, site: Site, built: dict[str, Path]) -> None:
    pages = bodies(site, HERE / "corpus" / name)
    assert len(pages) == 2
    for path, body in pages.items():
        file = built[name] / (path if path.endswith(".html") else f"{path}index.html")
        assert ids(body) == ids(file.read_bytes()), path
    targets = [href for body in pages.values() for href in re.findall(r'href="/([^"]*)"', body)]
    assert targets
    for href in targets:
        path, mark, anchor = href.partition("#")
        assert path in pages, href
        assert not mark or f'id="{anchor}"' in pages[path], href


@pytest.mark.parametrize("name", ["sphinx", "markdown"])
def test_a_built_site_keeps_the_ids_of_its_headings(name: str, built: dict[str, Path]) -> None:
    tree = Files(built[name])
    site = BuiltSite()
    plan = site.plan(tree)
    assert {"search.html", "genindex.html", "404.html"} & set(tree.names) <= plan.excluded.keys()
    for page in plan.pages:
        assert ids(site.body(tree, plan, page).html) == ids(tree.read(page.name)), page.name


def test_ids_are_those_of_asciidoctor() -> None:
    expected = json.loads((HERE / "asciidoctor_ids.json").read_text(encoding="utf-8"))
    pages = bodies(AsciidocSite(), HERE / "corpus" / "asciidoc")
    assert {path.replace(".html", ".adoc"): ids(body) for path, body in pages.items()} == expected


def test_ids_are_those_of_docusaurus(tmp_path: Path) -> None:
    expected = json.loads((HERE / "docusaurus_ids.json").read_text(encoding="utf-8"))
    shutil.copytree(HERE / "corpus/markdown/docs", tmp_path / "docs")
    (tmp_path / "docusaurus.config.js").write_text("module.exports = {title: 'Corpus', baseUrl: '/'}")
    tree, site = Files(tmp_path), DocusaurusSite()
    plan = site.plan(tree)
    assert {Path(page.name).name: ids(site.body(tree, plan, page).html) for page in plan.pages} == expected
