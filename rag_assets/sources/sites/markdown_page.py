"""Markdown pages as HTML: what all generators of Markdown sites have in common.

Belongs here: Markdown to elements; ids, links, images, footnotes and alerts of the elements.
Does not belong here: what one generator adds to Markdown (`mdx`, `mkdocs_markdown`), finding pages (`links`), ids
(`slugs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from rag_assets.sources.sites.slugs import Slugger
from rag_assets.steps.files.decoding import decoded
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element, PageError, parse_html

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
HTML_PER_CHAR, HTML_MAX = 20, 20_000_000
"""Characters of HTML for each of Markdown, and without regard to it: link references can repeat long addresses."""
_RENAMED = MappingProxyType({"aside": "div", "footer": "div", "header": "div", "form": "div", "button": "span"})
_EMBEDDED = ("iframe", "object", "embed", "video", "audio", "canvas", "svg")


def text_of(content: bytes) -> str:
    """Return the text of a Markdown file with `\\n` at the ends of its lines. Raises FileError where it is none."""
    return decoded(content).replace("\r\n", "\n").replace("\r", "\n")


def markdown_main(text: str, *features: str) -> Element:
    """Return Markdown as a `<main>` element: CommonMark with tables, strikethrough, task lists and footnotes.

    Args:
        text: Markdown; HTML in it is read as HTML.
        features: further ones of `pyromark.Options`, without `ENABLE_`.

    Raises:
        FileError: it cannot be read.
    """
    import pyromark

    options = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
    for name in ("TASKLISTS", "FOOTNOTES", *features):
        options |= getattr(pyromark.Options, f"ENABLE_{name}")
    html = pyromark.html(text, options=options)
    if len(html) > max(HTML_MAX, HTML_PER_CHAR * len(text)):
        raise FileError(f"its links repeat addresses of more than {HTML_MAX} characters")
    try:
        body = parse_html(f"<html><body>{html}</body></html>").find("body")
    except PageError as error:
        raise FileError(str(error)) from None
    for element in list(body.iter("main", "body")):
        if element is not body:
            element.drop_tag()
    body.tag = "main"
    return body


def html_of(main: Element) -> str:
    """Return an element as HTML."""
    from lxml import etree

    return str(etree.tostring(main, encoding="unicode", method="html"))


def words_of(element: Element) -> str:
    """Return the text of an element on one line."""
    return " ".join("".join(element.itertext()).split())


def set_ids(main: Element, slugger: Slugger, text: Callable[[Element], str] | None = None) -> None:
    """Give each heading the id that its generator gives it; one that its author wrote is kept."""
    for heading in main.iter(*HEADINGS):
        if written := heading.get("id"):
            heading.set("id", slugger.written(written))
        else:
            heading.set("id", slugger.slug(text(heading) if text else "".join(heading.itertext()).strip()))


def set_links(main: Element, address: Callable[[str], str]) -> None:
    """Let the links of a page lead where `address` says."""
    for link in main.iter("a"):
        if href := link.get("href"):
            link.set("href", address(href))


def first_heading(main: Element) -> Element | None:
    """Return the first heading of level 1."""
    return next(main.iter("h1"), None)


def mark_footnotes(main: Element) -> None:
    """Write the marks of footnotes in brackets, so that none is taken for a digit of the number before it."""
    for mark in list(main.iter("sup")):
        kind = mark.get("class") or ""
        if kind.startswith("footnote"):
            label = words_of(mark)
            for child in list(mark):
                mark.remove(child)
            mark.tag, mark.text = "span", f"[{label}]"
            if kind == "footnote-definition-label":
                _into_next(mark)


def _into_next(mark: Element) -> None:
    """Move the mark of a footnote into the paragraph that is its text."""
    paragraph = mark.getnext()
    if paragraph is None or paragraph.tag != "p":
        return
    above = mark.getparent()
    above.remove(mark)
    mark.tail, paragraph.text = f" {paragraph.text or ''}", None
    paragraph.insert(0, mark)


def title_quotes(main: Element, titles: Mapping[str, str]) -> None:
    """Begin each `<blockquote>` whose class is among `titles` with its title in bold."""
    from lxml import etree

    for quote in main.iter("blockquote"):
        if title := titles.get(quote.get("class") or ""):
            paragraph = etree.Element("p")
            etree.SubElement(paragraph, "strong").text = title
            paragraph.tail, quote.text = quote.text, None
            quote.insert(0, paragraph)


def plain_elements(main: Element) -> Counter[str]:
    """Rename elements of the page's own text that a page's frame is made of. Return what cannot be carried over:
    embedded things, pictures that nothing is said of."""
    from lxml import etree

    lost: Counter[str] = Counter()
    for code in list(main.iter("pre")):
        before = code.getprevious()
        if before is not None and before.tag == "pre" and not (before.tail or "").strip():
            code.addprevious(etree.Element("p"))  # editors write one `<pre>` a line, Markdown one a block
    for element in main.iter():
        if element.tag in _RENAMED:
            element.tag = _RENAMED[element.tag]
        elif element.tag in _EMBEDDED:
            lost["embedded"] += 1
        elif element.tag == "img" and not (element.get("alt") or "").strip():
            lost["figure"] += 1
    return lost
