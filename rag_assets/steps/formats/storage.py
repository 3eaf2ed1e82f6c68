"""Confluence storage format, read: a body becomes one element tree.

Belongs here: entities, namespaces, what a hostile or a broken body may do to the parser, recovery of malformed bodies.
Does not belong here: what the elements mean (`storage_walk`, `macros`).
"""

from __future__ import annotations

import html
import re
from html.entities import name2codepoint

from rag_assets.steps.formats.element_tree import Element, check_whole, parse_html

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

    Raises:
        PageError: nothing can be made of the body.
    """
    from lxml import etree

    source = _prepared(body)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(f"{_OPEN}{source}{_CLOSE}".encode(), parser)
    except etree.XMLSyntaxError:
        check_whole(parser)
        return _recovered(source)


def _prepared(body: str) -> str:
    """Return the body with characters, declarations and entities that XML does not know replaced outside CDATA."""
    source = _FORBIDDEN.sub("", body)
    if "xmlns" in source or "<?xml" in source:
        source = _outside_cdata(_DECLARATION, source)
    return _AMPERSAND.sub(_character, source) if "&" in source else source


def _outside_cdata(pattern: re.Pattern[str], source: str) -> str:
    pieces = re.split(r"(<!\[CDATA\[.*?(?:\]\]>|\Z))", source, flags=re.DOTALL)
    return "".join(piece if piece.startswith(_CDATA) else pattern.sub("", piece) for piece in pieces)


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
    _qualify(tree)
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


def _qualify(tree: Element) -> None:
    """Give `ac:`, `ri:` and `at:` names, which HTML knows as plain names, their namespaces."""
    for element in tree.iter():
        if name := _qualified(element.tag):
            element.tag = name
        for attribute in list(element.attrib):
            if name := _qualified(attribute):
                element.set(name, element.attrib.pop(attribute))


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
