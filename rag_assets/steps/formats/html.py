"""HTML pages, read: the part of a page that is its text, by way of the elements that storage format has too.

Belongs here: what of an HTML page is text, which id a heading is reached by.
Does not belong here: what an element leaves in the text (`storage_elements`), files that a page includes.
"""

from __future__ import annotations

import re

from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.formats.element_tree import Element, parse_html
from rag_assets.steps.formats.storage import AC
from rag_assets.steps.formats.storage_elements import tree_content

_TEMPLATE = re.compile(
    r"<script\b[^<>]{0,500}\btype\s{0,9}=\s{0,9}[\"']?text/(?:x-handlebars|x-template|template)[^<>]{0,500}>"
    r"(.*?)(?:</script\s*+>|\Z)",
    re.S | re.I,
)
_AS_TEXT = r"<div>\1</div>"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NO_TEXT = (
    "script",
    "style",
    "nav",
    "footer",
    "aside",
    "form",
    "template",
    "noscript",
    "button",
    "svg",
    "iframe",
    "object",
)
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_MARKABLE = ("a", "span", "p", "div", "section", "figure", "figcaption", "dt", "dd", "li", "blockquote", "sup")
_IDS_MAX = 5_000  # of one page; links to those beyond land on the heading above
_KEPT = frozenset({"class", "colspan", "rowspan", "start", "alt", "src", "href", "datetime"})


def html_content(body: str) -> Content:
    """Blocks of an HTML body; a heading's anchors are the ids that links reach it by.

    Read is `<main>`, else the only `<article>`, else all but navigation and scripts. Templates in scripts are text.

    Raises:
        PageError: the body cannot be read.
    """
    from lxml import etree

    root = _text_of(parse_html(f"<html><body>{_FORBIDDEN.sub('', _TEMPLATE.sub(_AS_TEXT, body))}</body></html>"))
    etree.strip_elements(root, *_NO_TEXT, with_tail=False)
    named = [(heading, _id_of(heading)) for heading in root.iter(*_HEADINGS)]
    further = _other_ids(root, {name for _, name in named})
    for element in root.iter():
        _plain(element)
    for heading, name in named:
        if name:
            _mark(heading, name)
    for element, name in further:
        _mark(element, name)
    root.tag, root.tail = "div", None
    return tree_content(root)


def _text_of(tree: Element) -> Element:
    mains = list(tree.iter("main"))
    articles = list(tree.iter("article"))
    found = mains[:1] or (articles if len(articles) == 1 else [])
    return found[0] if found else tree


def _other_ids(root: Element, of_headings: set[str]) -> list[tuple[Element, str]]:
    """Return the elements of running text that links reach by an id which is no heading's."""
    ids: dict[str, Element] = {}
    for element in root.iter(*_MARKABLE):
        if (name := _name(element)) and name not in of_headings and len(ids) < _IDS_MAX:
            ids.setdefault(name, element)
    return [(element, name) for name, element in ids.items()]


def _mark(heading: Element, name: str) -> None:
    """Begin an element with the anchor macro that storage format would have there."""
    from lxml import etree

    macro = etree.Element(f"{AC}structured-macro", {f"{AC}name": "anchor"})
    etree.SubElement(macro, f"{AC}parameter", {f"{AC}name": ""}).text = name
    macro.tail, heading.text = heading.text, None
    heading.insert(0, macro)


def _id_of(heading: Element) -> str:
    """Return the heading's own id, one inside it, that of an anchor right before it, or of a section that it opens."""
    for element in heading.iter():
        if found := _name(element):
            return found
    before, above = heading.getprevious(), heading.getparent()
    if before is not None and before.tag == "a" and not (before.tail or "").strip() and len(_words(before)) == 0:
        return _name(before)
    opens = before is None and above is not None and not (above.text or "").strip()
    return _name(above) if opens and above.tag in ("section", "div", "article", "header") else ""


def _name(element: Element) -> str:
    return (element.get("id") or (element.get("name") if element.tag == "a" else "") or "").strip()


def _words(element: Element) -> list[str]:
    return "".join(element.itertext()).split()


def _plain(element: Element) -> None:
    """Only tags and attributes that storage format has as well: XML would stumble over `v-on:click` and `<o:p>`."""
    for name in list(element.attrib):
        if name not in _KEPT:
            del element.attrib[name]
    if not element.tag.isalnum():
        element.tag = "span"
