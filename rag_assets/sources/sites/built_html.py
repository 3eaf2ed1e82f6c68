"""Built sites: folders of HTML that a generator made."""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

from rag_assets.sources.sites.site import ExcludedPageError, SiteBody, SitePage, SitePlan, SourceTree, has_file, quoted
from rag_assets.steps.files.records import FileError, decoded
from rag_assets.steps.formats.element_tree import PageError, parse_html
from rag_assets.steps.formats.html import templates_as_text

ENDINGS = (".html", ".htm", ".xhtml")
INVENTORY = "objects.inv"
_INVENTORY_MAX = 50_000_000  # bytes of its lines
_GENERATED = {
    "404": "it is what the server shows for a page that is missing",
    "genindex": "it is a generated index",
    "py-modindex": "it is a generated index",
    "modindex": "it is a generated index",
    "search": "it is a search page",
    "searchindex": "it is a search page",
    "toc": "it is navigation",
    "print": "it repeats all pages for printing",
}
_MAIN = (  # of Docusaurus, Material, Sphinx' themes, mdBook, Asciidoctor, Antora, MkDocs
    '//article//div[contains(@class,"theme-doc-markdown")]',
    '//article[contains(@class,"md-content__inner")]',
    '//div[@itemprop="articleBody"]',
    '//article[contains(@class,"bd-article") or @id="furo-main-content"]',
    '//main//article[contains(@class,"doc")]',
    "//main",
    '//div[@role="main"]',
    '//div[@id="content" and not(ancestor::*[@id="content"])]',
    "//article",
    '//div[contains(concat(" ",@class," ")," document ")]//div[@class="body"]',
)
_NAVIGATION = (
    './/*[contains(@class,"headerlink") or contains(@class,"hash-link") or contains(@class,"header-anchor")'
    ' or contains(@class,"breadcrumb") or contains(@class,"nav-chapters") or contains(@class,"nav-wide-wrapper")'
    ' or contains(@class,"pagination-nav") or contains(@class,"theme-doc-footer") or contains(@class,"toctree-wrapper")'
    ' or contains(@class,"md-source-file") or contains(@class,"md-content__button") or @id="toc"'
    ' or contains(@class,"prev-next-area") or contains(@class,"rst-footer-buttons") or contains(@class,"edit-page")]'
)
_COMMENT = re.compile(r"<!--(?:[^-]|-(?!->))*(?:-->|\Z)|<!doctype[^<>]*>", re.I)
_SERVER_INCLUDE = re.compile(r"<!--#include\s")  # what a server puts there is no part of the file
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LANGUAGE = re.compile(r"\b(?:highlight|language|lang|brush:)[- ](?!default\b|none\b|text\b)([\w+#.-]+)")
_PLAIN_CLASS = re.compile(r"language-[\w+#.-]+")


class BuiltSite:
    """The rules of HTML files."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`: files in the order of their names, an index before its neighbours."""
        titles = dict(_documents(tree)) if has_file(tree, INVENTORY) else {}
        pages, excluded = [], {}
        for name in sorted((one for one in tree.names if one.endswith(ENDINGS)), key=_order):
            stem = posixpath.splitext(posixpath.basename(name))[0]
            top = name.partition("/")[0]
            if why := _GENERATED.get(stem) or (_GENERATED.get(top) if name.endswith("/index.html") else None):
                excluded[name] = why
            elif top in ("_static", "_sources", "_modules"):
                excluded[name] = "it is no page of the documentation"
            else:
                title = titles.get(posixpath.splitext(name)[0])
                folder, base = posixpath.split(name)
                is_index = base in ("index.html", "index.htm")  # whose address is that of its folder
                path = quoted(f"{folder}/" if is_index and folder else "" if is_index else name)
                pages.append(SitePage(name, path, title))
        settings = (INVENTORY,) if has_file(tree, INVENTORY) else ()
        return SitePlan("html", pages, excluded, settings)

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        from lxml import etree

        text = decoded(tree.read(page.name))
        if not _COMMENT.sub("", text).strip():
            raise ExcludedPageError("it has no text")
        try:
            root = parse_html(templates_as_text(text))
        except PageError as error:
            raise FileError(str(error)) from None
        if reason := _exclusion(root):
            raise ExcludedPageError(reason)
        main = next((found[0] for path in _MAIN if (found := root.xpath(path))), None)
        main = root.find("body") if main is None else main
        if main is None:
            raise FileError("it has no body")
        title = page.title or _title(root, main)
        _clean(main)
        _set_links(main, plan, page)
        main.tag = "main"
        main.tail = None
        html = str(etree.tostring(main, encoding="unicode", method="html"))
        keywords = ",".join(root.xpath('//head/meta[@name="keywords"]/@content'))
        lang = str(root.get("lang") or "").partition("-")[0] or None
        return SiteBody(
            html,
            title or posixpath.splitext(page.name)[0],
            labels=tuple(dict.fromkeys(word.strip() for word in keywords.split(",") if word.strip())),
            lang=lang,
            lost={"include": includes} if (includes := len(_SERVER_INCLUDE.findall(text))) else {},
        )


