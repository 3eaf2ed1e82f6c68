"""Links between the pages of a site: from what an author wrote to the address of the page.

Belongs here: finding the page that a path means. Does not belong here: the rules of one generator, elements.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from urllib.parse import quote, unquote, urljoin

from rag_assets.sources.sites.site import SitePage, SitePlan
from rag_assets.sources.sites.trees import resolved

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\Z")
_ENDINGS = ("", ".md", ".mdx", "/README.md", "/index.md", "/index.mdx", "/README.mdx")


class PageLinks:
    """The pages of one plan, found by the paths that links name them by."""

    def __init__(self, plan: SitePlan, roots: Sequence[str] = ("",)) -> None:
        """Roots are the folders that a path from `/` may begin at."""
        self._plan, self._roots = plan, roots
        self._by_name = {page.name: page for page in plan.pages}
        self._by_path = {page.path.strip("/"): page for page in reversed(plan.pages)}

    def address(self, page: SitePage, href: str) -> str:
        """Return what a link on a page leads to: an address below `base_url` where it is a page or a file of the site,
        else what was written."""
        href = href.strip()
        if _SCHEME.match(href):
            return href
        path, mark, fragment = href.partition("#")
        path, _, _query = path.partition("?")
        target = self._page(page, unquote(path))
        if target is None:
            return self._elsewhere(page, href)
        return f"{self._plan.address(target)}{mark}{fragment}"

    def _page(self, page: SitePage, path: str) -> SitePage | None:
        if path.startswith("/"):
            names = [posixpath.join(root, path.strip("/")) for root in self._roots]
        else:
            name = resolved(page.name, path)
            names = [] if name is None else ["" if name == "." else name]
        for name in names:
            for ending in _ENDINGS:
                if found := self._by_name.get(f"{name}{ending}".lstrip("/")):
                    return found
        below = urljoin(f"/{page.path}", path).strip("/")
        return self._by_path.get(below) or self._by_path.get(below.removesuffix(".html"))

    def _elsewhere(self, page: SitePage, href: str) -> str:
        """Return the address of what is no page: a picture, a download, an address of the server."""
        if not self._plan.base_url:
            return href
        if href.startswith("/"):
            return f"{self._plan.base_url}{href[1:]}"
        return urljoin(f"{self._plan.base_url}{quote(page.path)}", href)
