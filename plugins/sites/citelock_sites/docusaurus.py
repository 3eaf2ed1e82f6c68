"""Sites of Docusaurus: documents of all versions, pages, their ids and addresses."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from citelock_sites.js_values import JsError, exported
from citelock_sites.mdx import PART, Mdx, partials_of
from rag_assets.sources.sites.front_matter import FrontMatter, YamlError, read_yaml, split_front_matter
from rag_assets.sources.sites.markdown_page import (
    HEADINGS,
    RAW,
    GithubSlugger,
    heading_title,
    markdown_body,
    markdown_main,
    read_markdown,
)
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan, SourceTree, quoted, settings_text, text_of
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element

_DIRECTIVE = re.compile(r"(?<!:):[^\W\d_][\w-]*(?<![-_])(?![\w:-])")


def set_docusaurus_ids(main: Element) -> None:
    """Give headings their ids, those of inserted files as if each were a page; headings written as HTML get none.

    The theme shows headings of level 1 without an id.
    """
    sluggers: dict[Element | None, GithubSlugger] = {}
    for heading in main.iter(*HEADINGS):
        if heading.attrib.pop(RAW, None) is None and not heading.get("id"):
            part = next((above for above in heading.iterancestors("div") if PART in above.attrib), None)
            heading.set("id", sluggers.setdefault(part, GithubSlugger()).slug(_heading_text(heading)))
        if heading.tag == "h1":
            heading.attrib.pop("id", None)
    for part in main.xpath(f".//div[@{PART}]"):
        part.drop_tag()


def _heading_text(heading: Element) -> str:
    """Return the words of a heading as mdast has them: descriptions of pictures included, without marks of footnotes
    and anything like a directive (`:name`)."""
    if heading.find(".//img") is not None or heading.find(".//sup") is not None:
        heading = deepcopy(heading)
        for image in heading.xpath(".//img"):
            image.tag, image.text = "span", image.get("alt") or ""
        for mark in heading.xpath(".//sup[starts-with(@class, 'footnote')]"):
            mark.drop_tree()
    if not any(":" in text for text in heading.itertext()):
        return "".join(heading.itertext()).strip()
    parts = []
    for text in heading.xpath(".//text()"):
        above = text.getparent() if text.is_text else text.getparent().getparent()
        parts.append(str(text) if above.tag == "code" else _DIRECTIVE.sub("", str(text)))
    return "".join(parts).strip()


_NUMBERED = re.compile(r"(\d+)\s*[-_.]+\s*([^-_.\s].*)", re.DOTALL)
_NOT_NUMBERED = re.compile(r"(?:\d{2}|\d{4})[-_.]\d{2}(?:[-_.](?:\d{2}|\d{4}))?.*|\d+[-_.]\d+.*", re.DOTALL)
_DEPTH_MAX = 40


@dataclass(frozen=True)
class SidebarDocument:
    """A document of one version of one set of documents."""

    name: str  # of its file
    path: str  # of its file below the folder of the version
    id: str  # with its folders
    slug: str
    title: str
    position: float | None = None


@dataclass(frozen=True)
class SidebarPosition:
    """A document in a sidebar: the documents of the categories above it, and the label of the outermost one."""

    document: SidebarDocument
    parents: tuple[str, ...] = ()
    category: str | None = None


@dataclass(frozen=True)
class _SidebarPlace:
    """The position of a sidebar's items."""

    parents: tuple[str, ...] = ()
    category: str | None = None  # label of the outermost category
    depth: int = 0

    def below(self, label: str | None, document: SidebarDocument | None) -> _SidebarPlace:
        """Return the place inside a category; `document`: the category's own page."""
        parents = (*self.parents, document.name) if document is not None else self.parents
        return _SidebarPlace(parents, self.category or label, self.depth + 1)


@dataclass(frozen=True)
class Folders:
    """The settings for turning folders into categories, by their path below the version's folder."""

    documents: Sequence[SidebarDocument]
    settings: Mapping[str, Mapping[str, Any]]  # of `_category_.json`


def without_number(name: str) -> tuple[str, float | None]:
    """Return a name without the number before it (`02-setup` is `setup`, 2), as Docusaurus' own parser does: dates and
    versions are no numbers."""
    match = None if _NOT_NUMBERED.fullmatch(name) else _NUMBERED.fullmatch(name)
    return (match[2], float(match[1][:9])) if match else (name, None)


def is_index(path: str) -> bool:
    """Return whether a document represents its folder: `index`, `README`, or named like it."""
    folder, base = posixpath.split(path)
    stem = without_number(posixpath.splitext(base)[0])[0].lower()
    return stem in ("index", "readme") or (bool(folder) and stem == posixpath.basename(folder).lower())


