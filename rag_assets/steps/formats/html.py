"""HTML pages, read: the part of a page that is its text, by way of the elements that storage format has too.

Also the files of a space export in HTML: their data beside the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from rag_assets.steps.formats.blocks import Content, style_classes
from rag_assets.steps.formats.element_tree import AC, NO_TEXT, Element, PageError, parse_html
from rag_assets.steps.formats.macros import taken_losses, wordless_elements
from rag_assets.steps.formats.storage_elements import tree_content

_PAGE = re.compile(r"(?:^|_)([0-9]+)\.html\Z")


class ExportedPage(NamedTuple):
    """A page's file."""

    title: str  # with the name of the space before it
    crumbs: list[tuple[str | None, str]]  # page ids and titles of the ancestors; first the space, without an id
    changed: str  # the line with author and date of the last change
    body: str
    links: list[tuple[str, str]]  # address and text of the attached files


class ExportedIndex(NamedTuple):
    """The file that names all pages."""

    key: str | None  # of the space
    page_ids: list[str]


def page_id_in(name: str) -> str | None:
    """Return the id in the name of a page's file."""
    found = _PAGE.search(name)
    return found[1] if found else None


def exported_page(content: bytes) -> ExportedPage:
    """Return the contents of a page's file. Raises PageError if it is no such file."""
    from html import escape

    from lxml import html

    page = parse_html(content)
    main = page.get_element_by_id("main-content", None)
    if main is None:
        raise PageError("it has no element main-content, so it is no page of an export")
    title = page.get_element_by_id("title-text", None)
    title = page.find(".//title") if title is None else title
    crumbs = page.get_element_by_id("breadcrumbs", None)
    above = crumbs.iter("a") if crumbs is not None else ()
    inner = (html.tostring(child, encoding="unicode") for child in main)
    return ExportedPage(
        title=_line_of(title) if title is not None else "",
        crumbs=[(_linked(link), _line_of(link)) for link in above],
        changed=next(map(_line_of, page.find_class("page-metadata")), ""),
        body="".join([escape(main.text or "", quote=False), *inner]),
        links=[(link.get("href", ""), _line_of(link)) for box in page.find_class("greybox") for link in box.iter("a")],
    )


def exported_index(content: bytes) -> ExportedIndex:
    """Return the contents of the index. Raises PageError if it is not HTML."""
    tree = parse_html(content)
    named = {page_id for link in tree.iter("a") if (page_id := _linked(link))}
    details = ((head.text_content().strip(), head.getnext()) for head in tree.iter("th"))
    keys = (cell.text_content().strip() for name, cell in details if name == "Key" and cell is not None)
    return ExportedIndex(next(filter(None, keys), None), sorted(named))


def _line_of(element: Any) -> str:
    return " ".join(element.text_content().split())


def _linked(link: Any) -> str | None:
    return page_id_in(unquote(link.get("href", "")).partition("#")[0])


_TEMPLATE = re.compile(
    r"<script\b[^<>]{0,500}\btype\s{0,9}=\s{0,9}[\"']?text/(?:x-handlebars|x-template|template)[^<>]{0,500}>"
    r"(.*?)(?:</script\s*+>|\Z)",
    re.S | re.I,
)
_AS_TEXT = r"<div>\1</div>"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_FRAME = (
    ".//footer[not(ancestor::blockquote) and not(ancestor::figure)]",
    './/form[@role="search"]',
)
_LINKED_MOST = 0.6  # share of the characters of an `<aside>`; one that is links for more is navigation
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_OPENED = frozenset({"section", "div", "article", "header", "hgroup", "ul", "li", "dl", "dt", "dd"})
_OPENED_MAX = 4  # elements that one heading opens; those further out are the frame of the page
_MARKABLE = (
    *(
        "a",
        "span",
        "p",
        "div",
        "section",
        "article",
        "header",
        "figure",
        "figcaption",
        "details",
        "summary",
        "dt",
        "dd",
    ),
    *("li", "blockquote", "sup", "sub", "td", "th", "caption", "strong", "b", "em", "i", "code", "dfn", "abbr", "mark"),
)
_MARKED_BEFORE = frozenset({"table", "pre", "ul", "ol", "dl"})  # their first content is no running text
_OF_TABLES = frozenset({"table", "thead", "tbody", "tfoot", "tr"})
_IDS_MAX = 5_000  # of one page; links to those beyond land on the heading above
_KEPT = frozenset(
    {"class", "colspan", "rowspan", "start", "alt", "src", "href", "datetime", "style"}
    | {"data-macro-name", "data-macro-parameters"}
)


