"""Sphinx projects: reStructuredText in the order of its toctrees.

Belongs here: which files are pages, their order and parents, where references between them lead.
Does not belong here: `conf.py` (`sphinx_config`), what pages are reached by (`sphinx_index`), reStructuredText itself
(`rag_assets.steps.markup.rst`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from rag_assets.sources.sites.site import ExcludedPageError, SiteBody, SitePage, SitePlan, Tree
from rag_assets.sources.sites.sphinx_config import SphinxConfig, glob_pattern, sphinx_config
from rag_assets.sources.sites.sphinx_index import PageIndex, TocEntry, normalized, page_index
from rag_assets.steps.files.decoding import decoded
from rag_assets.steps.files.records import FileError
from rag_assets.steps.markup.records import MarkupError, MarkupPage, Target
from rag_assets.steps.markup.rst.page import rst_page

CONF = "conf.py"
_INCLUDE = re.compile(r"(?<![^\n])([ \t]*)\.\. include:: *(\S+)[^\n]*")
_NESTED_MAX = 8


@dataclass
class _Project:
    """A project as it was planned: its documents by name, without their endings."""

    config: SphinxConfig
    names: Mapping[str, str] = field(default_factory=dict)  # document -> file
    index: Mapping[str, PageIndex] = field(default_factory=dict)  # by document
    labels: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # document, id, title
    terms: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    objects: dict[str, tuple[str, str]] = field(default_factory=dict)  # document, id


class SphinxSite:
    """The rules of Sphinx."""

    def __init__(self) -> None:
        self._planned: tuple[Tree, _Project] | None = None

    def plan(self, tree: Tree) -> SitePlan:
        """See `Site`: the documents in the order of the toctrees, then those that are in none."""
        project = _project(tree)
        self._planned = (tree, project)
        pages: dict[str, SitePage] = {}
        for document, parents, entry in _walk(project, project.config.root, (), None):
            if document not in pages:
                pages[document] = _page(project, document, parents, entry)
        for document in project.names:
            if document not in pages:
                pages[document] = _page(project, document, (), None)
        excluded = {
            name: "exclude_patterns of conf.py"
            for name in tree.names
            if name.endswith(project.config.suffixes) and project.config.excluded.match(name)
        }
        settings = (CONF,) if CONF in tree.names else ()
        return SitePlan("sphinx", list(pages.values()), excluded, settings)

    def body(self, tree: Tree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        if self._planned is None or self._planned[0] is not tree:
            self._planned = (tree, _project(tree))
        project = self._planned[1]
        around = _Around(tree, plan, page, project)
        try:
            made = _read(page.name, decoded(tree.read(page.name)), around, project.config)
        except MarkupError as error:
            raise FileError(str(error)) from None
        if "nosearch" in made.fields:
            raise ExcludedPageError("it is marked :nosearch:")
        if reason := _robots(made.fields):
            raise ExcludedPageError(reason)
        lang = project.config.text("language") or None
        return SiteBody(
            f"<main>{made.html}</main>",
            made.title or page.title or posixpath.basename(_document(page.name, project.config)),
            labels=_labels(made.fields),
            lang=lang,
            read=tuple(dict.fromkeys([*made.read, *around.asked(plan)])),
            lost=made.lost,
        )


def _read(name: str, text: str, around: _Around, config: SphinxConfig) -> MarkupPage:
    if name.endswith((".md", ".markdown")):
        from rag_assets.steps.markup.myst import myst_page

        return myst_page(text, name, around, config.rst, config.values)
    return rst_page(text, name, around, config.rst)


def _robots(fields: Mapping[str, str]) -> str | None:
    return "its robots field says noindex" if "noindex" in fields.get("robots", "").lower() else None


def _labels(fields: Mapping[str, str]) -> tuple[str, ...]:
    words = ",".join(fields.get(name, "") for name in ("keywords", "tags"))
    return tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))


def _document(name: str, config: SphinxConfig) -> str:
    return next((name.removesuffix(one) for one in config.suffixes if name.endswith(one)), name)


def _project(tree: Tree) -> _Project:
    config = sphinx_config(decoded(tree.read(CONF)) if CONF in tree.names else "")
    names: dict[str, str] = {}
    for ending in config.suffixes:
        for name in tree.names:
            if name.endswith(ending) and not config.excluded.match(name):
                names.setdefault(name.removesuffix(ending), name)
    names = dict(sorted(names.items()))
    by_sections = "sphinx.ext.autosectionlabel" in config.texts("extensions")
    by_document = bool(config.values.get("autosectionlabel_prefix_document"))
    index = {}
    for document, name in names.items():
        labels = None if not by_sections else f"{document}:" if by_document else ""
        index[document] = page_index(_whole(tree, name, _text(tree, name)), labels)
    project = _Project(config, names, index)
    for document, found in index.items():
        for label, (name, title) in found.labels.items():
            project.labels.setdefault(label, (document, name, title))
        for term, (name, title) in found.terms.items():
            project.terms.setdefault(term, (document, name, title))
        for full, name in found.objects.items():
            project.objects.setdefault(full, (document, name))
    return project


def _text(tree: Tree, name: str) -> str:
    try:
        return decoded(tree.read(name))
    except (FileError, KeyError):  # its own reading says so
        return ""


def _whole(tree: Tree, name: str, text: str, depth: int = 0) -> str:
    """Return a text with the files that it includes."""
    if depth > _NESTED_MAX:
        return text

    def included(match: re.Match[str]) -> str:
        target = _below(name, match[2])
        if target is None or target not in tree.names:
            return match[0]
        inner = _whole(tree, target, _text(tree, target), depth + 1)
        return "\n".join(match[1] + line for line in inner.splitlines()) if len(inner) < 1_000_000 else match[0]

    return _INCLUDE.sub(included, text)


def _below(above: str, name: str) -> str | None:
    """Return the name of a file that a page names: below its own folder, or from `/` below the project's."""
    joined = name.lstrip("/") if name.startswith("/") else posixpath.join(posixpath.dirname(above), name)
    found = posixpath.normpath(joined)
    return None if found.startswith("..") or found == "." else found


