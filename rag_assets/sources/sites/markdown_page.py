"""Markdown pages as HTML: what all generators of Markdown sites have in common.

Belongs here: Markdown to elements; ids, links, images, footnotes and alerts of the elements.
Does not belong here: what one generator adds to Markdown, finding pages (`links`), ids (`slugs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from urllib.parse import unquote

from rag_assets.sources.sites.fences import outside
from rag_assets.sources.sites.front_matter import FrontMatter, split_front_matter
from rag_assets.sources.sites.links import link_address
from rag_assets.sources.sites.site import ExcludedPageError, SiteBody, SitePage, SitePlan, Tree, text_of
from rag_assets.sources.sites.slugs import Slugger
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element, PageError, parse_html
from rag_serving.text.characters import OMISSION

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
RAW = "data-raw"
"""The attribute of headings that are written as HTML, to which some generators give no ids."""
_RAW_HEADING = re.compile(r" {0,3}<h[1-6](?=[\s>])", re.IGNORECASE)
HTML_PER_CHAR, HTML_MAX = 20, 20_000_000
"""Characters of HTML for each of Markdown, and without regard to it: link references can repeat long addresses."""
ALERTS = MappingProxyType(
    {f"markdown-alert-{name}": name.capitalize() for name in ("note", "tip", "important", "warning", "caution")}
)
"""Titles of the quotes that GitHub's Markdown has for alerts, by their class."""
_RENAMED = MappingProxyType({"aside": "div", "footer": "div", "header": "div", "form": "div", "button": "span"})


def read_markdown(tree: Tree, page: SitePage) -> tuple[FrontMatter, str]:
    """Return the front matter of a page and the Markdown after it.

    Raises:
        ExcludedPageError: its front matter leaves it out.
        FileError: it cannot be read.
    """
    front, text = split_front_matter(text_of(tree.read(page.name)))
    if reason := front.exclusion:
        raise ExcludedPageError(reason)
    return front, text


def markdown_body(
    main: Element,
    plan: SitePlan,
    page: SitePage,
    front: FrontMatter,
    *,
    title: str,
    lang: str | None = None,
    labels: Iterable[str] = (),
    read: Iterable[str] = (),
    lost: Mapping[str, int] = MappingProxyType({}),
) -> SiteBody:
    """Return the body of a page whose headings have their ids.

    Args:
        main: what the page shows; its links and footnotes are written anew.
        plan: of the site, where links lead.
        page: the page.
        front: its front matter.
        title: of the page.
        lang: of the site, where the page says none.
        labels: further ones.
        read: names of the files that it includes.
        lost: what could not be carried over.
    """
    set_links(main, lambda href: link_address(plan, page, href))
    title_quotes(main, ALERTS)
    mark_footnotes(main)
    plain_elements(main)
    return SiteBody(
        html_of(main),
        title,
        slug=front.text("slug"),
        labels=(*front.labels, *labels),
        category=front.text("category"),
        lang=front.lang or lang,
        read=tuple(dict.fromkeys(read)),
        lost={kind: count for kind, count in lost.items() if count},
        updated_at=front.updated_at,
    )


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
    return html_main(html)


def html_main(html: str) -> Element:
    """Return HTML as a `<main>` element. Raises FileError where it cannot be read."""
    try:
        body = parse_html(f"<html><body>{html}</body></html>").find("body")
    except PageError as error:
        raise FileError(str(error)) from None
    for element in list(body.iter("main", "body")):
        if element is not body:
            element.drop_tag()
    body.tag = "main"
    return body


def raw_headings_marked(text: str) -> str:
    """Return Markdown in which headings that are written as HTML say so (`RAW`)."""
    if "<h" not in text and "<H" not in text:
        return text
    lines = text.split("\n")
    for begin, end, is_code in outside(lines):
        for index in range(begin, end if not is_code else begin):
            if match := _RAW_HEADING.match(lines[index]):
                lines[index] = f'{match[0]} {RAW}=""{lines[index][match.end() :]}'
    return "\n".join(lines)


def html_of(main: Element) -> str:
    """Return an element as HTML."""
    from lxml import etree

    return str(etree.tostring(main, encoding="unicode", method="html"))


def words_of(element: Element) -> str:
    """Return the text of an element on one line."""
    return " ".join("".join(element.itertext()).split())


def set_ids(main: Element, slugger: Slugger, text: Callable[[Element], str] | None = None) -> None:
    """Give each heading the id that its generator gives it; one that its author wrote is kept, and one that says that
    it is written as HTML gets none."""
    for heading in main.iter(*HEADINGS):
        is_raw = heading.attrib.pop(RAW, None) is not None
        if is_raw and not heading.get("id"):
            continue
        if written := heading.get("id"):
            heading.set("id", slugger.written(written))
        else:
            heading.set("id", slugger.slug(text(heading) if text else "".join(heading.itertext()).strip()))


def set_links(main: Element, address: Callable[[str], str]) -> None:
    """Let the links of a page lead where `address` says; one whose address is not known leads nowhere."""
    for link in main.iter("a"):
        if OMISSION in unquote(href := link.get("href") or ""):
            del link.attrib["href"]
        elif href:
            link.set("href", address(href))


def heading_title(main: Element) -> str:
    """Return the words of the first heading of level 1; empty where there is none."""
    heading = next(main.iter("h1"), None)
    return words_of(heading) if heading is not None else ""


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


def plain_elements(main: Element) -> None:
    """Rename elements of the page's own text that a page's frame is made of."""
    from lxml import etree

    for code in list(main.iter("pre")):
        before = code.getprevious()
        if before is not None and before.tag == "pre" and not (before.tail or "").strip():
            code.addprevious(etree.Element("p"))  # editors write one `<pre>` a line, Markdown one a block
    for element in main.iter(*_RENAMED):
        element.tag = _RENAMED[element.tag]
