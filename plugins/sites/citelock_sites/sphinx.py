"""Sphinx projects: reStructuredText in the order of its toctrees."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from citelock_sites.markup import MarkupError, MarkupPage, PageSurroundings, ReferenceTarget
from citelock_sites.rst.context import INCLUDED_MAX, RstContext, RstSettings
from citelock_sites.rst.page import parsed_page, rst_page
from citelock_sites.sphinx_index import (
    PageIndex,
    SphinxConfig,
    TocEntry,
    glob_pattern,
    normalized,
    page_index,
    sphinx_config,
)
from rag_assets.sources.sites.site import (
    ExcludedPageError,
    SiteBody,
    SitePage,
    SitePlan,
    SourceTree,
    has_file,
    quoted,
    settings_text,
)
from rag_assets.steps.files.records import FileError, decoded
from rag_serving.documents.kinds import is_document_name

_SETTINGS = ("myst_enable_extensions", "myst_heading_anchors", "myst_substitutions", "myst_fence_as_directive")


def myst_page(
    text: str, name: str, around: PageSurroundings, settings: RstSettings, values: Mapping[str, Any]
) -> MarkupPage:
    """Return a page of MyST Markdown; `values` are those of `conf.py`.

    Raises:
        MarkupError: it cannot be read, or myst-parser is not installed.
    """
    try:
        from myst_parser.parsers.docutils_ import Parser
    except ImportError:
        raise MarkupError(
            "MyST Markdown is read where myst-parser is installed: pip install 'citelock[myst]'"
        ) from None
    context = RstContext(name, around, settings, language=settings.language)
    given = {key: values[key] for key in _SETTINGS if key in values}
    return parsed_page(text, context, Parser(), {"myst_suppress_warnings": ["myst"], **given})


CONF = "conf.py"
_INCLUDE = re.compile(r"(?<![^\n])([ \t]*)(?:\.\. include::|`{3,20}\{include\}) *(\S+)[^\n]*")
_NESTED_MAX = 8


@dataclass(frozen=True)
class _Documents:
    """The documents of a project by their names, which are those of their files without the ending."""

    config: SphinxConfig
    files: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, PageIndex] = field(default_factory=dict)


@dataclass(frozen=True)
class _Project:
    """A project's data for its pages: where labels, terms and objects are, as (document, id, title)."""

    config: SphinxConfig
    titles: Mapping[str, str]
    labels: Mapping[str, Sequence[str]]
    terms: Mapping[str, Sequence[str]]
    objects: Mapping[str, Sequence[str]]
    pages: Mapping[str, SitePage]  # by document


