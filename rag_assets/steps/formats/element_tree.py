"""Element trees: what bodies are read into.

Belongs here: the one parser, what stops it, and what is said then.
Does not belong here: what elements mean (`html`, `exported_page`), storage format (`storage`).

lxml's own tree, not BeautifulSoup on top of it: that takes 20 to 35 times the time and 3 times the memory (6.3 s and
366 MB for 20 MB of Kafka's documentation, where `documents.max_memory_mb` is 512), and does not say where it stopped.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Element: TypeAlias = Any  # lxml carries no annotations


class PageError(Exception):
    """This page cannot be read; the message says why."""


def parse_html(source: str | bytes, huge: bool = True) -> Element:
    """Return the tree of a document, without comments and processing instructions; nothing is fetched.

    Raises:
        PageError: it has no element, or the parser stopped at a limit of its own.
        MemoryError: there was no memory left.
    """
    from lxml import etree, html

    content = source.encode(errors="replace") if isinstance(source, str) else source
    parser = html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=huge)
    try:
        try:
            return html.document_fromstring(content, parser=parser)
        finally:
            check_whole(parser)
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise PageError(f"it is not HTML: {error}") from None


def check_whole(parser: Any) -> None:
    """Raise if a parser stopped at a limit of its own: its document is then incomplete.

    Raises:
        PageError: elements are nested too deep, or one of them is too large.
        MemoryError: there was no memory left.
    """
    from lxml import etree

    for entry in parser.error_log:
        if entry.type == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError
        if entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT:
            reason = " ".join(entry.message.partition(", use ")[0].split())
            raise PageError(f"the body is beyond what is parsed: {reason}")