def _clean(main: Any) -> None:
    from lxml import etree

    etree.strip_elements(main, "script", "style", "nav", "noscript", "template", "button", with_tail=False)
    # a heading keeps its id, even if that was on its permalink
    for element in main.xpath(_NAVIGATION):
        above = element.getparent()
        if above is None:
            continue
        name = element.get("id") or element.get("name")
        if name and (above.tag in _HEADINGS or getattr(element.getnext(), "tag", "") in _HEADINGS):
            anchor = element.makeelement("a", {"id": name})
            element.addprevious(anchor)
        element.drop_tree()
    _mark_code(main)
    _mark_notes(main)


def _order(name: str) -> tuple[str, bool, str]:
    return posixpath.dirname(name), not posixpath.basename(name).startswith("index."), name


def _exclusion(root: Any) -> str | None:
    for meta in root.iter("meta"):
        name = (meta.get("name") or "").lower()
        if name in ("robots", "googlebot") and re.search(r"\b(?:noindex|none)\b", (meta.get("content") or "").lower()):
            return "its robots tag says noindex"
        if (meta.get("http-equiv") or "").lower() == "refresh":
            return "it leads to another page"
    return None


def _title(root: Any, main: Any) -> str:
    heading = next(main.iter("h1"), None)
    if heading is not None:
        marks = {id(one) for path in heading.xpath(_NAVIGATION) for one in path.iter()}
        texts = [heading.text or ""]
        for one in heading.iterdescendants():
            texts += [one.text or "" if id(one) not in marks else "", one.tail or ""]
        if words := " ".join("".join(texts).replace("\N{PILCROW SIGN}", "").split()):
            return words
    title = root.find(".//head/title")
    return " ".join(title.text_content().split()) if title is not None else ""


def _mark_code(main: Any) -> None:
    """Give code the class of its language, wherever its generator says it; line numbers are none of it."""
    for pre in main.iter("pre"):
        for number in pre.xpath('.//*[contains(@class,"lineno") or contains(@class,"linenos")]'):
            number.drop_tree()
        classes = [pre.get("class") or "", *(one.get("class") or "" for one in pre.iter("code"))]
        if any(map(_PLAIN_CLASS.search, classes)):
            continue
        above = [one.get("class") or "" for one in pre.iterancestors("div", "figure")][:2]
        languages = (found[1] for text in [*classes, *above] if (found := _LANGUAGE.search(text)))
        if language := next(languages, None):
            pre.set("class", f"{pre.get('class') or ''} language-{language}".strip())


def _mark_notes(main: Any) -> None:
    for element in main.xpath('.//div[contains(@class,"admonition") and not(contains(@class,"admonition-"))]'):
        if any(name in (element.get("class") or "").split() for name in ("admonition", "theme-admonition")):
            element.tag = "blockquote"
    for element in main.xpath('.//div[contains(@class,"theme-admonition") or contains(@class,"admonitionblock")]'):
        element.tag = "blockquote"
        for cell in element.xpath('./table//td[@class="icon"]'):  # Asciidoctor and Antora: a table of icon and text
            table = next(cell.iterancestors("table"))
            name = cell.makeelement("p")
            name.append(cell.makeelement("strong"))
            name[0].text = " ".join(cell.text_content().split()) or (cell.xpath("string(./i/@title)") or None)
            table.addprevious(name)
            cell.drop_tree()
            table.tag = "div"
            for inner in table.xpath("./tbody | ./tbody/tr | ./tr | ./tbody/tr/td | ./tr/td"):
                inner.tag = "div"
    for title in main.xpath('.//*[contains(@class,"admonition-title") or contains(@class,"admonitionHeading")]'):
        inner = title.makeelement("strong")
        inner.text, title.text = title.text, None
        inner.extend(list(title))
        title.append(inner)
        title.tag = "p"


def _set_links(main: Any, plan: SitePlan, page: SitePage) -> None:
    for link in main.iter("a"):
        href = (link.get("href") or "").strip()
        if not href or href.startswith("#") or urlsplit(href).scheme or href.startswith("//"):
            continue
        path, mark, anchor = href.partition("#")
        path = path.partition("?")[0]
        name = posixpath.normpath(urljoin(f"/{page.name}", path)).lstrip("/")
        found = next((plan.by_name[one] for one in _files(name) if one in plan.by_name), None)
        if found is not None:
            same = found.name == page.name and mark
            link.set("href", f"{'' if same else plan.address(found)}{mark}{anchor}")
        else:
            link.set("href", urljoin(plan.address(page), href))


def _files(name: str) -> Iterator[str]:
    bare = "" if name == "." else name
    yield bare
    yield f"{bare}/index.html".lstrip("/")
    yield f"{bare}.html"


def _documents(tree: SourceTree) -> Iterator[tuple[str, str]]:
    try:
        content = tree.read(INVENTORY)
        head = content.split(b"\n", 4)
        if len(head) < 5 or b"version 2" not in head[0]:
            return
        unpacked = zlib.decompressobj().decompress(head[4], _INVENTORY_MAX)
    except (FileError, KeyError, zlib.error):
        return
    for line in unpacked.decode("utf-8", "replace").splitlines():
        found = re.match(r"(\S+)\s+std:doc\s+-?\d+\s+(\S*)\s+(.*)$", line)
        if found:
            yield found[1], found[3] if found[3] != "-" else found[1]
