"""The parts of a documentation site, for any generator, and which one made a tree of files."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote, unquote

from rag_assets.sources.base import SourceError
from rag_assets.steps.files.records import FileError, decoded
from rag_serving.plugins import loaded

GROUP = "citelock.sources"
"""Of the entry points of generators that plug-ins read, named as in `GENERATORS`; each gives a `Site`."""
SUMMARY = "SUMMARY.md"
"""The table of contents of a book, where the chapters stand beside it."""


@dataclass(frozen=True)
class SiteGenerator:
    """A generator: `signs` are paths of files that only it has, below where its files begin."""

    signs: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()  # of its files, without a sign
    beside: tuple[str, ...] = ()  # files and folders (`x/`), one of which must be beside a sign; empty: none


def _programs(*stems: str) -> tuple[str, ...]:
    return tuple(f"{stem}.{ending}" for stem in stems for ending in ("js", "ts", "mjs", "cjs", "mts", "cts"))


_ASCIIDOC = (".adoc", ".asciidoc", ".asc")
_HUGO = tuple(
    f"{stem}.{ending}"
    for stem in ("hugo", "config", "config/_default/hugo", "config/_default/config")
    for ending in ("toml", "yaml", "yml", "json")
)
GENERATORS: Mapping[str, SiteGenerator] = MappingProxyType(
    {
        "docusaurus": SiteGenerator((*_programs("docusaurus.config"), "sidebars.js")),
        "mkdocs": SiteGenerator(("mkdocs.yml", "mkdocs.yaml")),
        "sphinx": SiteGenerator(("conf.py",), (".rst",), ("index.rst", "index.md", "contents.rst", "index.txt")),
        "html": SiteGenerator((), (".html", ".htm", ".xhtml")),
        "mdbook": SiteGenerator(("book.toml", "src/SUMMARY.md")),
        "eleventy": SiteGenerator(_programs(".eleventy", "eleventy.config")),
        "jekyll": SiteGenerator(("_config.yml", "_config.yaml", "_config.toml")),
        "hugo": SiteGenerator(_HUGO, (), ("content/", "layouts/", "themes/")),
        "github": SiteGenerator((), (".md", ".markdown", ".mdx")),
    }
)
"""By the name that `site` has; where two are shown at one place, the first counts. Where nothing is
shown, the one counts whose files are most; `github` is what is left."""


def found_site(names: Sequence[str], wanted: str, key: str) -> tuple[str, str, Site]:
    """Return the generator of a tree of files, the folder where its files begin ("" is the root), and its rules.
    `wanted`: `site` of the settings; `auto` looks for the signs of each, the ones nearest to the root count. Raises
    SourceError: no such generator is known, its plug-in is not installed, or the files are AsciiDoc."""
    if wanted != "auto" and wanted not in GENERATORS:
        raise SourceError(f"site {wanted!r} is not read; set sources.{key}.site to {' or '.join(sorted(GENERATORS))}")
    asked = GENERATORS if wanted == "auto" else {wanted: GENERATORS[wanted]}
    places = [
        (folder.count("/") + bool(folder), at, folder, name)
        for at, (name, generator) in enumerate(asked.items())
        for folder in _places(names, generator)
    ]
    if not places:
        name = _most(names, key) if wanted == "auto" else wanted
        return name, "", open_site(name, key)
    _, _, folder, name = min(places)
    return name, folder, open_site(name, key)


def open_site(name: str, key: str = "") -> Site:
    """Return the rules of a generator. Raises SourceError if its plug-in is not installed."""
    match name:
        case "html":
            from rag_assets.sources.sites.built_html import BuiltSite

            return BuiltSite()
        case "mdbook":
            from rag_assets.sources.sites.mdbook import MdBookSite

            return MdBookSite()
        case "github":
            from rag_assets.sources.sites.markdown_page import GithubSite

            return GithubSite()
    if name not in loaded(GROUP):
        raise SourceError(
            f"source {key!r} is a site of {name}: pip install 'citelock[sites]' on the machine that builds"
        )
    site: Site = loaded(GROUP)[name].load()()
    return site


def _most(names: Sequence[str], key: str) -> str:
    """Return the generator that reads most of the files; that of Markdown where another reads as many."""
    counts = {name: sum(one.lower().endswith(of.endings) for one in names) for name, of in GENERATORS.items()}
    name = max(counts, key=lambda name: (counts[name], name == "github"))
    if sum(one.lower().endswith(_ASCIIDOC) for one in names) > counts[name]:
        raise SourceError(f"source {key!r} is AsciiDoc: set path to the HTML that Asciidoctor or Antora builds of it")
    return name


def _has(names: Sequence[str], folder: str) -> bool:
    """Return whether a folder, written with `/` at its end, is among sorted names."""
    at = bisect_left(names, folder)
    return at < len(names) and names[at].startswith(folder)


def _places(names: Sequence[str], generator: SiteGenerator) -> list[str]:
    folders = []
    known = frozenset(names) if generator.beside else frozenset()
    for name in names:
        for sign in generator.signs:
            if name == sign or name.endswith(f"/{sign}"):
                folder = name[: -len(sign)]
                beside = [f"{folder}{one}" for one in generator.beside]
                if not beside or any(one in known or (one[-1] == "/" and _has(names, one)) for one in beside):
                    folders.append(posixpath.normpath(folder or ".").removeprefix("."))
    return folders


class SourceTree(Protocol):
    """The files of a folder, an archive, or a git working tree, by their names below its root, with `/`."""

    @property
    def names(self) -> Sequence[str]:
        """All files, sorted; hidden ones and links are left aside."""
        ...

    def stamp(self, name: str) -> str:
        """Return a value that changes with a file; the file is not opened."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises KeyError: there is none of that name. Raises FileError: it cannot be
        read, or is larger than allowed."""
        ...


def has_file(tree: SourceTree, name: str) -> bool:
    """Return whether a tree has a file of this name."""
    at = bisect_left(tree.names, name)
    return at < len(tree.names) and tree.names[at] == name


def quoted(path: str) -> str:
    """Return a path as in addresses; bytes of a name that are no UTF-8 stay unchanged."""
    return quote(path, errors="surrogateescape")


def text_of(content: bytes) -> str:
    """Return the text of a file with `\\n` at the ends of its lines. Raises FileError if it is none."""
    return decoded(content).replace("\r\n", "\n").replace("\r", "\n")


def settings_text(tree: SourceTree, name: str) -> str:
    """Return the text of a file of settings. Raises FileError, naming it, if it cannot be read."""
    try:
        return text_of(tree.read(name))
    except FileError as error:
        raise FileError(f"{name}: {error}") from None


@dataclass(frozen=True)
class SitePage:
    """A page of the site, before it is read."""

    name: str  # of its file in the tree
    path: str  # of its address, quoted, below `base_url`: `ch01-02.html`, `guides/setup/`; empty: the root of the site
    title: str | None = None  # in the navigation; None: the page says it
    parents: tuple[str, ...] = ()  # names of the pages above it in the navigation, root first
    category: str | None = None
    number: str | None = None  # of its chapter in a book, such as 3.2
    version: str = ""  # that it is about, where the site has several: `version 3.2`, `unreleased version next`
    canonical: str = ""  # the address that it calls its own, as written; empty: it names none
    is_document: bool = False  # whether it is read as files are (a PDF), not by the rules of a generator


@dataclass(frozen=True, eq=False)
class SitePlan:
    """The pages of a site in reading order, and why other files of it are none, by name."""

    generator: str  # name in `detect.GENERATORS`
    pages: Sequence[SitePage]
    excluded: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()  # names of files that shape all pages: where one changes, all are read again
    facts: Mapping[str, Any] = field(default_factory=dict)  # what else bodies need to know of the site, as JSON has it
    roots: tuple[str, ...] = (
        "",
    )  # folders that addresses of pages, and of files that are served as they are, begin at
    documents: Sequence[SitePage] = ()  # files that are no pages and are read as documents; filled in by the source
    addresses: Mapping[str, str] = field(default_factory=dict)  # of the pages, by name; filled in by the source
    base_url: str = ""  # where the site is served, with `/` at its end; filled in by the source

    @cached_property
    def by_name(self) -> Mapping[str, SitePage]:
        """The pages and documents by the names of their files."""
        return {page.name: page for page in (*self.pages, *self.documents)}

    @cached_property
    def by_path(self) -> Mapping[str, SitePage]:
        """The pages by their paths, not quoted, without `/` at the ends; the first where two have one."""
        return {unquote(page.path).strip("/"): page for page in reversed(self.pages)}

    def address(self, page: SitePage) -> str:
        """Return the address of a page: the target of links to it, before `#`."""
        return self.addresses.get(page.name) or f"{self.base_url or '/'}{page.path}"


@dataclass(frozen=True)
class SiteBody:
    """A page as its generator shows it.

    `html` has one `<main>`: headings carry the ids that the generator gives them, links to other pages of the site are
    those of `SitePlan.address` (and `#id`). Code is verbatim in `<pre><code class="language-x">`, an admonition is a
    `<blockquote>` that begins with its title in bold, a tab a paragraph in bold before its content.
    """

    html: str
    title: str
    slug: str | None = None
    labels: tuple[str, ...] = ()  # tags and keywords
    category: str | None = None
    lang: str | None = None
    read: tuple[str, ...] = ()  # names of other files that it includes
    reads_site: bool = False  # whether any page may change what it shows: a reference of it leads nowhere yet
    lost: Mapping[str, int] = field(default_factory=dict)  # what could not be carried over, by kind, and how often
    updated_at: datetime | None = None  # where the page says when it was changed


class ExcludedPageError(Exception):
    """A page that its own front matter or head takes out: a draft, `noindex`; the message says why."""


class Site(Protocol):
    """The rules of one generator. It keeps nothing between calls: a plan can be used in another process."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """Return the pages that the generator would make of a tree."""
        ...

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """Return one of them as the generator would show it. Raises ExcludedPageError: it is left out on purpose.
        Raises FileError: it cannot be read."""
        ...
