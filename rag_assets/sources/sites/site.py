"""The parts of a documentation site, for any generator.

Belongs here: the tree of files, the plan of its pages, the body of one. Does not belong here: any generator's rules,
which have a module each, opening folders and archives, rows of PAGES.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import quote, unquote

from rag_assets.steps.files.records import FileError, decoded


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
        """Return the content of a file.

        Raises:
            KeyError: there is none of that name.
            FileError: it cannot be read, or is larger than allowed.
        """
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
        """Return one of them as the generator would show it.

        Raises:
            ExcludedPageError: it is left out on purpose.
            FileError: it cannot be read.
        """
        ...
