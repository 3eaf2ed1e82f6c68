"""Markdown files as GitHub shows them: a repository, or any folder that is made for no generator.

Belongs here: which files are pages, their order and parents, GitHub's alerts.
Does not belong here: Markdown itself (`markdown_page`), slugs (`slugs`), links (`links`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote

from rag_assets.sources.sites.front_matter import split_front_matter
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
    title_quotes,
    words_of,
)
from rag_assets.sources.sites.site import ExcludedPageError, SiteBody, SitePage, SitePlan, Tree
from rag_assets.sources.sites.slugs import GithubSlugger
from rag_assets.sources.sites.trees import by_folder

ENDINGS = (".md", ".markdown", ".mdx")
ALERTS = MappingProxyType(
    {f"markdown-alert-{name}": name.capitalize() for name in ("note", "tip", "important", "warning", "caution")}
)
_INDEXES = ("readme.md", "readme.markdown", "readme.mdx", "index.md", "index.markdown", "index.mdx")
_NAVIGATION = frozenset({"summary.md", "_sidebar.md", "_navbar.md", "_footer.md", "_coverpage.md", "_toc.md"})


class GithubSite:
    """The rules of GitHub."""

    def __init__(self) -> None:
        self._links: tuple[SitePlan, PageLinks] | None = None

    def plan(self, tree: Tree) -> SitePlan:
        """See `Site`: a README stands above the files of its folder and of those below it."""
        folders = by_folder([name for name in tree.names if name.lower().endswith(ENDINGS)])
        pages: list[SitePage] = []
        excluded: dict[str, str] = {}
        for folder in sorted(folders):
            for name in sorted(folders[folder], key=_order):
                if posixpath.basename(name).lower() in _NAVIGATION:
                    excluded[name] = "it is navigation"
                else:
                    pages.append(SitePage(name, quote(name), parents=_parents(name, folders)))
        return SitePlan("github", pages, excluded)

    def body(self, tree: Tree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        front, text = split_front_matter(text_of(tree.read(page.name)))
        if reason := front.exclusion:
            raise ExcludedPageError(reason)
        main = markdown_main(text, "GFM")
        set_ids(main, GithubSlugger())
        links = self._page_links(plan)
        set_links(main, lambda href: links.address(page, href))
        title_quotes(main, ALERTS)
        mark_footnotes(main)
        lost = plain_elements(main)
        heading = first_heading(main)
        title = front.text("title") or (words_of(heading) if heading is not None else "") or name_title(page.name)
        return SiteBody(
            html_of(main),
            title,
            slug=front.text("slug"),
            labels=front.labels,
            category=front.text("category"),
            lang=front.lang,
            lost=lost,
            updated_at=front.updated_at,
        )

    def _page_links(self, plan: SitePlan) -> PageLinks:
        if self._links is None or self._links[0] is not plan:
            self._links = (plan, PageLinks(plan))
        return self._links[1]


def name_title(name: str) -> str:
    """Return the title that a file's name gives: of an index, the name of its folder."""
    folder, base = posixpath.split(name)
    is_index = base.lower() in _INDEXES and folder
    base = posixpath.basename(folder) if is_index else posixpath.splitext(base)[0]
    return base.replace("-", " ").replace("_", " ").strip() or name


def _order(name: str) -> tuple[int, str]:
    base = posixpath.basename(name).lower()
    return (_INDEXES.index(base) if base in _INDEXES else len(_INDEXES), name)


def _parents(name: str, folders: Mapping[str, list[str]]) -> tuple[str, ...]:
    above: list[str] = []
    folder = posixpath.dirname(name)
    while True:
        index = _index(folders.get(folder, ()))
        if index is not None and index != name:
            above.append(index)
        if not folder:
            return tuple(reversed(above))
        folder = posixpath.dirname(folder)


def _index(names: Sequence[str]) -> str | None:
    found = [name for name in names if posixpath.basename(name).lower() in _INDEXES]
    return min(found, key=_order) if found else None
