"""Sites of Docusaurus: documents of all versions, pages, their ids and addresses.

Belongs here: settings, ids and slugs of documents, which files are pages, a page's text.
Does not belong here: ids of headings (`docusaurus_headings`), sidebars (`docusaurus_sidebars`), MDX (`mdx`), reading
JavaScript (`js_values`).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from citelock_sites.docusaurus_headings import set_docusaurus_ids
from citelock_sites.docusaurus_sidebars import (
    Folders,
    SidebarDocument,
    SidebarPosition,
    is_index,
    ordered,
    without_number,
)
from citelock_sites.js_values import JsError, exported
from citelock_sites.mdx import Mdx, partials_of
from rag_assets.sources.sites.front_matter import FrontMatter, YamlError, read_yaml, split_front_matter
from rag_assets.sources.sites.markdown_page import (
    heading_title,
    markdown_body,
    markdown_main,
    read_markdown,
)
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan, SourceTree, quoted, settings_text, text_of
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element

SETTINGS = tuple(f"docusaurus.config.{ending}" for ending in ("js", "ts", "mjs", "cjs", "mts", "cts"))
_SIDEBARS = tuple(f"sidebars.{ending}" for ending in ("js", "ts", "json", "mjs", "cjs"))
_ENDINGS = (".md", ".mdx")


@dataclass(frozen=True)
class DocsSet:
    """One set of documents (`@docusaurus/plugin-content-docs`) in one version."""

    folder: str
    route: str  # of its addresses, without `/` at the ends
    sidebars: str | None  # name of the file
    version: str | None = None
    has_numbers: bool = True  # numbers before names are left out
    told: str = ""  # the version as titles show it, if there are several


class DocusaurusSite:
    """The rules of Docusaurus 3."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`."""
        names = frozenset(tree.names)
        settings, used = _settings(tree, names)
        pages: list[SitePage] = []
        excluded: dict[str, str] = {}
        versions: dict[str, str] = {}
        for docs in _docs_sets(tree, names, settings):
            used += [docs.sidebars] if docs.sidebars else []
            placed = list(_documents(tree, docs, settings, excluded))
            pages += placed
            versions |= {page.name: docs.version for page in placed if docs.version}
        pages += _standalone(names, {page.name for page in pages})
        for name in names:
            if name.startswith("blog/") and name.endswith(_ENDINGS):
                excluded[name] = "posts of a blog are not read"
        facts = {"lang": _language(settings), "versions": versions, "config": settings}
        return SitePlan("docusaurus", pages, excluded, tuple(used), facts, roots=("", "static"))

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        front, text = read_markdown(tree, page)
        mdx = Mdx(page.name, partials_of(tree), {"frontMatter": front.values, "siteConfig": plan.facts["config"]})
        main = markdown_main(mdx.markdown(text), "HEADING_ATTRIBUTES")
        set_docusaurus_ids(main)
        version = plan.facts["versions"].get(page.name)
        return markdown_body(
            main,
            plan,
            page,
            front,
            title=_title(front, main, page.name),
            lang=plan.facts["lang"],
            labels=[f"version {version}"] if version else [],
            read=mdx.read,
            lost=mdx.lost,
        )


def _documents(
    tree: SourceTree, docs: DocsSet, settings: Mapping[str, Any], excluded: dict[str, str]
) -> Iterator[SitePage]:
    """Yield the pages of a set of documents in the order of its sidebars; those in none come last."""
    folders = _folders(tree, docs, excluded)
    placed = ordered(_sidebars(tree, docs.sidebars), folders)
    known = {one.document.name for one in placed}
    rest = [SidebarPosition(document) for document in folders.documents if document.name not in known]
    for one in (*placed, *rest):
        path = _address(docs.route, one.document.slug, settings.get("trailingSlash"))
        yield SitePage(one.document.name, path, one.document.title, one.parents, one.category, version=docs.told)


