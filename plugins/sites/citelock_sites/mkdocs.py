"""Sites of MkDocs: `mkdocs.yml` and the pages below `docs_dir`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from citelock_sites.mkdocs_markdown import MkdocsSlugger, PymdownSlugger, Snippets, plain_markdown
from citelock_sites.templates import Template
from rag_assets.sources.sites.front_matter import TAG, FrontMatter, YamlError, read_yaml
from rag_assets.sources.sites.markdown_page import (
    heading_title,
    html_main,
    markdown_body,
    markdown_main,
    name_title,
    raw_headings_marked,
    read_markdown,
    set_ids,
    words_of,
)
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan, SourceTree, quoted, settings_text
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element
from rag_serving.documents.kinds import is_document_name

SETTINGS = ("mkdocs.yml", "mkdocs.yaml")
_ENDINGS = (".md", ".markdown", ".mdown", ".mkdn", ".mkd")
_NAVIGATION = frozenset({"SUMMARY.md", "_sidebar.md"})
_URL = re.compile(r"[a-zA-Z][\w+.-]*:|//|/")
_MARKS = {"~": "pymdownx.tilde", "^": "pymdownx.caret"}


@dataclass(frozen=True)
class MkdocsSettings:
    """The settings in `mkdocs.yml` that shape pages."""

    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def docs(self) -> str:
        """The folder of the pages."""
        folder = self.values.get("docs_dir", "docs")
        return posixpath.normpath(folder) if isinstance(folder, str) and folder else "docs"

    @property
    def root(self) -> str:
        """The same, empty for the root of the tree."""
        return "" if self.docs == "." else self.docs

    @property
    def prefix(self) -> str:
        """The prefix of page names."""
        return f"{self.root}/" if self.root else ""

    @property
    def has_directories(self) -> bool:
        """Whether `setup.md` is shown at `setup/`."""
        return self.values.get("use_directory_urls", True) is not False

    @property
    def language(self) -> str | None:
        """The language of the theme."""
        theme = self.values.get("theme")
        language = theme.get("language") if isinstance(theme, dict) else None
        return language[:2].lower() if isinstance(language, str) and language[:2].isalpha() else None

    def plugin(self, name: str) -> Mapping[str, Any] | None:
        """Return the settings of a plugin; None if it is off."""
        listed = self.values.get("plugins")
        for one in listed if isinstance(listed, list) else [listed]:
            if one == name or (isinstance(one, dict) and name in one):
                found = one[name] if isinstance(one, dict) else None
                return found if isinstance(found, dict) else {}
        return None

    def localized(self, path: str) -> tuple[str, str]:
        """Return the path of a page as in the main language, and the language that its address begins with, if any, by
        the plugin `i18n`: `a.fr.md` and `fr/a.md` are `fr/a/`."""
        plugin = self.plugin("i18n") or {}
        listed = plugin.get("languages")
        if isinstance(listed, dict):
            listed = [{"locale": key, "default": key == plugin.get("default_language")} for key in listed]
        told = [one for one in listed or () if isinstance(one, dict) and isinstance(one.get("locale"), str)]
        locales = {one["locale"]: "" if one.get("default") is True else one["locale"] for one in told}
        stem, ending = posixpath.splitext(path)
        top, _, below = path.partition("/")
        if plugin.get("docs_structure") == "folder":
            return (below, locales[top]) if top in locales else (path, "")
        name, _, locale = stem.rpartition(".")
        return (f"{name}{ending}", locales[locale]) if name and locale in locales else (path, "")

    def extension(self, name: str) -> Mapping[str, Any]:
        """Return the settings of a Markdown extension."""
        for one in [*self._extensions(), self.values.get("mdx_configs")]:
            if isinstance(one, dict) and isinstance(found := one.get(name), dict):
                return found
        return {}

    def has_extension(self, name: str) -> bool:
        """Return whether a Markdown extension is switched on."""
        return any(one == name or (isinstance(one, dict) and name in one) for one in self._extensions())

    def _extensions(self) -> list[Any]:
        listed = self.values.get("markdown_extensions")
        return listed if isinstance(listed, list) else [listed]

    def patterns(self, name: str) -> Callable[[str], bool]:
        """Return whether a path is among patterns as git has them."""
        import pathspec

        lines = self.values.get(name)
        spec = pathspec.GitIgnoreSpec.from_lines(lines.splitlines() if isinstance(lines, str) else [])
        return lambda path: bool(spec.match_file(path))


class MkdocsSite:
    """The rules of MkDocs."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`."""
        settings, used = read_settings(tree)
        names, excluded = _pages(tree, settings)
        listed = {page.name: page for page in _listed(settings.values.get("nav"), (), names, None)}
        rest = sorted((path for path, name in names.items() if name not in listed), key=_sort_key)
        pages = [*listed.values(), *(SitePage(names[path], "", parents=_parents(path, names)) for path in rest)]
        placed = [_placed(page, settings) for page in pages]
        return SitePlan("mkdocs", placed, excluded, used, {"settings": settings.values}, roots=(settings.root,))

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        settings = MkdocsSettings(plan.facts["settings"])
        front, text = read_markdown(tree, page)
        bases = settings.extension("pymdownx.snippets").get("base_path")
        folders = [bases] if isinstance(bases, str) else bases if isinstance(bases, list) else ["."]
        normal = [posixpath.normpath(one) for one in folders if isinstance(one, str)]
        snippets = Snippets(tree, ["" if one == "." else one for one in normal if not one.startswith(("../", "/"))])
        text = snippets.included(page.name, text)
        template = Template(_known(settings, front))
        if settings.plugin("macros") is not None and not front.is_true("ignore_macros"):
            text = template.rendered(text)
        marks = "".join(mark for mark, name in _MARKS.items() if settings.has_extension(name))
        text = plain_markdown(text, has_keys=settings.has_extension("pymdownx.keys"), marks=marks)
        main = markdown_main(raw_headings_marked(text), "HEADING_ATTRIBUTES", "DEFINITION_LIST")
        set_ids(main, _slugger(main, settings), _heading_text)
        return markdown_body(
            main,
            plan,
            page,
            front,
            title=page.title or front.text("title") or heading_title(main) or name_title(page.name),
            lang=settings.language,
            read=snippets.read,
            lost={**template.lost, "include": snippets.lost},
        )


