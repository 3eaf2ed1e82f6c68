"""Bodies in other markup, as element trees: what macros of Markdown, HTML and wiki markup have inside.

Belongs here: parsing. Does not belong here: what an element leaves in the text (`storage_elements`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from rag_assets.steps.formats.element_tree import Element, PageError, parse_html
from rag_assets.steps.formats.storage import parse_storage

NO_TEXT = ("script", "style", "nav", "template", "noscript", "button", "select", "svg", "canvas", "iframe", "object")
_REPEATED_MAX = 2_000_000  # characters of the addresses that links repeat; a body with more is hostile


def markdown_tree(body: str) -> Element:
    """Return the tree of a Markdown body: CommonMark with tables and struck text; HTML inside it is read as HTML.

    Raises:
        PageError: it cannot be read.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "xhtmlOut": True}).enable(["table", "strikethrough"])
    environment: dict[str, Any] = {}
    tokens = parser.parse(body, environment)
    if _repeated(tokens) > max(_REPEATED_MAX, 2 * len(body)):
        raise PageError(f"its links repeat addresses of more than {_REPEATED_MAX} characters")
    return parse_storage(parser.renderer.render(tokens, parser.options, environment))


def _repeated(tokens: Sequence[Any]) -> int:
    """Count the characters of attributes: a short link repeats the address and title that are written once."""
    inner = (child for token in tokens for child in token.children or ())
    return sum(len(value) for token in inner for value in token.attrs.values() if isinstance(value, str))


def html_tree(body: str) -> Element:
    """Return the tree of an HTML fragment without non-text elements. Raises PageError if it cannot be read."""
    from lxml import etree

    tree = parse_html(f"<html><body>{body}</body></html>")
    etree.strip_elements(tree, *NO_TEXT, with_tail=False)
    return tree


_VERBATIM = re.compile(r"(?<!\{)\{(code|noformat)(?::([^{}\n]{0,300}))?\}(.*?)(?:\{\1\}|\Z)", re.DOTALL)
_BLOCK_TAG = re.compile(r"(?<!\{)\{[a-z-]{2,40}(?::([^{}\n]{0,300}))?\}(?!\})")
_TITLE = re.compile(r"(?:^|\|)title=([^|]*)")
_LINE = re.compile(r"\s{0,20}(?:h([1-6])\.\s(.*)|([*#-]{1,8})\s(.*)|(\|.*)|bq\.\s(.*)|-{4,}\s*\Z)")
_IN = r"(\S|\S.{0,500}?\S)"
_WIKI_INLINE = (
    (re.compile(r"\{\{(.{1,500}?)\}\}"), r"<code>\1</code>"),
    (re.compile(r"!([^!\s|]{1,200}\.\w{2,5})(?:\|[^!\n]{0,200})?!"), r'<img src="\1"/>'),
    (re.compile(r"\[([^\]|\n]{1,500})\|([^\]|\s\"]{1,500})(?:\|[^\]\n]{0,200})?\]"), r'<a href="\2">\1</a>'),
    (re.compile(r"\[([a-z]{2,9}:[^\]|\s\"]{1,500})\]"), r'<a href="\1">\1</a>'),
    (re.compile(r"\[[#~^]?([^\]|\n]{1,500})\]"), r"\1"),
    (re.compile(rf"(?<![\w\\<&/*])\*{_IN}\*(?![\w*])"), r"<b>\1</b>"),
    (re.compile(rf"(?<![\w\\<&/_])_{_IN}_(?![\w_])"), r"<i>\1</i>"),
    (re.compile(rf"(?<![\w\\<&/?])\?\?{_IN}\?\?(?![\w?])"), r"<i>\1</i>"),
    (re.compile(rf"(?<![\w\\<&/+])\+{_IN}\+(?![\w+])"), r"<u>\1</u>"),
    (re.compile(rf"(?<![\w\\-])-(?![-\s&]){_IN}-(?![\w-])"), r"<del>\1</del>"),
    (re.compile(r"\^([^\s^]{1,100})\^"), r"<sup>\1</sup>"),
    (re.compile(r"(?<!\\)~([^\s~]{1,100})~"), r"<sub>\1</sub>"),
    (re.compile(r"\\\\(?:\s|\Z)"), "<br/>"),
    (re.compile(r"\\([\[\]{}*_+^~!|-])"), r"\1"),
)


def wiki_tree(body: str) -> Element:
    """Return the tree of a body of Confluence's wiki markup; tags of further macros leave their title and content."""
    parts, position = list[str](), 0
    for found in _VERBATIM.finditer(body):
        parts += [*_wiki_blocks(body[position : found.start()]), f"<pre>{escape(found[3].strip(chr(10)))}</pre>"]
        position = found.end()
    return html_tree("".join([*parts, *_wiki_blocks(body[position:])]))


def _wiki_blocks(text: str) -> list[str]:
    """Return the lines of a text as HTML; lines that are no block of their own go on with the one before."""
    parts, marks, last = list[str](), "", ""
    for line in _BLOCK_TAG.sub(_tag_title, text).splitlines():
        level, heading, item_marks, item, row, quote = ((found := _LINE.match(line)) and found.groups()) or (None,) * 6
        kind = "row" if row else "line" if line.strip() and not found else ""
        parts += [_CLOSED[last]] if last != kind else []
        common = next(n for n in range(len(marks), -1, -1) if (item_marks or "").startswith(marks[:n]))
        parts += [f"</{_LIST.get(mark, 'ul')}>" for mark in reversed(marks[common:])]
        parts += [f"<{_LIST.get(mark, 'ul')}>" for mark in (item_marks or "")[common:]]
        parts += [_OPENED[kind]] if last != kind else []
        marks, last = item_marks or "", kind
        if row:
            tag, cells = ("th" if row.startswith("||") else "td"), _wiki_inline(row).strip().strip("|")
            parts.append(f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in re.split('[|]{1,2}', cells))}</tr>")
        elif heading or item or quote:
            tag = f"h{level}" if heading else "li" if item else "blockquote"
            parts.append(f"<{tag}>{_wiki_inline(heading or item or quote or '')}</{tag}>")
        elif kind:
            parts.append(f"{_wiki_inline(line)}\n")
    return [*parts, _CLOSED[last], *(f"</{_LIST.get(mark, 'ul')}>" for mark in reversed(marks))]


_LIST = {"#": "ol"}
_OPENED = {"": "", "row": "<table>", "line": "<p>"}
_CLOSED = {"": "", "row": "</table>", "line": "</p>"}


def _tag_title(found: re.Match[str]) -> str:
    title = _TITLE.search(found[1] or "")
    return f"\n\n{title[1]}\n\n" if title else "\n\n"


def _wiki_inline(text: str) -> str:
    html = escape(text, quote=False)
    for pattern, said in _WIKI_INLINE:
        html = pattern.sub(said, html)
    return html
