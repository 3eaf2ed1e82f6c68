"""HTML files: what stands in the body of a page.

Belongs here: the encoding that a page names, and its body without scripts.
Does not belong here: which part of a page is its text, and the ids of its headings (`formats.html`).
"""

from __future__ import annotations

from rag_assets.steps.files.decoding import decoded
from rag_assets.steps.files.records import FileError, FileText
from rag_assets.steps.formats.element_tree import PageError, parse_html
from rag_assets.steps.formats.html import templates_as_text
from rag_assets.steps.formats.text_marks import style_classes


def web_page(content: bytes, charset: str | None = None) -> FileText:
    """Return the body of an HTML page; `charset`: its encoding by what it came with, which goes before its own word.

    Raises:
        FileError: it cannot be read.
    """
    return FileText(_body(decoded(content, charset or _declared(content))), "html")


def _declared(content: bytes) -> str | None:
    """Return the encoding that an HTML page names in its head."""
    from bs4.dammit import EncodingDetector

    return EncodingDetector.find_declared_encoding(content, is_html=True)


def _body(text: str) -> str:
    """Return what stands in the body of an HTML page; empty where that says and shows nothing."""
    from lxml import etree

    if not text.strip():
        return ""
    try:
        root = parse_html(templates_as_text(text), huge=False)
    except PageError as error:
        raise FileError(f"it is not readable HTML: {error}") from None
    style_classes(root)
    etree.strip_elements(root, "script", "style", "noscript", "template", with_tail=False)
    found = root.find("body")
    body = root if found is None else found
    if not body.text_content().strip() and not body.xpath(".//img/@alt[normalize-space()]"):
        return ""
    body.tag, body.tail = "div", None
    return str(etree.tostring(body, encoding="unicode", method="html"))
