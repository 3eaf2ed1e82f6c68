"""Element trees: what bodies are read into: HTML, Confluence's storage format, Markdown, wiki markup.

Also what a hostile or a broken body may do to a parser, and recovery of malformed bodies. lxml's own tree, not
BeautifulSoup on top of it: that takes 20 to 35 times the time and 3 times the memory (6.3 s and 366 MB for 20 MB of
Kafka's documentation, where `documents.max_memory_mb` is 512), and does not say where it stopped.
"""

from __future__ import annotations

import html
import re
from html import escape
from html.entities import name2codepoint
from typing import Any, TypeAlias

AC = "{http://atlassian.com/content}"
RI = "{http://atlassian.com/resource/identifier}"
AT = "{http://atlassian.com/template}"
_PREFIXES = {"ac": AC, "ri": RI, "at": AT}

_OPEN = "<page {}>".format(" ".join(f'xmlns:{prefix}="{name[1:-1]}"' for prefix, name in _PREFIXES.items()))
_CLOSE = "</page>"
_CDATA = "<![CDATA["

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = re.compile(r"^\s*<\?xml\b[^>]*\?>|\sxmlns(?::\w+)?\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*')")
_AMPERSAND = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)"
    r"|&(?!(?:amp|lt|gt|quot|apos);)(?:#(x[0-9a-fA-F]{1,8}|[0-9]{1,8});|([A-Za-z][A-Za-z0-9]*);)?",
    re.DOTALL,
)

