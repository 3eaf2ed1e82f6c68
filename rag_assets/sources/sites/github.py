"""Markdown files as GitHub shows them: a repository, or any folder that is made for no generator.

Belongs here: which files are pages, their order and parents.
Does not belong here: Markdown itself (`markdown_page`), slugs (`slugs`), links (`links`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from rag_assets.sources.sites.markdown_page import (
    heading_title,
    markdown_body,
    markdown_main,
    read_markdown,
    set_ids,
)
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan, Tree, quoted
from rag_assets.sources.sites.slugs import GithubSlugger
from rag_assets.sources.sites.trees import by_folder
from rag_assets.steps.files.plugged import brought

ENDINGS = (".md", ".markdown", ".mdx")
_INDEXES = (
    "readme.md",
    "readme.markdown",
    "readme.mdx",
    "index.md",
    "index.markdown",
    "index.mdx",
    "_index.md",
    "index.html",
    "index.njk",
)
_NAVIGATION = frozenset({"summary.md", "_sidebar.md", "_navbar.md", "_footer.md", "_coverpage.md", "_toc.md"})


class GithubSite:
    """The rules of GitHub."""

    def plan(self, tree: Tree) -> SitePlan:
        """See `Site`: a README stands above the files of its folder and of those below it."""
        folders = by_folder([name for name in tree.names if name.lower().endswith(ENDINGS)])
        indexes = indexes_of(folders)
        pages: list[SitePage] = []
        excluded: dict[str, str] = {}
        for folder in sorted(folders):
            for name in sorted(folders[folder], key=_order):
                if posixpath.basename(name).lower() in _NAVIGATION:
                    excluded[name] = "it is navigation"
                else:
                    pages.append(SitePage(name, quoted(name), parents=parents_of(name, indexes)))
        return SitePlan("github", pages, excluded)

    def body(self, tree: Tree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        front, text = read_markdown(tree, page)
        read: list[str] = []
        lost: Mapping[str, int] = {}
        if page.name.endswith(".mdx"):
            text, read, lost = brought("mdx")(tree, page.name, text, {"frontMatter": front.values})
        main = markdown_main(text, "GFM")
        set_ids(main, GithubSlugger())
        title = front.text("title") or heading_title(main) or name_title(page.name)
        return markdown_body(main, plan, page, front, title=title, read=read, lost=lost)


def name_title(name: str) -> str:
    """Return the title that a file's name gives: of an index, the name of its folder."""
    folder, base = posixpath.split(name)
    is_index = base.lower() in _INDEXES and folder
    base = posixpath.basename(folder) if is_index else posixpath.splitext(base)[0]
    return base.replace("-", " ").replace("_", " ").strip() or name


def _order(name: str) -> tuple[int, str]:
    base = posixpath.basename(name).lower()
    return (_INDEXES.index(base) if base in _INDEXES else len(_INDEXES), name)


def parents_of(name: str, indexes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the indexes of the folders that a page stands in, root first."""
    above: list[str] = []
    folder = posixpath.dirname(name)
    while True:
        index = indexes.get(folder)
        if index is not None and index != name:
            above.append(index)
        if not folder:
            return tuple(reversed(above))
        folder = posixpath.dirname(folder)


def indexes_of(folders: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the index of each folder that has one."""
    found = {
        folder: [name for name in names if posixpath.basename(name).lower() in _INDEXES]
        for folder, names in folders.items()
    }
    return {folder: min(names, key=_order) for folder, names in found.items() if names}