class SphinxSite:
    """The rules of Sphinx."""

    def __init__(self) -> None:
        self._last: tuple[SitePlan, _Project] | None = None  # that of a plan, made once

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`: the documents in the order of the toctrees, then those that are in none."""
        conf = settings_text(tree, CONF) if has_file(tree, CONF) else ""
        documents = _documents(tree, sphinx_config(conf))
        config = documents.config
        pages: dict[str, SitePage] = {}
        for document, parents, entry in _walk(documents, config.root, (), None):
            if document not in pages:
                pages[document] = _page(documents, document, parents, entry)
        for document in documents.files:
            if document not in pages:
                pages[document] = _page(documents, document, (), None)
        excluded = {
            name: "exclude_patterns of conf.py"
            for name in tree.names
            if (name.endswith(config.suffixes) or is_document_name(name)) and config.excluded.match(name)
        }
        settings = (CONF,) if conf else ()
        return SitePlan("sphinx", list(pages.values()), excluded, settings, {"conf": conf, **_facts(documents)})

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        project = self._project(plan)
        around = _SphinxSurroundings(tree, plan, page, project)
        try:
            made = _read(page.name, decoded(tree.read(page.name)), around, project.config)
        except MarkupError as error:
            raise FileError(str(error)) from None
        if "nosearch" in made.fields:
            raise ExcludedPageError("it is marked :nosearch:")
        if "noindex" in made.fields.get("robots", "").lower():
            raise ExcludedPageError("its robots field says noindex")
        lang = project.config.text("language") or None
        words = ",".join(made.fields.get(name, "") for name in ("keywords", "tags"))
        return SiteBody(
            f"<main>{made.html}</main>",
            made.title or page.title or posixpath.basename(_document(page.name, project.config)),
            labels=tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip())),
            lang=lang,
            read=tuple(dict.fromkeys([*made.read, *around.asked()])),
            reads_site=around.missed,
            lost=made.lost,
        )

    def _project(self, plan: SitePlan) -> _Project:
        if self._last is None or self._last[0] is not plan:
            facts = plan.facts
            config = sphinx_config(facts["conf"])
            pages = {_document(page.name, config): page for page in plan.pages}
            known = (facts["titles"], facts["labels"], facts["terms"], facts["objects"])
            self._last = (plan, _Project(config, *known, pages))
        return self._last[1]


def _read(name: str, text: str, around: _SphinxSurroundings, config: SphinxConfig) -> MarkupPage:
    if name.endswith((".md", ".markdown")):
        return myst_page(text, name, around, config.rst, config.values)
    return rst_page(text, name, around, config.rst)


def _document(name: str, config: SphinxConfig) -> str:
    return next((name.removesuffix(one) for one in config.suffixes if name.endswith(one)), name)


def _documents(tree: SourceTree, config: SphinxConfig) -> _Documents:
    files: dict[str, str] = {}
    for ending in config.suffixes:
        for name in tree.names:
            if name.endswith(ending) and not config.excluded.match(name):
                files.setdefault(name.removesuffix(ending), name)
    by_sections = "sphinx.ext.autosectionlabel" in config.texts("extensions")
    by_document = bool(config.values.get("autosectionlabel_prefix_document"))
    index = {}
    for document, name in sorted(files.items()):
        labels = None if not by_sections else f"{document}:" if by_document else ""
        index[document] = page_index(_Inclusion(tree).whole(name, _text(tree, name)), labels)
    return _Documents(config, dict(sorted(files.items())), index)


def _facts(documents: _Documents) -> dict[str, dict[str, Any]]:
    """Return the facts of all documents that bodies need: titles, and where labels, terms and objects are first."""
    facts: dict[str, dict[str, Any]] = {"titles": {}, "labels": {}, "terms": {}, "objects": {}}
    for document, found in documents.index.items():
        facts["titles"][document] = found.title
        for label, (name, title) in found.labels.items():
            facts["labels"].setdefault(label, [document, name, title])
        for term, (name, title) in found.terms.items():
            facts["terms"].setdefault(term, [document, name, title])
        for full, name in found.objects.items():
            facts["objects"].setdefault(full, [document, name, ""])
    return facts


def _text(tree: SourceTree, name: str) -> str:
    try:
        return decoded(tree.read(name))
    except (FileError, KeyError):  # its own reading reports it
        return ""


class _Inclusion:
    """Puts what one page includes into its text, up to a size in all."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._left = INCLUDED_MAX

    def whole(self, name: str, text: str, depth: int = 0) -> str:
        """Return a text with the files that it includes."""
        if depth > _NESTED_MAX:
            return text

        def included(match: re.Match[str]) -> str:
            target = _below(name, match[2])
            if target is None or self._left <= 0 or not has_file(self._tree, target):
                return match[0]
            content = _text(self._tree, target)
            self._left -= len(content) + 1
            inner = self.whole(target, content, depth + 1)
            return "\n".join(match[1] + line for line in inner.splitlines())

        return _INCLUDE.sub(included, text)


def _below(above: str, name: str) -> str | None:
    """Return the name of a file that a page names: below its own folder, or from `/` below the project's."""
    joined = name.lstrip("/") if name.startswith("/") else posixpath.join(posixpath.dirname(above), name)
    found = posixpath.normpath(joined)
    return None if found.startswith("..") or found == "." else found


def _page(documents: _Documents, document: str, parents: tuple[str, ...], entry: TocEntry | None) -> SitePage:
    suffix = documents.config.text("html_link_suffix") or documents.config.text("html_file_suffix") or ".html"
    names = tuple(documents.files[one] for one in parents)
    title = entry.title if entry else None
    category = entry.caption if entry else None
    return SitePage(documents.files[document], quoted(f"{document}{suffix}"), title, names, category)


def _walk(
    documents: _Documents, root: str, above: tuple[str, ...], entry: TocEntry | None
) -> Iterator[tuple[str, tuple[str, ...], TocEntry | None]]:
    """Yield the documents below one in the order of their toctrees, with those above each."""
    if root not in documents.files:
        return
    seen = {root}
    waiting = [(root, above, entry)]
    while waiting:
        document, parents, via = waiting.pop()
        yield document, parents, via
        below = []
        for child in documents.index[document].toc:
            for name in _entered(documents, document, child):
                if name not in seen:
                    seen.add(name)
                    caption = child.caption or (via.caption if via else None)
                    below.append((name, (*parents, document), TocEntry(name, child.title, caption)))
        waiting += reversed(below)


def _entered(documents: _Documents, document: str, entry: TocEntry) -> list[str]:
    if "://" in entry.target or entry.target == "self":
        return []
    target = _below(f"{document}.rst", entry.target) or ""
    name = _document(target, documents.config)
    if name in documents.files:
        return [name]
    if not entry.glob or not any(mark in target for mark in "*?["):
        return []
    pattern = re.compile(glob_pattern(target))
    return [one for one in documents.files if pattern.fullmatch(one) and one != document]


class _SphinxSurroundings:
    def __init__(self, tree: SourceTree, plan: SitePlan, page: SitePage, project: _Project) -> None:
        self._tree, self._plan, self._page, self._project = tree, plan, page, project
        self._asked: set[str] = set()
        self.missed = False  # whether a reference leads nowhere

    def asked(self) -> list[str]:
        """Return the files that references of the page lead to."""
        return sorted(self._asked - {self._page.name})

    def file(self, name: str, above: str) -> tuple[str, str] | None:
        found = _below(above, name)
        if found is None or not has_file(self._tree, found):
            return None
        try:
            return found, decoded(self._tree.read(found))
        except (FileError, KeyError):
            return None

    def target(self, kind: str, name: str, page: str) -> ReferenceTarget | None:
        found = self._found(kind, name, page)
        if found is None and kind in ("ref", "numref", "doc", "term", "any"):
            self.missed = True
        return found

    def _found(self, kind: str, name: str, page: str) -> ReferenceTarget | None:
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

    def _document(self, name: str) -> ReferenceTarget | None:
        document = _document(name, self._project.config)
        page = self._project.pages.get(document)
        if page is None:
            return None
        self._asked.add(page.name)
        return ReferenceTarget(self._plan.address(page), self._project.titles.get(document, ""))

    def _labelled(self, found: Sequence[str] | None) -> ReferenceTarget | None:
        return self._at(*found) if found is not None else None

    def _object(self, name: str) -> ReferenceTarget | None:
        return self._labelled(self._project.objects.get(name))

    def _at(self, document: str, name: str, title: str) -> ReferenceTarget | None:
        page = self._project.pages.get(document)
        if page is None:
            return None
        self._asked.add(page.name)
        here = "" if page.name == self._page.name else self._plan.address(page)
        return ReferenceTarget(f"{here}#{name}" if name else here, title)
