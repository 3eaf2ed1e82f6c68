"""Folders of AsciiDoc, and components of Antora.

Belongs here: which files are pages, their order and parents by navigation files, where references between them lead.
Does not belong here: AsciiDoc itself (`citelock_sites.asciidoc`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from citelock_sites.asciidoc.page import asciidoc_page
from citelock_sites.markup import MarkupError, ReferenceTarget
from rag_assets.sources.sites.front_matter import YamlError, read_yaml
from rag_assets.sources.sites.site import ExcludedPageError, SiteBody, SitePage, SitePlan, SourceTree, has_file, quoted
from rag_assets.steps.files.records import FileError, decoded

ENDINGS = (".adoc", ".asciidoc", ".asc")
COMPONENT, PLAYBOOK = "antora.yml", "antora-playbook.yml"
_ITEM = re.compile(r"[ \t]*(\*{1,6}|-|\.{1,6})[ \t]+(.+)$")
_XREF = re.compile(r"xref:([^\[\]\s]{1,500})\[([^\[\]]{0,500})\]")
_RESOURCE = re.compile(
    r"(?:(?:[^@:$]+@)?(?:([\w.-]+):)?([\w.-]*):)?(?:(page|partial|example|attachment|image)\$)?(.+)$"
)
_FAMILIES = {"page": "pages", "partial": "partials", "example": "examples"}
_TITLE = re.compile(r"(?<![^\n])=[ \t]+(\S[^\n]*)")
_MODULE = re.compile(r"modules/([^/]+)/pages/(.+)$")


@dataclass(frozen=True)
class _Component:
    """What `antora.yml` says; `name` is empty where there is none."""

    name: str = ""
    version: str = ""
    start: str = ""
    navigation: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Return what stands before the paths of its pages."""
        parts = [one for one in (self.name if self.name != "ROOT" else "", self.version) if one]
        return "".join(f"{quoted(one)}/" for one in parts)


class AsciidocSite:
    """The rules of Asciidoctor, and those of Antora where a component is described."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`: pages in the order of the navigation, then the others by name."""
        component = _component(tree)
        excluded: dict[str, str] = {}
        names: list[str] = []
        for name in tree.names:
            if not name.endswith(ENDINGS):
                continue
            if why := _left_out(name, component):
                excluded[name] = why
            else:
                names.append(name)
        pages: dict[str, SitePage] = {}
        for name, title, parents, category in _navigated(tree, component):
            if name in names and name not in pages:
                pages[name] = SitePage(name, _path(name, component), title, parents, category)
        for name in names:
            pages.setdefault(name, SitePage(name, _path(name, component)))
        settings = [name for name in (COMPONENT, PLAYBOOK, *component.navigation) if has_file(tree, name)]
        return SitePlan("asciidoc", list(pages.values()), excluded, tuple(settings), {"component": asdict(component)})

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        component = _Component(**plan.facts["component"])
        around = _AntoraSurroundings(tree, plan, page)
        text = decoded(tree.read(page.name))
        try:
            made = asciidoc_page(text, page.name, around, component.attributes, keeps_marks=not component.name)
        except MarkupError as error:
            raise FileError(str(error)) from None
        if "noindex" in made.fields.get("page-robots", made.fields.get("robots", "")).lower():
            raise ExcludedPageError("its robots attribute says noindex")
        if "page-draft" in made.fields or made.fields.get("status", "").lower() == "draft":
            raise ExcludedPageError("it is a draft")
        words = ",".join(made.fields.get(name, "") for name in ("keywords", "page-tags"))
        return SiteBody(
            f"<main>{made.html}</main>",
            made.title or page.title or posixpath.splitext(posixpath.basename(page.name))[0],
            labels=tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip())),
            category=made.fields.get("page-category"),
            lang=made.fields.get("lang"),
            read=tuple(dict.fromkeys([*made.read, *around.asked])),
            lost=made.lost,
        )


def _component(tree: SourceTree) -> _Component:
    if not has_file(tree, COMPONENT):
        return _Component()
    values = _yaml(tree, COMPONENT)
    navigation = values.get("nav")
    version = values.get("version")
    return _Component(
        str(values.get("name") or "ROOT"),
        version if isinstance(version, str) and version != "~" else "",
        str(values.get("start_page") or ""),
        tuple(str(one) for one in navigation) if isinstance(navigation, list) else (),
        _attributes(_yaml(tree, PLAYBOOK), values),
    )


def _yaml(tree: SourceTree, name: str) -> Mapping[str, Any]:
    """Return what a file of settings says; nothing where it is not there, or not valid."""
    try:
        values = read_yaml(decoded(tree.read(name))) if has_file(tree, name) else None
    except (YamlError, FileError):
        values = None
    return values if isinstance(values, dict) else {}