def html_content(body: str) -> Content:
    """Return the blocks of an HTML body; a heading's anchors are the ids of links to it.

    Only `<main>` is read, else the only `<article>`, else all but navigation and scripts. Templates in scripts are
    text. Visible elements without words are counted in the ledger, and so are the notes of `with_losses`.
    Raises PageError: the body cannot be read.
    """
    from lxml import etree

    document = parse_html(f"<html><body>{_FORBIDDEN.sub('', templates_as_text(body))}</body></html>")
    style_classes(document)
    articles = list(document.iter("article"))
    mains = [*document.iter("main")] or document.xpath('.//*[@role="main"]') or articles * (len(articles) == 1)
    root = mains[0] if mains else document
    noted = taken_losses(root)
    _without_frame(root)
    wordless = wordless_elements(root)
    etree.strip_elements(root, *NO_TEXT, with_tail=False)
    named = [(heading, _ids_of(heading)) for heading in root.iter(*_HEADINGS)]
    further: dict[str, Element] = {}  # of running text, reached by an id that is no heading's
    of_headings = {name for _, names in named for name in names}
    for element in root.iter(*_MARKABLE, *_MARKED_BEFORE):
        if (name := _name(element)) and name not in of_headings and len(further) < _IDS_MAX:
            further.setdefault(name, element)
    for element in root.iter():  # XML would stumble over `v-on:click` and `<o:p>`
        for name in set(element.attrib) - _KEPT:
            del element.attrib[name]
        if not element.tag.isalnum():
            element.tag = "span"
    for heading, names in named:
        for name in reversed(names):
            _mark(heading, name)
    for name, element in further.items():
        _mark(element, name)
    root.tag, root.tail = "div", None
    content = tree_content(root)
    return content._replace(ledger=content.ledger + noted + wordless)


def templates_as_text(source: str) -> str:
    """Return HTML in which the text of templates, which scripts show, is part of the page."""
    return _TEMPLATE.sub(_AS_TEXT, source) if "<script" in source or "<SCRIPT" in source else source


def _without_frame(root: Element) -> None:
    """Remove the frame of the text: navigation, footers, search, boxes that are lists of links."""
    from lxml import etree

    etree.strip_elements(root, "nav", with_tail=False)
    for path in _FRAME:
        for element in root.xpath(path):
            element.drop_tree()
    for element in root.xpath(".//aside[not(ancestor::aside)]"):
        linked = sum(len(word) for link in element.iter("a") for word in _words(link))
        if linked > _LINKED_MOST * sum(map(len, _words(element))):
            element.drop_tree()
    for element in list(root.iter("aside")):
        element.tag = "div"


def _mark(element: Element, name: str) -> None:
    """Begin an element with the anchor macro that storage format would have there; of a list or table put it before."""
    from lxml import etree

    macro = etree.Element(f"{AC}structured-macro", {f"{AC}name": "anchor"})
    etree.SubElement(macro, f"{AC}parameter", {f"{AC}name": ""}).text = name
    if element.tag in _MARKED_BEFORE:
        above = element.getparent()
        if above is not None and above.tag not in _OF_TABLES:
            element.addprevious(macro)
        return
    macro.tail, element.text = element.text, None
    element.insert(0, macro)


def _ids_of(heading: Element) -> list[str]:
    """Return the ids that lead to a heading, the one that its own page links it by first.

    That is its own, one inside it, that of a section that it opens (Sphinx, Javadoc), that of another element that it
    opens, or of an empty anchor right before it (Javadoc, wikis).
    """
    inside = [name for element in heading.iter() if (name := _name(element))]
    around = list(_around(heading))
    of_sections = [name for name, tag in around if tag == "section"]
    return list(dict.fromkeys([*inside, *of_sections, *(name for name, _ in around)]))


def _around(heading: Element) -> Iterator[tuple[str, str]]:
    """Yield id and tag of the empty anchors before a heading and of the elements that it opens, nearest first."""
    element = heading
    for _ in range(_OPENED_MAX):
        before = element.getprevious()
        while before is not None and before.tag in ("a", "span") and not (before.tail or "").strip():
            if _words(before) or before.find(".//img") is not None:
                break
            yield from ((name, before.tag) for each in before.iter() if (name := _name(each)))
            before = before.getprevious()
        element = element.getparent()
        if before is not None or element is None or element.tag not in _OPENED or (element.text or "").strip():
            return
        if name := _name(element):
            yield name, element.tag


def _name(element: Element) -> str:
    return (element.get("id") or (element.get("name") if element.tag == "a" else "") or "").strip()


def _words(element: Element) -> list[str]:
    return "".join(element.itertext()).split()
