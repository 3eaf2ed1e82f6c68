"""Sites of Eleventy, Jekyll and Hugo: which files are pages, their addresses, what their templates know."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from citelock_sites.js_values import JsError, exported
from citelock_sites.mkdocs_markdown import plain_markdown
from citelock_sites.templates import Template
from rag_assets.sources.sites.front_matter import (
    FrontMatter,
    Value,
    YamlError,
    read_toml,
    read_yaml,
    split_front_matter,
)
from rag_assets.sources.sites.markdown_page import (
    GithubSlugger,
    heading_title,
    html_main,
    indexes_of,
    markdown_body,
    markdown_main,
    name_title,
    parents_of,
    read_markdown,
    set_ids,
)
from rag_assets.sources.sites.site import (
    GENERATORS,
    SiteBody,
    SitePage,
    SitePlan,
    SourceTree,
    by_folder,
    quoted,
    settings_text,
    text_of,
)
from rag_assets.steps.files.records import FileError
from rag_serving.text.normalization import OMISSION

_HTML = (".html", ".htm", ".njk", ".liquid")
_ENDINGS = (".md", ".markdown", *_HTML)
_DATA = (".json", ".yml", ".yaml", ".toml", ".js", ".cjs", ".mjs")
_INPUT = re.compile(r"(?:\binput\s{0,9}:|setInputDirectory\()\s{0,9}[\"'`]([^\"'`\n]{1,200})")
_DATA_FOLDER = re.compile(r"(?:\bdata\s{0,9}:|setDataDirectory\()\s{0,9}[\"'`]([^\"'`\n]{1,200})")
_DATED = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})-(.+)")
_TOC = re.compile(r"^(?:[*-]|1\.) [^\n]{0,60}\n(?=\{:\s?toc)", re.MULTILINE)
_NAMED = re.compile(r":([a-z_]+)")
_STYLES = ("date", "none", "ordinal", "weekdate")  # of Jekyll, whose addresses end in .html


@dataclass
class Rules:
    """The settings of a site.

    Attributes:
        config: the settings.
        used: names of their files.
        root: the folder of the pages, empty for that of the site.
        known: values for all templates, by name.
        folders: values for the pages below a folder beside their front matter.
    """

    config: dict[str, Any] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    root: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)

    def front(self, path: str, own: FrontMatter) -> FrontMatter:
        """Return the front matter of a page with the values of its folders."""
        values: dict[str, Any] = {}
        for folder in sorted(self.folders):
            values |= self.folders[folder] if f"{path}/".startswith(folder) else {}
        return FrontMatter({**values, **own.values}, own.lines)


@dataclass(frozen=True)
class StaticSite:
    """The rules of one of these generators.

    Attributes:
        rules: reads the rest of the rules of a site, where the settings were read.
        address: returns the path of a page by its path below `root` and its front matter; None if it has none.
    """

    name: str
    rules: Callable[[SourceTree, Rules], None]
    address: Callable[[Rules, str, FrontMatter], str | None]

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`."""
        rules = Rules(*_settings(tree, GENERATORS[self.name].signs))
        self.rules(tree, rules)
        prefix, indexes = f"{rules.root}/" if rules.root else "", indexes_of(by_folder(tree.names))
        pages, excluded = [], {}
        for name in tree.names:
            if not name.lower().endswith(_ENDINGS) or name.startswith("static/"):
                continue
            path = name.removeprefix(prefix)
            front = rules.front(path, _front(tree, name))
            address = self.address(rules, path, front) if name.startswith(prefix) else None
            if address is None:
                excluded[name] = f"{self.name} makes no page of it"
                continue
            place = next(
                (one for key in ("weight", "order", "nav_order") if (one := front.number(key)) is not None), 1e9
            )
            page = SitePage(
                name, quoted(address.lstrip("/").removesuffix("index.html")), None, parents_of(name, indexes)
            )
            pages.append((posixpath.dirname(name), place, page))
        placed = [page for *_, page in sorted(pages, key=lambda one: one[:2])]
        facts = {"root": rules.root, "known": rules.known, "folders": rules.folders}
        return SitePlan(self.name, placed, excluded, tuple(rules.used), facts, roots=("", rules.root))

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        own, text = read_markdown(tree, page)
        rules = Rules(**plan.facts)
        front = rules.front(page.name.removeprefix(f"{rules.root}/"), own)
        known = {**rules.known, **front.values, **front.member("params"), "page": dict(front.values)}
        template = Template(known, is_hugo=self.name == "hugo")
        text = template.rendered(text)
        if page.name.lower().endswith(_HTML):
            main = html_main(text)
        else:
            text = plain_markdown(_TOC.sub("", text)) if self.name == "jekyll" else text
            main = markdown_main(text, "HEADING_ATTRIBUTES", "DEFINITION_LIST", "GFM")
        set_ids(main, GithubSlugger())
        title = front.text("title") or heading_title(main) or name_title(page.name)
        return markdown_body(main, plan, page, front, title=title, lang=rules.known.get("lang"), lost=template.lost)