_DOCTYPE = re.compile(r"\s*<!DOCTYPE\b[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE)
_VOID = r"(?!(?:area|br|col|embed|hr|img|input|link|meta|wbr)\b)"
_SELF_CLOSED = re.compile(rf"<{_VOID}([A-Za-z][\w:.-]*)((?:\s[^<>]*?)?)/>")
_OPEN_PARAMETER = re.compile(r"(<ac:parameter\b[^<>]*>[^<]*)(?=<(?!/ac:parameter|ri:))")
_OPENS_CDATA = re.compile(r"<ac:plain-text-(?:link-)?body>\s*\Z")
_NAME = re.compile(r"(?:\{[^{}]*\})?[A-Za-z_][\w.-]*", re.ASCII)
_LOST_END = re.compile(r"</?(?:ac|ri):")
_MARKUP = re.compile(r"</?(?:ac|ri|at):[^<>]*>?|</?(?:rich|plain)-text-(?:link-)?body>?|<!\[CDATA\[|\]\]>")
_WRITTEN_LT, _WRITTEN_GT = "\ufdd0", "\ufdd1"  # characters that no text has replace the author's own < and >
_NOT_IN_NAMES = re.compile(r"^[^A-Za-z_]+|[^\w.-]", re.ASCII)


def parse_storage(body: str) -> Element:
    """Return the body as a tree under one `page` element, names in the AC, RI and AT namespaces.

    Text is as written, CDATA included; comments and processing instructions are gone. A body that is not well-formed is
    recovered by the HTML parser after its CDATA was made plain text, so that code bodies survive.
    Raises PageError: nothing can be made of the body.
    """
    from lxml import etree

    source = _FORBIDDEN.sub("", body)
    if "xmlns" in source or "<?xml" in source:
        pieces = re.split(r"(<!\[CDATA\[.*?(?:\]\]>|\Z))", source, flags=re.DOTALL)
        source = "".join(piece if piece.startswith(_CDATA) else _DECLARATION.sub("", piece) for piece in pieces)
    source = _AMPERSAND.sub(_character, source) if "&" in source else source
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(f"{_OPEN}{source}{_CLOSE}".encode(), parser)
    except etree.XMLSyntaxError:
        check_whole(parser)
        return _recovered(source)


def _character(match: re.Match[str]) -> str:
    """Return the replacement of an ampersand: the entity's character, or the ampersand itself, escaped."""
    whole, number, name = match[0], match[1], match[2]
    if not whole.startswith("&"):
        return whole
    if number is not None:
        code = int(number[1:], 16) if number[0] == "x" else int(number)
        valid = code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
        return whole if valid else ""
    if name is None:
        return "&amp;"
    point = name2codepoint.get(name)
    return f"&amp;{name};" if point is None else chr(point)


def _recovered(source: str) -> Element:
    """Return a tree out of a malformed body. Raises PageError if even HTML's rules find no element."""
    doctype = _DOCTYPE.match(source)
    text = _SELF_CLOSED.sub(r"<\1\2></\1>", _plain_cdata(source[doctype.end() if doctype else 0 :]))
    text = _OPEN_PARAMETER.sub(r"\1</ac:parameter>", text).replace("&lt;", _WRITTEN_LT).replace("&gt;", _WRITTEN_GT)
    tree = parse_html(f"<html><body>{text}</body></html>")
    for element in tree.iter():
        if name := _qualified(element.tag):
            element.tag = name
        for attribute in list(element.attrib):
            if name := _qualified(attribute):
                element.set(name, element.attrib.pop(attribute))
    for element in tree.iter():
        element.text, element.tail = _without_markup(element.text), _without_markup(element.tail)
        for name, value in element.attrib.items():
            if (plain := _without_markup(value)) != value and _NAME.fullmatch(name):
                element.set(name, plain or "")
    return tree


def _without_markup(text: str | None) -> str | None:
    """Return text of a recovered tree without pieces of tags that HTML's rules took for text; escaped ones stay."""
    if not text:
        return text
    for _ in range(3):  # what is left may come together as a mark
        text = _MARKUP.sub("", text)
    return text.replace(_WRITTEN_LT, "<").replace(_WRITTEN_GT, ">")


def _qualified(name: str) -> str:
    """Return the name in its namespace, or nothing if it has no prefix of storage format."""
    prefix, _, local = name.partition(":")
    return f"{_PREFIXES[prefix]}{_NOT_IN_NAMES.sub('', local) or 'unknown'}" if prefix in _PREFIXES and local else ""


class _Finder:
    """`str.find` for ascending positions: looks ahead only once, so that many searches stay linear."""

    def __init__(self, text: str, token: str) -> None:
        self._text, self._token, self._found = text, token, -2

    def after(self, position: int) -> int:
        """Return the first place at or after the position, or the text's length."""
        if self._found < position:
            found = self._text.find(self._token, position)
            self._found = found if found >= 0 else len(self._text)
        return self._found


def _plain_cdata(source: str) -> str:
    """Return a malformed body with its CDATA sections as escaped text.

    Only a body element opens one, or the one before it that was split; any other mark is a stray, followed by markup.
    One without an end, because another begins before it or none comes, ends at the next tag of storage format.
    """
    start_of, end_of = _Finder(source, _CDATA), _Finder(source, "]]>")
    pieces, position, goes_on = [], 0, -1
    while (start := start_of.after(position)) < len(source):
        pieces.append(source[position:start])
        inner = start + len(_CDATA)
        if start != goes_on and not _OPENS_CDATA.search(source, max(start - 40, 0), start):
            position = inner
            continue
        end, limit = end_of.after(inner), start_of.after(inner)
        if end == len(source) or limit < end:
            found = _LOST_END.search(source, inner, limit)
            end = position = found.start() if found else limit
        else:
            position = goes_on = end + len("]]>")
        pieces.append(html.escape(source[inner:end], quote=False))
    return "".join([*pieces, source[position:]])


NO_TEXT = ("script", "style", "nav", "template", "noscript", "button", "select", "svg", "canvas", "iframe", "object")
_REPEATED_MAX = 2_000_000  # characters of addresses: short links repeat one that is written once, hostile bodies often


def markdown_tree(body: str) -> Element:
    """Return the tree of a Markdown body: CommonMark with tables and struck text; HTML inside it is read as HTML.

    Raises PageError: it cannot be read.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "xhtmlOut": True}).enable(["table", "strikethrough"])
    environment: dict[str, Any] = {}
    tokens = parser.parse(body, environment)
    inner = (child for token in tokens for child in token.children or ())
    written = (value for token in inner for value in token.attrs.values() if isinstance(value, str))
    if sum(map(len, written)) > max(_REPEATED_MAX, 2 * len(body)):
        raise PageError(f"its links repeat addresses of more than {_REPEATED_MAX} characters")
    return parse_storage(parser.renderer.render(tokens, parser.options, environment))


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


_LIST, _OPENED, _CLOSED = (
    {"#": "ol"},
    {"": "", "row": "<table>", "line": "<p>"},
    {"": "", "row": "</table>", "line": "</p>"},
)


def _tag_title(found: re.Match[str]) -> str:
    title = _TITLE.search(found[1] or "")
    return f"\n\n{title[1]}\n\n" if title else "\n\n"


def _wiki_inline(text: str) -> str:
    html = escape(text, quote=False)
    for pattern, said in _WIKI_INLINE:
        html = pattern.sub(said, html)
    return html


Element: TypeAlias = Any  # lxml carries no annotations


class PageError(Exception):
    """This page cannot be read; the message says why."""


def parse_html(source: str | bytes, huge: bool = True) -> Element:
    """Return the tree of a document, without comments and processing instructions; nothing is fetched. Raises
    PageError: it has no element, or the parser stopped at a limit of its own. Raises MemoryError: there was no memory
    left."""
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
    """Raise if a parser stopped at a limit of its own: its document is then incomplete. Raises PageError: elements are
    nested too deep, or one of them is too large. Raises MemoryError: there was no memory left."""
    from lxml import etree

    for entry in parser.error_log:
        if entry.type == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError
        if entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT:
            reason = " ".join(entry.message.partition(", use ")[0].split())
            raise PageError(f"the body is beyond what is parsed: {reason}")