def _known(settings: MkdocsSettings, front: FrontMatter) -> dict[str, Any]:
    extra = settings.values.get("extra")
    page = {"meta": front.values, "title": front.text("title")}
    return {**(extra if isinstance(extra, dict) else {}), "config": settings.values, "page": page, **front.values}


def _pages(tree: SourceTree, settings: MkdocsSettings) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of files that are pages, by their paths below `docs_dir`, and why others are none."""
    prefix = settings.prefix
    is_excluded, is_draft = settings.patterns("exclude_docs"), settings.patterns("draft_docs")
    globs = (settings.plugin("exclude") or {}).get("glob")
    globs = [globs] if isinstance(globs, str) else globs if isinstance(globs, list) else []
    paths = {name.removeprefix(prefix): name for name in tree.names if name.startswith(prefix)}
    names: dict[str, str] = {}
    excluded: dict[str, str] = {}
    for path, name in paths.items():
        if not path.endswith(_ENDINGS):
            if is_document_name(path) and is_excluded(path):
                excluded[name] = "mkdocs.yml leaves it out (exclude_docs)"
            continue
        folder, base = posixpath.split(path)
        if base in _NAVIGATION:
            excluded[name] = "it is navigation"
        elif path.startswith("templates/"):
            excluded[name] = "MkDocs leaves templates/ out"
        elif is_excluded(path):
            excluded[name] = "mkdocs.yml leaves it out (exclude_docs)"
        elif any(fnmatchcase(path, str(glob)) for glob in globs):
            excluded[name] = "mkdocs.yml leaves it out (plugin exclude)"
        elif is_draft(path):
            excluded[name] = "mkdocs.yml says that it is a draft (draft_docs)"
        elif base == "README.md" and posixpath.join(folder, "index.md") in paths:
            excluded[name] = "index.md stands in its place"
        else:
            names[path] = name
    return names, excluded


def _placed(page: SitePage, settings: MkdocsSettings) -> SitePage:
    path, locale = settings.localized(page.name.removeprefix(settings.prefix))
    folder, base = posixpath.split(path)
    stem = posixpath.splitext(base)[0]
    above = posixpath.join(locale, folder, "").lstrip("/")
    if stem in ("index", "README"):
        path = above if settings.has_directories else f"{above}index.html"
    else:
        path = f"{above}{stem}/" if settings.has_directories else f"{above}{stem}.html"
    return replace(page, path=quoted(path))


def _slugger(main: Element, settings: MkdocsSettings) -> MkdocsSlugger | PymdownSlugger:
    toc = settings.extension("toc")
    used = [name for element in main.iter() if (name := element.get("id"))]
    separator = toc.get("separator") if isinstance(toc.get("separator"), str) else "-"
    rule = toc.get("slugify")
    options = rule.get("kwds") if isinstance(rule, dict) else None
    name = str(rule.get(TAG, "") if isinstance(rule, dict) else rule or "")
    if "pymdownx" in name:
        plain = {"case": "lower"} if "uslugify" in name else {}
        return PymdownSlugger(used, separator or "-", options if isinstance(options, dict) else plain)
    return MkdocsSlugger(used, separator or "-", keep_unicode="unicode" in name)


def read_settings(tree: SourceTree) -> tuple[MkdocsSettings, tuple[str, ...]]:
    """Return the settings of a site, those that it inherits included, and the names of their files.

    Raises:
        FileError: a file cannot be read.
    """
    name = next((one for one in SETTINGS if one in tree.names), None)
    used: list[str] = []
    values: dict[str, Any] = {}
    while name is not None and name not in used and len(used) < 5:
        used.append(name)
        try:
            found = read_yaml(settings_text(tree, name))
        except YamlError as error:
            raise FileError(f"{name}: {error}") from None
        except KeyError:
            break
        values = {**found, **values} if isinstance(found, dict) else values
        above = found.get("INHERIT") if isinstance(found, dict) else None
        name = posixpath.normpath(posixpath.join(posixpath.dirname(name), above)) if isinstance(above, str) else None
    return MkdocsSettings(values), tuple(used)


def _listed(items: Any, parents: tuple[str, ...], names: Mapping[str, str], category: str | None) -> Iterator[SitePage]:
    """Yield the pages of the navigation in order; a section's index is above its other pages."""
    for item in items if isinstance(items, list) else ():
        for label, value in item.items() if isinstance(item, dict) else ((None, item),):
            title = words_of(html_main(label)) if label and "<" in label else label
            if isinstance(value, list):
                index = next((one for each in value if (one := _index_of(each, names))), None)
                above = (*parents, index) if index else parents
                for page in _listed(value, above, names, category or title):
                    own = parents if page.name == index else page.parents
                    yield SitePage(page.name, "", page.title, own, page.category)
            elif isinstance(value, str) and not _URL.match(value) and (name := names.get(posixpath.normpath(value))):
                yield SitePage(name, "", title, parents, category)


