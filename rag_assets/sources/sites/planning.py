"""Which files of a site are pages, which are documents, and where each is reached.

Belongs here: changelogs, PDF and Office files beside the pages, reasons for what is neither, addresses.
Does not belong here: the rules of a generator, which pages changed (`source`).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from rag_assets.sources.base import SourceError, digest
from rag_assets.sources.documents.rows import Reading
from rag_assets.sources.sites.site import Site, SitePage, SitePlan, Tree, has_file, quoted, text_of
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import SiteSource
from rag_serving.documents.kinds import is_document_name, kind_by_name

_CHANGELOG = re.compile(r"change[-_ ]?logs?|release[-_ ]?(?:notes|history)|whats?[-_ ]?new", re.I)
_MAYBE = re.compile(r"changes|history|news", re.I)
_RELEASE = re.compile(r"^(?:#{1,6} {1,3}|[*]{2})?\[?(?:v|version |release )?\d{1,4}\.\d{1,4}", re.I | re.MULTILINE)
_HEAD_MAX, _RELEASES = 100_000, 2
_ASSETS = frozenset({"code", "table", "image", None})


def planned(site: Site, tree: Tree, key: str, settings: SiteSource) -> SitePlan:
    """Return the pages and documents of a site, and a reason for each other file that has text.

    Raises:
        SourceError: the files that say what its pages are cannot be read.
    """
    try:
        plan = site.plan(tree)
    except FileError as error:
        raise SourceError(f"the pages of source {key!r} cannot be told: {error}; mend the file") from None
    excluded = dict(plan.excluded)
    pages: list[SitePage] = []
    for page in plan.pages:
        if not settings.changelogs and is_changelog(tree, page.name):
            excluded[page.name] = f"it is a changelog; they are read with sources.{key}.changelogs: true"
        else:
            pages.append(page)
    documents: list[SitePage] = []
    named = {page.name for page in pages} | excluded.keys()
    for name in tree.names:
        if name in named:
            continue
        if is_document_name(name):
            documents.append(SitePage(name, _served_path(name, plan.roots), is_document=True))
        elif kind_by_name(name) not in _ASSETS:
            excluded[name] = f"no page of a {plan.generator} site is made of it"
    return replace(plan, pages=pages, excluded=excluded, documents=documents)


def is_changelog(tree: Tree, name: str) -> bool:
    """Return whether a file, or the folder that it stands in, is named like a list of changes; one that may be the
    history of anything else is one where it names releases."""
    parts = [posixpath.splitext(part)[0] for part in name.split("/")[-2:]]
    if any(map(_CHANGELOG.fullmatch, parts)):
        return True
    if not any(map(_MAYBE.fullmatch, parts)):
        return False
    try:
        text = text_of(tree.read(name)[:_HEAD_MAX])
    except FileError:
        return False
    return len(_RELEASE.findall(text)) >= _RELEASES or bool(_RELEASE.match(parts[-1]))


def addressed(plan: SitePlan, settings: SiteSource, reading: Reading, page_ids: Mapping[str, str]) -> SitePlan:
    """Return a plan with the addresses of its pages: below `base_url`, else where Citelock shows them.

    The address that a page calls its own counts where it lies below `base_url` and no other page has it: of several
    versions of a page all but one name another one's.
    """
    if settings.base_url is None:
        prefix = settings.id_prefix
        shown = {name: reading.address(f"{prefix}{page_id}") for name, page_id in page_ids.items()}
        return replace(plan, addresses=shown)
    base = f"{settings.base_url.rstrip('/')}/"
    own = {page.name: f"{base}{page.path}" for page in (*plan.pages, *plan.documents)}
    named = {page.name: url for page in plan.pages if (url := _canonical(page, own[page.name], base))}
    claims = Counter(_same(url) for url in named.values())
    others = {_same(url): name for name, url in own.items()}
    canonical = {
        name: url for name, url in named.items() if claims[_same(url)] == 1 and others.get(_same(url), name) == name
    }
    return replace(plan, base_url=base, addresses={**own, **canonical})


def plan_digest(tree: Tree, plan: SitePlan) -> str:
    """Return a digest of what all pages of a plan depend on: their names and addresses, files with settings."""
    parts = [plan.generator, plan.base_url]
    parts += [f"{name}:{tree.stamp(name)}" for name in plan.settings if has_file(tree, name)]
    for page in plan.pages:
        said = (page.name, page.path, page.title or "", page.category or "", page.number or "", *page.parents)
        parts += [*said, plan.address(page)]
    parts += [f"{page.name}:{plan.address(page)}" for page in plan.documents]
    return digest(*parts)


def _served_path(name: str, roots: tuple[str, ...]) -> str:
    """Return the path of a file that is served as it is: below the innermost of the roots that it lies in."""
    inside = [root for root in roots if not root or name.startswith(f"{root}/")]
    root = max(inside, key=len, default="")
    return quoted(name[len(root) :].lstrip("/"))


def _canonical(page: SitePage, own: str, base: str) -> str:
    """Return the address that a page calls its own; empty where that does not lie below `base`."""
    if not page.canonical:
        return ""
    try:
        url = urlsplit(urljoin(own, page.canonical))
        above = urlsplit(base)
        is_below = (url.hostname, url.port) == (above.hostname, above.port) and url.path.startswith(above.path)
    except ValueError:
        return ""
    if not is_below or url.scheme not in ("http", "https") or url.query or url.username:
        return ""
    return url._replace(fragment="").geturl()


def _same(url: str) -> str:
    """Return what two addresses of one page have in common."""
    return url.partition("://")[2].removesuffix("index.html").rstrip("/")
