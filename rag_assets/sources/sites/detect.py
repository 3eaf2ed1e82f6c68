"""The generator of a tree of documents, and the folder of its files.

Belongs here: the table of generators with their identifying files, plug-ins' included, opening their rules.
Does not belong here: the rules.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rag_assets.sources.base import SourceError
from rag_assets.sources.sites.site import Site
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
    """Return the generator of a tree, the folder where its files begin ("" is the root), and its rules.

    Args:
        names: of all files.
        wanted: `site` of the settings; `auto` looks for the signs of each, the ones nearest to the root count.
        key: the source, for error messages.

    Raises:
        SourceError: no such generator is known, its plug-in is not installed, or the files are AsciiDoc.
    """
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
    """Return the folders that contain one of the signs."""
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