def _page(project: _Project, document: str, parents: tuple[str, ...], entry: TocEntry | None) -> SitePage:
    suffix = project.config.text("html_link_suffix") or project.config.text("html_file_suffix") or ".html"
    names = tuple(project.names[one] for one in parents)
    title = entry.title if entry else None
    category = entry.caption if entry else None
    return SitePage(project.names[document], quote(f"{document}{suffix}"), title, names, category)


def _walk(
    project: _Project, root: str, above: tuple[str, ...], entry: TocEntry | None
) -> Iterator[tuple[str, tuple[str, ...], TocEntry | None]]:
    """Yield the documents below one in the order of their toctrees, with those above each."""
    if root not in project.names:
        return
    seen = {root}
    waiting = [(root, above, entry)]
    while waiting:
        document, parents, via = waiting.pop()
        yield document, parents, via
        below = []
        for child in project.index[document].toc:
            for name in _entered(project, document, child):
                if name not in seen:
                    seen.add(name)
                    caption = child.caption or (via.caption if via else None)
                    below.append((name, (*parents, document), TocEntry(name, child.title, caption)))
        waiting += reversed(below)


def _entered(project: _Project, document: str, entry: TocEntry) -> list[str]:
    """Return the documents that an entry of a toctree names."""
    if "://" in entry.target or entry.target == "self":
        return []
    target = _below(f"{document}.rst", entry.target) or ""
    name = _document(target, project.config)
    if name in project.names:
        return [name]
    if not entry.glob or not any(mark in target for mark in "*?["):
        return []
    pattern = re.compile(glob_pattern(target))
    return [one for one in project.names if pattern.fullmatch(one) and one != document]


class _Around:
    """The files and pages around one page (`Surroundings`)."""

    def __init__(self, tree: Tree, plan: SitePlan, page: SitePage, project: _Project) -> None:
        self._tree, self._plan, self._page, self._project = tree, plan, page, project
        self._pages = {_document(one.name, project.config): one for one in plan.pages}
        self._asked: set[str] = set()
        self._missed = False

    def asked(self, plan: SitePlan) -> list[str]:
        """Return the files that references of the page depend on: all of them where one led nowhere."""
        if self._missed:
            return [one.name for one in plan.pages if one.name != self._page.name]
        return sorted(self._asked - {self._page.name})

    def file(self, name: str, above: str) -> tuple[str, str] | None:
        """See `Surroundings`."""
        found = _below(above, name)
        if found is None or found not in self._tree.names:
            return None
        try:
            return found, decoded(self._tree.read(found))
        except (FileError, KeyError):
            return None

    def target(self, kind: str, name: str, page: str) -> Target | None:
        """See `Surroundings`."""
        found = self._found(kind, name, page)
        if found is None and kind in ("ref", "numref", "doc", "term", "any"):
            self._missed = True
        return found

    def _found(self, kind: str, name: str, page: str) -> Target | None:
        match kind:
            case "doc":
                return self._document(_below(page, name) or "")
            case "ref" | "numref":
                return self._labelled(self._project.labels.get(normalized(name)))
            case "term":
                return self._labelled(self._project.terms.get(" ".join(name.split()).lower()))
            case "any":
                kinds = ("doc", "ref", "term", "object")
                return next((one for each in kinds if (one := self._found(each, name, page))), None)
            case "option" | "envvar" | "confval":
                return self._object(f"{kind} {name}")
            case _:
                return self._object(name)

    def _document(self, name: str) -> Target | None:
        page = self._pages.get(_document(name, self._project.config))
        if page is None:
            return None
        self._asked.add(page.name)
        return Target(self._plan.address(page), self._project.index[_document(page.name, self._project.config)].title)

    def _labelled(self, found: tuple[str, str, str] | None) -> Target | None:
        if found is None:
            return None
        document, name, title = found
        return self._at(document, name, title)

    def _object(self, name: str) -> Target | None:
        found = self._project.objects.get(name)
        return self._at(*found, "") if found else None

    def _at(self, document: str, name: str, title: str) -> Target | None:
        page = self._pages.get(document)
        if page is None:
            return None
        self._asked.add(page.name)
        here = "" if page.name == self._page.name else self._plan.address(page)
        return Target(f"{here}#{name}" if name else here, title)