def _settings(tree: SourceTree, names: frozenset[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the exports of `docusaurus.config.js`, as far as they are literal, and the file's name."""
    name = next((one for one in SETTINGS if one in names), None)
    if name is None:
        return {}, []
    try:
        found = exported(settings_text(tree, name))
    except JsError as error:
        raise FileError(f"{name}: {error}") from None
    return found if isinstance(found, dict) else {}, [name]


def _language(settings: Mapping[str, Any]) -> str | None:
    i18n = settings.get("i18n")
    locale = i18n.get("defaultLocale") if isinstance(i18n, dict) else None
    return locale[:2].lower() if isinstance(locale, str) and locale[:2].isalpha() else None


def _docs_sets(tree: SourceTree, names: frozenset[str], settings: Mapping[str, Any]) -> Iterator[DocsSet]:
    """Yield the sets of documents that the settings name, each in all of its versions; without settings `docs`."""
    found = [*_docs_options(settings)] or [{}]
    for options in found:
        key = str(options.get("id") or "default")
        folder = posixpath.normpath(str(options.get("path") or "docs"))
        if folder == "docs" and not any(name.startswith("docs/") for name in names):
            folder = ""  # the folder itself was given
        route = str(options.get("routeBasePath", "docs") or "").strip("/")
        sidebars = _sidebars_name(options, names)
        has_numbers = options.get("numberPrefixParser") is not False
        current = DocsSet(folder, route, sidebars, None, has_numbers)
        yield from _versions(tree, names, current, (key, options))


def _docs_options(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in ("presets", "plugins"):
        listed = settings.get(kind)
        for entry in listed if isinstance(listed, list) else ():
            name, *further = entry if isinstance(entry, list) and entry else (entry,)
            options = further[0] if further and isinstance(further[0], dict) else {}
            if kind == "plugins" and isinstance(name, str) and name.endswith("content-docs"):
                yield options
            elif kind == "presets" and options.get("docs") is not False:
                yield options["docs"] if isinstance(options.get("docs"), dict) else {}


def _versions(
    tree: SourceTree, names: frozenset[str], current: DocsSet, key: tuple[str, Mapping[str, Any]]
) -> Iterator[DocsSet]:
    """Yield a set in its versions: the last one has the plain addresses, the one in work is `next`."""
    own, options = key
    mark = "" if own == "default" else f"{own}_"
    listed = _json(tree, f"{mark}versions.json") if f"{mark}versions.json" in names else None
    versions = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    told = options.get("versions")
    details = told if isinstance(told, dict) else {}
    last = options.get("lastVersion") or (versions[0] if versions else "current")
    order = ["current", *versions]
    for version in order:
        if version == "current" and options.get("includeCurrentVersion") is False:
            continue
        found = details.get(version)
        detail: Mapping[str, Any] = found if isinstance(found, dict) else {}
        path = "" if version == last else "next" if version == "current" else version
        path = str(detail.get("path", path) or "").strip("/")
        route = "/".join(part for part in (current.route, path) if part)
        is_early = last in order and order.index(version) < order.index(last)
        label = str(detail.get("label") or ("next" if version == "current" else version))
        told = f"{'unreleased ' if is_early else ''}version {label}" if versions else ""
        if version == "current":
            yield replace(current, route=route, version=label if versions or "label" in detail else None, told=told)
            continue
        sidebars = f"{mark}versioned_sidebars/version-{version}-sidebars.json"
        folder = f"{mark}versioned_docs/version-{version}"
        name = sidebars if sidebars in names else None
        yield DocsSet(folder, route, name, label, current.has_numbers, told)


def _sidebars_name(options: Mapping[str, Any], names: frozenset[str]) -> str | None:
    """Return the file of the sidebars; one that a program computes is looked for where it usually is."""
    given = options.get("sidebarPath")
    if options and (given is False or "sidebarPath" not in options):
        return None
    if isinstance(given, str) and posixpath.normpath(given) in names:
        return posixpath.normpath(given)
    return next((name for name in _SIDEBARS if name in names), None)


def _sidebars(tree: SourceTree, name: str | None) -> Any:
    if name is None:
        return None
    if name.endswith(".json"):
        return _json(tree, name)
    try:
        return exported(settings_text(tree, name))
    except JsError as error:
        raise FileError(f"{name}: {error}") from None


def _json(tree: SourceTree, name: str) -> Any:
    try:
        return json.loads(settings_text(tree, name))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: it is not valid JSON: {error}") from None


def _folders(tree: SourceTree, docs: DocsSet, excluded: dict[str, str]) -> Folders:
    prefix = f"{docs.folder}/" if docs.folder not in ("", ".") else ""
    documents: list[SidebarDocument] = []
    settings: dict[str, Mapping[str, Any]] = {}
    for name in tree.names:
        path = name.removeprefix(prefix)
        if not name.startswith(prefix) or (not prefix and path.startswith(("versioned_docs/", "src/", "blog/"))):
            continue
        folder, base = posixpath.split(path)
        if posixpath.splitext(base)[0] == "_category_":
            settings[folder] = _category(tree, name)
        elif base.endswith(_ENDINGS):
            if any(part.startswith("_") for part in path.split("/")):
                excluded[name] = "a name that begins with _ is a part of other pages"
            else:
                documents.append(_document(tree, name, path, docs.has_numbers))
    return Folders(documents, settings)


def _category(tree: SourceTree, name: str) -> Mapping[str, Any]:
    """Return the values of a folder's `_category_` file; none if it is unreadable."""
    try:
        found = read_yaml(text_of(tree.read(name)))  # JSON is YAML
    except (YamlError, FileError):
        return {}
    return found if isinstance(found, dict) else {}


def _document(tree: SourceTree, name: str, path: str, has_numbers: bool) -> SidebarDocument:
    """Return a document according to its front matter and its path; an unreadable one by its path alone."""
    try:
        front, _ = split_front_matter(text_of(tree.read(name)))
    except FileError:
        front = FrontMatter()
    *parents, base = path.split("/")
    stem = posixpath.splitext(base)[0]
    own, number = without_number(stem) if has_numbers else (stem, None)
    above = [without_number(part)[0] if has_numbers else part for part in parents]
    own_id = front.text("id") or own
    slug = front.text("slug")
    here = "".join(f"{part}/" for part in above)
    if slug is None:
        address = f"/{here}" if is_index(path) else f"/{here}{own_id}"
    elif slug.startswith("/"):
        address = slug
    else:
        address = posixpath.normpath(posixpath.join(f"/{here}", slug)) + ("/" if slug.endswith("/") else "")
    position = front.number("sidebar_position")
    position = number if position is None else position
    title = front.text("sidebar_label") or front.text("title") or own_id
    return SidebarDocument(name, path, "/".join((*above, own_id)), address, title, position)


def _address(route: str, slug: str, trailing_slash: Any) -> str:
    joined = f"{route}/{slug.lstrip('/')}" if route else slug.lstrip("/")
    if trailing_slash is True and joined and not joined.endswith("/"):
        joined += "/"
    if trailing_slash is False:
        joined = joined.rstrip("/")
    return quoted(joined)


def _standalone(names: frozenset[str], known: set[str]) -> list[SitePage]:
    """Return the Markdown below `src/pages`."""
    prefix = "src/pages/"
    pages = []
    for name in sorted(names):
        if name.startswith(prefix) and name.endswith(_ENDINGS) and name not in known:
            path = posixpath.splitext(name.removeprefix(prefix))[0]
            if not any(part.startswith("_") for part in path.split("/")):
                is_folder = posixpath.basename(path) == "index"
                pages.append(SitePage(name, quoted(path.removesuffix("index") if is_folder else path)))
    return pages


def _title(front: FrontMatter, main: Element, name: str) -> str:
    stem = posixpath.splitext(posixpath.basename(name))[0]
    return front.text("title") or heading_title(main) or front.text("id") or without_number(stem)[0]