def _index_of(item: Any, names: Mapping[str, str]) -> str | None:
    value = next(iter(item.values()), None) if isinstance(item, dict) else item
    if isinstance(value, str) and posixpath.basename(value) in ("index.md", "README.md"):
        return names.get(posixpath.normpath(value))
    return None


def _parents(path: str, names: Mapping[str, str]) -> tuple[str, ...]:
    above: list[str] = []
    folder = posixpath.dirname(path)
    while True:
        for base in ("index.md", "README.md"):
            index = posixpath.join(folder, base)
            if index in names and index != path:
                above.append(names[index])
        if not folder:
            return tuple(reversed(above))
        folder = posixpath.dirname(folder)


def _sort_key(path: str) -> tuple[object, ...]:
    """Return the sort key of a page without navigation in MkDocs: the index first, then files, then folders."""
    *folders, base = path.split("/")
    is_index = posixpath.splitext(base)[0] in ("index", "README")
    return (*((1, folder) for folder in folders), (0, "" if is_index else base))


def _heading_text(heading: Element) -> str:
    """Return the words of a heading as Python-Markdown makes an id of them: without marks of footnotes."""
    marks = heading.xpath(".//sup[starts-with(@class, 'footnote')]") if heading.find(".//sup") is not None else []
    if marks:
        heading = deepcopy(heading)
        for mark in heading.xpath(".//sup[starts-with(@class, 'footnote')]"):
            mark.drop_tree()
    return words_of(heading)