def _attributes(playbook: Mapping[str, Any], component: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of AsciiDoc that a site and a component set; the site's win unless they end in `@`."""
    site, own = ({str(key).lower(): str(value) for key, value in _given(one).items()} for one in (playbook, component))
    firm = {name: value for name, value in site.items() if not value.endswith("@")}
    found = {**site, **own, **firm}
    return {name.removesuffix("!").removesuffix("@"): value.removesuffix("@") for name, value in found.items()}


def _given(values: Mapping[str, Any]) -> Mapping[str, Any]:
    said = values.get("asciidoc")
    given = said.get("attributes") if isinstance(said, dict) else None
    return given if isinstance(given, dict) else {}


def _left_out(name: str, component: _Component) -> str | None:
    base = posixpath.basename(name)
    if name in component.navigation or base in ("nav.adoc", "_nav.adoc"):
        return "it is navigation"
    if component.name:
        return None if _MODULE.match(name) and not base.startswith("_") else "no page of the component: it is included"
    if base.startswith("_") or any(part.startswith("_") for part in name.split("/")):
        return "it is included by other files: its name begins with _"
    return None


def _path(name: str, component: _Component) -> str:
    """Return the path of a page's address."""
    if found := _MODULE.match(name) if component.name else None:
        module = "" if found[1] == "ROOT" else f"{found[1]}/"
        return f"{component.path}{quoted(f'{module}{posixpath.splitext(found[2])[0]}.html')}"
    return quoted(f"{posixpath.splitext(name)[0]}.html")


def _navigated(
    tree: SourceTree, component: _Component
) -> Iterator[tuple[str, str | None, tuple[str, ...], str | None]]:
    """Yield the pages of the navigation files: name, title, those above, title of the list."""
    names = component.navigation or tuple(name for name in tree.names if posixpath.basename(name) == "nav.adoc")
    for file in names:
        try:
            lines = decoded(tree.read(file)).splitlines()
        except (KeyError, FileError):
            continue
        above: list[tuple[int, str]] = []
        category = None
        for line in lines:
            if line.startswith(".") and not line.startswith((". ", "..")):
                found = _XREF.search(line)
                category = found[2] if found else line[1:].strip()
                above.clear()
            elif item := _ITEM.match(line):
                depth = len(item[1])
                while above and above[-1][0] >= depth:
                    above.pop()
                link = _XREF.search(item[2])
                name = _resource(tree, file, link[1].partition("#")[0]) if link else None
                if name and link:
                    yield name, link[2] or None, tuple(one for _, one in above), category
                    above.append((depth, name))


def _resource(tree: SourceTree, above: str, name: str, family: str = "page") -> str | None:
    """Return the file that a page names: below its own folder, or by the id of a resource of Antora."""
    module = re.match(r"modules/([^/]+)/", above)
    found = _RESOURCE.match(name)
    if module and found:
        folder = _FAMILIES.get(found[3] or family)
        if found[2] is not None or found[3] or family == "page":
            own = found[2] or module[1]
            relative = found[4]
            if relative.startswith("./"):
                inner = posixpath.dirname(above.partition("/pages/")[2])
                relative = posixpath.join(inner, relative)
            joined = posixpath.normpath(f"modules/{own}/{folder}/{relative}")
            if has_file(tree, joined):
                return joined
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(above), name))
    return joined if has_file(tree, joined) else None


class _AntoraSurroundings:
    """The files and pages around one page (`PageSurroundings`)."""

    def __init__(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> None:
        self._tree, self._plan, self._page = tree, plan, page
        self.asked: list[str] = []

    def file(self, name: str, above: str) -> tuple[str, str] | None:
        found = _resource(self._tree, above, name, "partial")
        if found is None:
            return None
        try:
            return found, decoded(self._tree.read(found))
        except (FileError, KeyError):
            return None

    def target(self, kind: str, name: str, page: str) -> ReferenceTarget | None:
        path, mark, anchor = name.partition("#")
        found = _resource(self._tree, page, path) if kind == "doc" else None
        target = self._plan.by_name.get(found or "")
        if target is None:
            return None
        self.asked.append(target.name)
        here = "" if target.name == self._page.name and mark else self._plan.address(target)
        return ReferenceTarget(f"{here}{mark}{anchor}", self._title(target))

    def _title(self, page: SitePage) -> str:
        try:
            found = _TITLE.search(decoded(self._tree.read(page.name))[:4000])
        except (FileError, KeyError):
            found = None
        return found[1] if found else page.title or ""
