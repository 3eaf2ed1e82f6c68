"""Sites of MkDocs: `mkdocs.yml` and the pages below `docs_dir`.

Belongs here: settings, navigation, addresses, what is excluded, ids by Python-Markdown's rule.
Does not belong here: what extensions add to Markdown (`mkdocs_markdown`, `snippets`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from rag_assets.sources.sites.front_matter import TAG, YamlError, read_yaml, split_front_matter
from rag_assets.sources.sites.github import name_title
from rag_assets.sources.sites.links import PageLinks
from rag_assets.sources.sites.markdown_page import (
    first_heading,
    html_of,
    mark_footnotes,
    markdown_main,
    plain_elements,
    set_ids,
    set_links,
    text_of,
    words_of,
)
from rag_assets.sources.sites.mkdocs_markdown import plain_markdown
from rag_assets.sources.sites.site import ExcludedPageError, SiteBody, SitePage, SitePlan, Tree
from rag_assets.sources.sites.slugs import MkdocsSlugger, PymdownSlugger
from rag_assets.sources.sites.snippets import Snippets
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element

SETTINGS = ("mkdocs.yml", "mkdocs.yaml")
_ENDINGS = (".md", ".markdown", ".mdown", ".mkdn", ".mkd")
_NAVIGATION = frozenset({"SUMMARY.md", "_sidebar.md"})
_URL = re.compile(r"[a-zA-Z][\w+.-]*:|//|/")


@dataclass(frozen=True)
class MkdocsSettings:
    """What of `mkdocs.yml` shapes pages."""

    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def docs(self) -> str:
        """The folder of the pages."""
        folder = self.values.get("docs_dir", "docs")
        return posixpath.normpath(folder) if isinstance(folder, str) and folder else "docs"

    @property
    def has_directories(self) -> bool:
        """Whether `setup.md` is shown at `setup/`."""
        return self.values.get("use_directory_urls", True) is not False

    @property
    def language(self) -> str | None:
        """Of the theme."""
        theme = self.values.get("theme")
        language = theme.get("language") if isinstance(theme, dict) else None
        return language[:2].lower() if isinstance(language, str) and language[:2].isalpha() else None

    def extension(self, name: str) -> Mapping[str, Any]:
        """Return the settings of a Markdown extension."""
        listed = self.values.get("markdown_extensions")
        for one in [*(listed if isinstance(listed, list) else [listed]), self.values.get("mdx_configs")]:
            if isinstance(one, dict) and isinstance(found := one.get(name), dict):
                return found
        return {}

    def patterns(self, name: str) -> Callable[[str], bool]:
        """Return whether a path is among patterns as git has them."""
        import pathspec

        lines = self.values.get(name)
        spec = pathspec.GitIgnoreSpec.from_lines(lines.splitlines() if isinstance(lines, str) else [])
        return lambda path: bool(spec.match_file(path))


class MkdocsSite:
    """The rules of MkDocs."""

    def __init__(self) -> None:
        self._settings = MkdocsSettings()
        self._links: tuple[SitePlan, PageLinks] | None = None

    def plan(self, tree: Tree) -> SitePlan:
        """See `Site`."""
        self._settings, used = read_settings(tree)
        names, excluded = self._pages(tree)
        listed = {page.name: page for page in _listed(self._settings.values.get("nav"), (), names, None)}
        rest = sorted((path for path, name in names.items() if name not in listed), key=_sort_key)
        pages = [*listed.values(), *(SitePage(names[path], "", parents=_parents(path, names)) for path in rest)]
        return SitePlan("mkdocs", [self._placed(page) for page in pages], excluded, settings=used)

    def body(self, tree: Tree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        front, text = split_front_matter(text_of(tree.read(page.name)))
        if reason := front.exclusion:
            raise ExcludedPageError(reason)
        snippets = Snippets(tree, self._snippet_folders())
        text = snippets.included(page.name, text)
        main = markdown_main(plain_markdown(text), "HEADING_ATTRIBUTES", "DEFINITION_LIST")
        set_ids(main, self._slugger(main), _heading_text)
        links = self._page_links(plan)
        set_links(main, lambda href: links.address(page, href))
        mark_footnotes(main)
        lost = plain_elements(main)
        lost["include"] += snippets.lost
        heading = first_heading(main)
        own = words_of(heading) if heading is not None else ""
        return SiteBody(
            html_of(main),
            page.title or front.text("title") or own or name_title(page.name),
            slug=front.text("slug"),
            labels=front.labels,
            category=front.text("category"),
            lang=front.lang or self._settings.language,
            read=tuple(dict.fromkeys(snippets.read)),
            lost=+lost,
            updated_at=front.updated_at,
        )

    def _pages(self, tree: Tree) -> tuple[dict[str, str], dict[str, str]]:
        """Return the names of files that are pages, by their paths below `docs_dir`, and why others are none."""
        prefix = "" if self._settings.docs == "." else f"{self._settings.docs}/"
        is_excluded, is_draft = self._settings.patterns("exclude_docs"), self._settings.patterns("draft_docs")
        paths = {name.removeprefix(prefix): name for name in tree.names if name.startswith(prefix)}
        names: dict[str, str] = {}
        excluded: dict[str, str] = {}
        for path, name in paths.items():
            if not path.endswith(_ENDINGS):
                continue
            folder, base = posixpath.split(path)
            if base in _NAVIGATION:
                excluded[name] = "it is navigation"
            elif path.startswith("templates/"):
                excluded[name] = "MkDocs leaves templates/ out"
            elif is_excluded(path):
                excluded[name] = "mkdocs.yml leaves it out (exclude_docs)"
            elif is_draft(path):
                excluded[name] = "mkdocs.yml says that it is a draft (draft_docs)"
            elif base == "README.md" and posixpath.join(folder, "index.md") in paths:
                excluded[name] = "index.md stands in its place"
            else:
                names[path] = name
        return names, excluded

    def _placed(self, page: SitePage) -> SitePage:
        path = page.name.removeprefix("" if self._settings.docs == "." else f"{self._settings.docs}/")
        folder, base = posixpath.split(path)
        stem = posixpath.splitext(base)[0]
        above = f"{folder}/" if folder else ""
        if stem in ("index", "README"):
            address = above if self._settings.has_directories else f"{above}index.html"
        else:
            address = f"{above}{stem}/" if self._settings.has_directories else f"{above}{stem}.html"
        return SitePage(page.name, quote(address), page.title, page.parents, page.category)

    def _snippet_folders(self) -> Sequence[str]:
        bases = self._settings.extension("pymdownx.snippets").get("base_path")
        folders = [bases] if isinstance(bases, str) else bases if isinstance(bases, list) else ["."]
        found = [posixpath.normpath(one) for one in folders if isinstance(one, str)]
        return ["" if one == "." else one for one in found if not one.startswith(("../", "/"))]

    def _slugger(self, main: Element) -> MkdocsSlugger | PymdownSlugger:
        toc = self._settings.extension("toc")
        used = [name for each in main.iter() if (name := each.get("id"))]
        separator = toc.get("separator") if isinstance(toc.get("separator"), str) else "-"
        rule = toc.get("slugify")
        options = rule.get("kwds") if isinstance(rule, dict) else None
        name = str(rule.get(TAG, "") if isinstance(rule, dict) else rule or "")
        if "pymdownx" in name:
            plain = {"case": "lower"} if "uslugify" in name else {}
            return PymdownSlugger(used, separator or "-", options if isinstance(options, dict) else plain)
        return MkdocsSlugger(used, separator or "-", keep_unicode="unicode" in name)

    def _page_links(self, plan: SitePlan) -> PageLinks:
        if self._links is None or self._links[0] is not plan:
            self._links = (plan, PageLinks(plan, (self._settings.docs,)))
        return self._links[1]


def read_settings(tree: Tree) -> tuple[MkdocsSettings, tuple[str, ...]]:
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
            found = read_yaml(text_of(tree.read(name)))
        except YamlError as error:
            raise FileError(f"{name}: {error}") from None
        except KeyError:
            break
        values = {**found, **values} if isinstance(found, dict) else values
        above = found.get("INHERIT") if isinstance(found, dict) else None
        name = posixpath.normpath(posixpath.join(posixpath.dirname(name), above)) if isinstance(above, str) else None
    return MkdocsSettings(values), tuple(used)


def _listed(items: Any, parents: tuple[str, ...], names: Mapping[str, str], category: str | None) -> Iterator[SitePage]:
    """Yield the pages of the navigation in order; a section's index stands above its other pages."""
    for item in items if isinstance(items, list) else ():
        for title, value in item.items() if isinstance(item, dict) else ((None, item),):
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
    """Return the indexes of the folders that a page stands in."""
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
    """Return where MkDocs puts a page without navigation: the index first, then files, then folders."""
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
