"""Addresses of our pages and ids of their headings are those of the real generators, and links lead to them.

MkDocs and Sphinx build their forms of the corpus here. What the others make is in `recorded/`, with their versions;
`python tests/support/generator_ids.py` records it anew.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.generator_ids import built_pages, heading_ids

from citelock_sites.docusaurus import DocusaurusSite
from citelock_sites.mkdocs import MkdocsSite
from citelock_sites.sphinx import SphinxSite
from rag_assets.sources.sites.built_html import BuiltSite
from rag_assets.sources.sites.site import ExcludedPageError, Site

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
# Settings that change ids or addresses, put into the corpus of pymdown's extensions.
PYMDOWN = "!!python/object/apply:pymdownx.slugs.slugify"
VARIANTS = {
    "plain": ("toc: {permalink: true}", "use_directory_urls: false"),
    "unicode": ("toc: {slugify: !!python/name:markdown.extensions.toc.slugify_unicode , separator: _}", ""),
    "cased": (f"toc: {{slugify: {PYMDOWN} {{}}}}", ""),
    "folded": (f"toc: {{slugify: {PYMDOWN} {{kwds: {{case: fold, percent_encode: true}}}}}}", ""),
    "ascii": (f"toc: {{slugify: {PYMDOWN} {{kwds: {{case: lower-ascii, normalize: NFD}}}}}}", ""),
}
BUILD = """
import os, sys
from mkdocs.commands.build import build
from mkdocs.config import load_config
for folder in sys.argv[1:]:
    os.chdir(folder)  # snippets are found below the working directory
    build(load_config("mkdocs.yml", site_dir="built"))
"""


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
    found = {}
    for page in plan.pages:
        try:
            found[page.path] = site.body(tree, plan, page).html
        except ExcludedPageError:
            continue
    return found


def file_of(path: str) -> str:
    """Return the file that an address of a page is served from."""
    name = unquote(path)
    return name if name.endswith(".html") else f"{name}/index.html".lstrip("/").replace("//", "/")


def assert_same_pages(ours: dict[str, str], theirs: dict[str, list[str]], *, generated: frozenset[str]) -> None:
    """Assert that the pages and the ids of their headings are the same; `generated` are theirs without a file."""
    assert {file_of(path) for path in ours} == theirs.keys() - generated
    for path, body in ours.items():
        assert heading_ids(body) == theirs[file_of(path)], path


def assert_links_lead_somewhere(pages: dict[str, str]) -> None:
    """Assert that every link to an address of the site reaches a page and an id on it."""
    targets = [href for body in pages.values() for href in re.findall(r'href="/([^"]*)"', body)]
    assert targets
    for href in targets:
        path, mark, anchor = href.partition("#")
        assert path in pages, href
        assert not mark or f'id="{unquote(anchor)}"' in pages[path], href


def variant(folder: Path, toc: str, further: str) -> None:
    """Write the corpus of pymdown's extensions with other settings."""
    shutil.copytree(CORPUS / "pymdown", folder)
    settings = (folder / "mkdocs.yml").read_text(encoding="utf-8")
    settings = re.sub(r"- toc:\n(?: {6}.*\n)+", f"- {toc}\n", settings)
    (folder / "mkdocs.yml").write_text(f"{further}\n{settings}", encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the corpora built by MkDocs and Sphinx: copies, with the site in `built`."""
    folder = tmp_path_factory.mktemp("sites")
    for name in ("markdown", "pymdown", "sphinx", "myst"):
        shutil.copytree(CORPUS / name, folder / name)
    for name, (toc, further) in VARIANTS.items():
        variant(folder / name, toc, further)
    mkdocs = [str(folder / name) for name in ("markdown", "pymdown", *VARIANTS)]
    commands = [["-c", BUILD, *mkdocs]]
    for name in ("sphinx", "myst"):
        trees = str(folder / f"{name}-trees")
        commands.append(["-m", "sphinx", "-q", "-d", trees, str(folder / name), str(folder / name / "built")])
    running = [subprocess.Popen([sys.executable, *command], cwd=folder) for command in commands]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["markdown", "pymdown", *VARIANTS])
def test_pages_and_ids_are_those_of_mkdocs(name: str, built: dict[str, Path]) -> None:
    ours = bodies(MkdocsSite(), built[name])
    assert_same_pages(ours, built_pages(built[name] / "built"), generated=frozenset({"404.html"}))
    if name in ("markdown", "pymdown"):
        assert_links_lead_somewhere(ours)


@pytest.mark.parametrize("name", ["sphinx", "myst"])
def test_pages_and_ids_are_those_of_sphinx(name: str, built: dict[str, Path]) -> None:
    ours = bodies(SphinxSite(), CORPUS / name)
    generated = frozenset({"genindex.html", "search.html"})
    assert_same_pages(ours, built_pages(built[name] / "built"), generated=generated)
    assert_links_lead_somewhere(ours)


@pytest.mark.parametrize("name", ["sphinx", "markdown"])
def test_a_built_site_keeps_the_ids_of_its_headings(name: str, built: dict[str, Path]) -> None:
    tree = Files(built[name] / "built")
    site = BuiltSite()
    plan = site.plan(tree)
    assert {"search.html", "genindex.html", "404.html"} & set(tree.names) <= plan.excluded.keys()
    for page in plan.pages:
        assert heading_ids(site.body(tree, plan, page).html) == heading_ids(tree.read(page.name)), page.name


RECORDED: dict[str, tuple[str, Site, frozenset[str]]] = {  # corpus, ours, pages that the generator makes of no file
    "docusaurus": (
        "docusaurus",
        DocusaurusSite(),
        frozenset({"404.html", "docs/next/tags/index.html", "docs/next/tags/first/index.html"}),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_pages_and_ids_are_those_that_were_recorded(name: str) -> None:
    theirs = json.loads((HERE / "recorded" / f"{name}.json").read_text(encoding="utf-8"))["pages"]
    folder, site, generated = RECORDED[name]
    ours = bodies(site, CORPUS / folder)
    assert_same_pages(ours, theirs, generated=generated)
    assert_links_lead_somewhere(ours)
