"""HTML pages, read: the part of a page that is its text, by way of the elements that storage format has too.

Belongs here: what of an HTML page is text, which id a heading is reached by.
Does not belong here: what an element leaves in the text (`storage_elements`), files that a page includes.
"""

from __future__ import annotations

import re

from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.formats.element_tree import Element, parse_html
from rag_assets.steps.formats.storage_elements import storage_content

_TEMPLATE = re.compile(
    r"<script\b[^<>]{0,500}\btype\s{0,9}=\s{0,9}[\"']?text/(?:x-handlebars|x-template|template)[^<>]{0,500}>"
    r"(.*?)(?:</script\s*+>|\Z)",
    re.S | re.I,
)
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
_KEPT = frozenset({"class", "colspan", "rowspan", "start", "alt", "src", "href", "datetime"})
_ANCHOR = '<ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">{}</ac:parameter></ac:structured-macro>'
_MARK = "\ue000{}\ue001"  # private use: the number of an id, where its anchor macro goes
_MARKED = re.compile("\ue000([0-9]+)\ue001")


def html_content(body: str) -> Content:
    """Blocks of an HTML body; a heading's anchors are the ids that links reach it by.

    Read is `<main>`, else the only `<article>`, else all but navigation and scripts. Templates in scripts are text.

    Raises:
        PageError: the body cannot be read.
    """
    from lxml import etree

    source = _FORBIDDEN.sub("", _MARKED.sub("", _TEMPLATE.sub(r"<div>\1</div>", body)))
    root = _text_of(parse_html(f"<html><body>{source}</body></html>"))
    etree.strip_elements(root, *_NO_TEXT, with_tail=False)
    ids = _mark_headings(root)
    for element in root.iter():
        _plain(element)
    root.tag, root.tail = "div", None
    text = etree.tostring(root, encoding="unicode")
    return storage_content(_MARKED.sub(lambda mark: _ANCHOR.format(_escaped(ids[int(mark[1])])), text))


def _text_of(tree: Element) -> Element:
    mains = list(tree.iter("main"))
    articles = list(tree.iter("article"))
    found = mains[:1] or (articles if len(articles) == 1 else [])
    return found[0] if found else tree


def _mark_headings(root: Element) -> list[str]:
    """Put a mark in front of the text of each heading that has an id; the ids by number."""
    ids: list[str] = []
    for heading in root.iter(*_HEADINGS):
        if found := _id_of(heading):
            heading.text = _MARK.format(len(ids)) + (heading.text or "")
            ids.append(found)
    return ids


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


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
