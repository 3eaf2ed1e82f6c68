"""Files of a space export in HTML: their data beside the text.

Belongs here: the elements of Confluence's export with title, ancestors, date, body and attached files.
Does not belong here: the zip (`rag_assets.sources.confluence_export`), the text of a body (`html`).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from rag_assets.steps.formats.element_tree import PageError, parse_html

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
    page = parse_html(content)
    main = page.get_element_by_id("main-content", None)
    if main is None:
        raise PageError("it has no element main-content, so it is no page of an export")
    title = page.get_element_by_id("title-text", None)
    title = page.find(".//title") if title is None else title
    crumbs = page.get_element_by_id("breadcrumbs", None)
    above = crumbs.iter("a") if crumbs is not None else ()
    return ExportedPage(
        title=_words(title) if title is not None else "",
        crumbs=[(_linked(link), _words(link)) for link in above],
        changed=next(map(_words, page.find_class("page-metadata")), ""),
        body=_inner(main),
        links=[(link.get("href", ""), _words(link)) for box in page.find_class("greybox") for link in box.iter("a")],
    )


def exported_index(content: bytes) -> ExportedIndex:
    """Return the contents of the index. Raises PageError if it is not HTML."""
    tree = parse_html(content)
    named = {page_id for link in tree.iter("a") if (page_id := _linked(link))}
    return ExportedIndex(_key_of(tree), sorted(named))


def _words(element: Any) -> str:
    return " ".join(element.text_content().split())


def _inner(element: Any) -> str:
    from html import escape

    from lxml import html

    parts = [html.tostring(child, encoding="unicode") for child in element]
    return "".join([escape(element.text or "", quote=False), *parts])


def _key_of(index: Any) -> str | None:
    """Return the space's key from the details in the index."""
    for head in index.iter("th"):
        cell = head.getnext()
        if head.text_content().strip() == "Key" and cell is not None and (key := cell.text_content().strip()):
            return str(key)
    return None


def _linked(link: Any) -> str | None:
    return page_id_in(unquote(link.get("href", "")).partition("#")[0])
