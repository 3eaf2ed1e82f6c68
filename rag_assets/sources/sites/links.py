"""Links between the pages of a site: from what an author wrote to the address of the page.

Belongs here: finding the page that a path means. Does not belong here: the rules of one generator, elements.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urljoin

from rag_assets.sources.sites.site import SitePage, SitePlan
from rag_assets.sources.sites.trees import resolved

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\Z")
_ENDINGS = ("", ".md", ".mdx", "/README.md", "/index.md", "/index.mdx", "/README.mdx")


def link_address(plan: SitePlan, page: SitePage, href: str) -> str:
    """Return what a link on a page leads to: an address below `base_url` where it is a page or a file of the site, else
    what was written."""
    href = href.strip()
    if _SCHEME.match(href):
        return href
    path, mark, fragment = href.partition("#")
    path, _, _query = path.partition("?")
    target = _target(plan, page, unquote(path))
    if target is None:
        return _file_address(plan, page, href)
    return f"{plan.address(target)}{mark}{fragment}"


def _target(plan: SitePlan, page: SitePage, path: str) -> SitePage | None:
    """Return the page that a path means: by the name of its file, else by its own path."""
    if path.startswith("/"):
        names = [posixpath.join(root, path.strip("/")) for root in plan.roots]
    else:
        name = resolved(page.name, path)
        names = [] if name is None else ["" if name == "." else name]
    for name in names:
        for ending in _ENDINGS:
            if found := plan.by_name.get(f"{name}{ending}".lstrip("/")):
                return found
    below = urljoin(f"/{unquote(page.path)}", path).strip("/")
    return plan.by_path.get(below) or plan.by_path.get(below.removesuffix(".html"))


def _file_address(plan: SitePlan, page: SitePage, href: str) -> str:
    """Return the address of what is no page: a picture, a download, an address of the server."""
    if not plan.base_url:
        return href
    if href.startswith("/"):
        return f"{plan.base_url}{href[1:]}"
    return urljoin(f"{plan.base_url}{page.path}", href)