def _file_values(tree: SourceTree, name: str) -> Value:
    """Return the content of a file of settings or data (YAML, JSON, TOML, JavaScript's exports).

    Raises:
        FileError: it cannot be read.
    """
    text = settings_text(tree, name)
    try:
        if name.endswith(".toml"):
            return read_toml(text)
        return exported(text) if name.endswith(("js", "ts")) else read_yaml(text)  # JSON is YAML
    except (YamlError, JsError) as error:
        raise FileError(f"{name}: {error}") from None


def _front(tree: SourceTree, name: str) -> FrontMatter:
    """Return the front matter of a file; that of one which cannot be read is empty."""
    try:
        return split_front_matter(text_of(tree.read(name)))[0]
    except FileError:
        return FrontMatter()


def _settings(tree: SourceTree, names: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings in the first of these files that exists. Raises FileError if it cannot be read."""
    name = next((one for one in names if one in tree.names), None)
    found = _file_values(tree, name) if name else None
    return found if isinstance(found, dict) else {}, [name] if name else []


def _data(tree: SourceTree, folder: str, rules: Rules) -> dict[str, Any]:
    """Return the values of the data files in a folder, by the names of files and folders; one that cannot be read, or
    that a program computes, says nothing."""
    values: dict[str, Any] = {}
    for name in tree.names:
        if name.startswith(f"{folder}/") and name.endswith(_DATA):
            *above, base = name[len(folder) + 1 :].split("/")
            place = values
            for part in above:
                place = place.setdefault(part, {})
            rules.used.append(name)
            place[base.split(".")[0]] = _loaded(tree, name) or {}
    return values


def _loaded(tree: SourceTree, name: str) -> Any:
    try:
        return _file_values(tree, name)
    except FileError:
        return None


def _eleventy_rules(tree: SourceTree, rules: Rules) -> None:
    """Read the literals in the program of settings, the folders of pages and data, and the data itself."""
    text = "".join(text_of(tree.read(name)) for name in rules.used)
    folders = []
    for pattern, default in ((_INPUT, "."), (_DATA_FOLDER, "_data")):
        found = pattern.search(text)
        folders.append(posixpath.normpath(found[1] if found else default).lstrip("/"))
    rules.root = folders[0].removeprefix(".")
    rules.known = _data(tree, posixpath.normpath(posixpath.join(*folders)), rules)
    for name in tree.names:  # data of a folder are in it, under its name
        folder, base = posixpath.split(name)
        if base.endswith(_DATA) and base.split(".")[0] == posixpath.basename(folder) and name.startswith(rules.root):
            found = _loaded(tree, name)
            rules.folders[f"{folder}/".removeprefix(f"{rules.root}/")] = found if isinstance(found, dict) else {}
            rules.used.append(name)


def _eleventy_address(rules: Rules, path: str, front: FrontMatter) -> str | None:
    folder, base = posixpath.split(path)
    stem, permalink = posixpath.splitext(base)[0], front.values.get("permalink")
    if permalink is False or f"/{path}".find("/_") >= 0:
        return None
    is_index = stem in ("index", posixpath.basename(folder))
    default = posixpath.join(folder, "" if is_index else f"{stem}/")
    page = {"fileSlug": posixpath.basename(folder) if is_index else stem, "filePathStem": f"/{folder}/{stem}"}
    written = permalink if isinstance(permalink, str) else default
    written = Template({**rules.known, **front.values, "page": page}).rendered(written)
    if posixpath.splitext(written)[1] not in ("", ".html", ".htm"):
        return None
    return default if OMISSION in written else written


def _jekyll_rules(tree: SourceTree, rules: Rules) -> None:
    config = rules.config
    rules.root = posixpath.normpath(str(config.get("source") or ".")).strip("/").removeprefix(".")
    site = {**config, "data": _data(tree, str(config.get("data_dir") or "_data"), rules), "baseurl": ""}
    rules.known = {"site": site, "lang": config.get("lang")}
    for one in config.get("defaults") or ():
        scope, values = (one.get(key) for key in ("scope", "values")) if isinstance(one, dict) else (None, None)
        if isinstance(scope, dict) and isinstance(values, dict):
            kind, path = str(scope.get("type") or "pages"), str(scope.get("path") or "").strip("/")
            rules.folders[f"{path}/" if path else "" if kind == "pages" else f"_{kind}/"] = values


def _jekyll_address(rules: Rules, path: str, front: FrontMatter) -> str | None:
    folder, base = posixpath.split(path)
    stem, style = posixpath.splitext(base)[0], str(rules.config.get("permalink") or "date")
    ending = ".html" if style in _STYLES or style.endswith((":output_ext", ".html")) else ""
    ending = "/" if style == "pretty" or style.endswith("/") else ending
    above, _, below = folder.partition("/")
    found = rules.config.get("collections")
    collection = found.get(above[1:]) if isinstance(found, dict) and above[:1] == "_" else None
    own = collection if isinstance(collection, dict) else {}
    name, post = stem, _DATED.fullmatch(stem) if "_posts" in folder.split("/") else None
    told = {"path": folder, "basename": stem, "output_ext": ".html"}
    if post:
        name, template = (
            post[4],
            f"/:categories/:year/:month/:day/:title{ending}" if style in ("date", "pretty") else style,
        )
        categories = [folder.partition("_posts")[0], *front.words("categories", "category")]
        told |= {
            "year": post[1],
            "month": post[2].zfill(2),
            "day": post[3].zfill(2),
            "categories": "/".join(categories),
        }
    elif own.get("output") is True:
        told |= {"collection": above[1:], "path": posixpath.join(below, stem)}
        template = str(own.get("permalink") or f"/:collection/:path{ending}")
    elif f"/{path}".find("/_") >= 0:
        return None
    else:
        template = "/:path/" if stem in ("index", "README") else f"/:path/:basename{ending}"
    told |= dict.fromkeys(("title", "slug", "name"), front.text("slug") or name)
    return re.sub("/{2,}", "/", _NAMED.sub(lambda match: told.get(match[1], ""), front.text("permalink") or template))


def _hugo_rules(tree: SourceTree, rules: Rules) -> None:
    for key in ("params", "languages"):
        more, used = _settings(tree, (f"config/_default/{key}{ending}" for ending in _DATA))
        rules.config, rules.used = {**rules.config, **({key: more} if more else {})}, [*rules.used, *used]
    params, lang = (rules.config.get(key) for key in ("params", "defaultContentLanguage"))
    rules.known = {**(params if isinstance(params, dict) else {}), "lang": str(lang)[:2] if lang else None}
    rules.root = posixpath.normpath(str(rules.config.get("contentDir") or "content"))


def _hugo_address(rules: Rules, path: str, front: FrontMatter) -> str | None:
    folder, base = posixpath.split(path)
    stem, _, mark = posixpath.splitext(base)[0].partition(".")
    languages = rules.config.get("languages") or {}
    top, _, below = folder.partition("/")
    lang, stem = (mark, stem) if mark in languages else ("", posixpath.splitext(base)[0])
    lang, folder = (top, below) if top in languages else (lang, folder)
    is_main = lang == str(rules.config.get("defaultContentLanguage") or "en")
    prefix = f"{lang}/" if lang and not (is_main and not rules.config.get("defaultContentLanguageInSubdir")) else ""
    if url := front.text("url"):
        return url if url.startswith("/") else prefix + url
    if stem == "index" and front.text("slug"):
        folder = posixpath.dirname(folder)
    written = posixpath.join(folder, front.text("slug") or (stem if stem not in ("index", "_index") else ""))
    is_ugly = rules.config.get("uglyURLs") is True and stem not in ("index", "_index")
    return f"{prefix}{written.strip('/')}{'.html' if is_ugly else '/'}".lstrip("/").lower().replace(" ", "-")


Eleventy = partial(StaticSite, "eleventy", _eleventy_rules, _eleventy_address)
Jekyll = partial(StaticSite, "jekyll", _jekyll_rules, _jekyll_address)
Hugo = partial(StaticSite, "hugo", _hugo_rules, _hugo_address)
"""What joins as a generator."""