def ordered(sidebars: Any, folders: Folders) -> list[SidebarPosition]:
    """Return the documents of all sidebars in order, each at its first position.

    Args:
        sidebars: as `sidebars.js` exports them; anything but a mapping is one made of all folders.
        folders: the material of such sidebars.
    """
    by_id = {document.id: document for document in folders.documents}
    if not isinstance(sidebars, dict):
        sidebars = {"docs": [{"type": "autogenerated", "dirName": "."}]}
    placed: dict[str, SidebarPosition] = {}
    for items in sidebars.values():
        for one in _items(items, _SidebarPlace(), by_id, folders):
            placed.setdefault(one.document.name, one)
    return list(placed.values())


def _items(
    items: Any, place: _SidebarPlace, by_id: Mapping[str, SidebarDocument], folders: Folders
) -> Iterator[SidebarPosition]:
    if isinstance(items, dict):  # the short form: labels with their items
        items = [{"type": "category", "label": label, "items": below} for label, below in items.items()]
    for item in items if isinstance(items, list) and place.depth < _DEPTH_MAX else ():
        if isinstance(item, str):
            item = {"type": "doc", "id": item}
        if not isinstance(item, dict):
            continue
        match item.get("type"):
            case "doc" | "ref":
                if document := by_id.get(str(item.get("id"))):
                    yield SidebarPosition(document, place.parents, place.category)
            case "category":
                yield from _sidebar_category(item, place, by_id, folders)
            case "autogenerated":
                folder = str(item.get("dirName") or ".").strip("/")
                top = _SidebarPlace(place.parents, place.category)
                yield from _generated("" if folder == "." else folder, top, folders)
            case None:
                yield from _items(dict(item), replace(place, depth=place.depth + 1), by_id, folders)


def _sidebar_category(
    item: Mapping[str, Any], place: _SidebarPlace, by_id: Mapping[str, SidebarDocument], folders: Folders
) -> Iterator[SidebarPosition]:
    link = item.get("link")
    document = by_id.get(str(link.get("id"))) if isinstance(link, dict) and link.get("type") == "doc" else None
    label = str(item.get("label") or "") or None
    if document is not None:
        yield SidebarPosition(document, place.parents, place.category or label)
    yield from _items(item.get("items"), place.below(label, document), by_id, folders)


def _generated(folder: str, place: _SidebarPlace, folders: Folders) -> Iterator[SidebarPosition]:
    """Yield the documents of a folder and of those below it, by position, then by name."""
    prefix = f"{folder}/" if folder else ""
    below: dict[str, list[SidebarDocument]] = {}
    entries: list[tuple[float, str, SidebarDocument | str]] = []
    for document in folders.documents:
        if not document.path.startswith(prefix):
            continue
        first, _, rest = document.path[len(prefix) :].partition("/")
        if rest:
            below.setdefault(first, []).append(document)
        else:
            entries.append((_first(document.position), document.path, document))
    for name in below:
        settings = folders.settings.get(f"{prefix}{name}", {})
        entries.append((_position(settings.get("position"), name), f"{prefix}{name}", name))
    for _, path, entry in sorted(entries, key=lambda each: each[:2]):
        if isinstance(entry, SidebarDocument):
            yield SidebarPosition(entry, place.parents, place.category)
        elif place.depth < _DEPTH_MAX:
            yield from _folder(path, place, Folders(below[entry], folders.settings))


def _folder(path: str, place: _SidebarPlace, folders: Folders) -> Iterator[SidebarPosition]:
    """Yield the documents of a folder that is a category; its index is the category's own page."""
    settings = folders.settings.get(path, {})
    label = str(settings.get("label") or without_number(posixpath.basename(path))[0])
    indexes = (one for one in folders.documents if posixpath.dirname(one.path) == path and is_index(one.path))
    index = next(indexes, None)
    if index is not None:
        yield SidebarPosition(index, place.parents, place.category or label)
    for placed in _generated(path, place.below(label, index), folders):
        if placed.document is not index:
            yield placed


def _position(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return _first(without_number(name)[1])


def _first(position: float | None) -> float:
    return float("inf") if position is None else position


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
        stem = posixpath.splitext(posixpath.basename(page.name))[0]
        return markdown_body(
            main,
            plan,
            page,
            front,
            title=front.text("title") or heading_title(main) or front.text("id") or without_number(stem)[0],
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
    prefix = "src/pages/"
    pages = []
    for name in sorted(names):
        if name.startswith(prefix) and name.endswith(_ENDINGS) and name not in known:
            path = posixpath.splitext(name.removeprefix(prefix))[0]
            if not any(part.startswith("_") for part in path.split("/")):
                is_folder = posixpath.basename(path) == "index"
                pages.append(SitePage(name, quoted(path.removesuffix("index") if is_folder else path)))
    return pages
