"""A page of AsciiDoc.

Belongs here: its header, the order of reading, references within the page. Does not belong here: blocks, inline markup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape, unescape
from types import MappingProxyType

from citelock_sites.asciidoc.blocks import Blocks
from citelock_sites.asciidoc.context import REFERENCE, AsciiContext
from citelock_sites.asciidoc.preprocessing import ATTRIBUTE, whole_lines
from citelock_sites.markup import Alone, MarkupError, MarkupPage, PageSurroundings

LINE_MAX = 100_000
_GIVEN = MappingProxyType(
    {
        "sectids": "",
        "asciidoctor": "",
        "asciidoctor-version": "2.0.23",
        "backend": "html5",
        "backend-html5": "",
        "basebackend": "html",
    }
)
_AUTHOR = re.compile(r"[\w.'-]+(?: [\w.'-]+){0,3}(?: <[^<>]+>)?(?:; .*)?$")
_REVISION = re.compile(r"v?\d[^\n]*$")


def asciidoc_page(
    text: str,
    name: str = "",
    around: PageSurroundings | None = None,
    attributes: Mapping[str, str] = MappingProxyType({}),
    *,
    keeps_marks: bool = True,
) -> MarkupPage:
    """Return a page of AsciiDoc; ids are those that Asciidoctor gives.

    Args:
        text: the source.
        name: of its file, for what it includes.
        around: the files and pages around it.
        attributes: what the site sets.
        keeps_marks: whether combining marks stay in ids: in Ruby they do, in JavaScript (Antora) they do not.

    Raises:
        MarkupError: it cannot be read.
    """
    context = AsciiContext(name, around or Alone(), {**_GIVEN, **attributes}, keeps_marks=keeps_marks)
    lines = whole_lines(text, context)
    if any(len(line) > LINE_MAX for line in lines):
        raise MarkupError(f"it has a line of more than {LINE_MAX:,} characters")
    blocks = Blocks(context)
    try:
        at, head, title = _header(lines, blocks)
        body = blocks.html(lines[at:])
        notes = _notes(blocks)
    except RecursionError:
        raise MarkupError("it is nested too deep") from None
    html = REFERENCE.sub(lambda found: _reference(found[1], context), f"{head}{body}{notes}")
    fields = {key: value for key, value in context.attributes.items() if key not in _GIVEN}
    return MarkupPage(html, title, fields, context.read, context.lost)


def _header(lines: list[str], blocks: Blocks) -> tuple[int, str, str]:
    """Return where the body begins, the title as HTML and as text."""
    at = 0
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith("//") or ATTRIBUTE.match(lines[at])):
        if entry := ATTRIBUTE.match(lines[at]):
            blocks.context.assign(entry[1], entry[2] or "")
        at += 1
    anchor = ""
    if at + 1 < len(lines) and (given := re.match(r"\[(?:\[|#)([\w:.-]+)\]+$", lines[at])):
        anchor = given[1] if re.match(r"=\s+\S", lines[at + 1]) else ""
        at += bool(anchor)
    if at >= len(lines) or not re.match(r"[=#]\s+\S", lines[at]):
        return 0, "", ""
    source = lines[at][1:].strip()
    at += 1
    for place, pattern in enumerate((_AUTHOR, _REVISION)):
        if at < len(lines) and pattern.match(lines[at]) and (place == 0 or _AUTHOR.match(lines[at - 1])):
            at += 1
    while at < len(lines) and (entry := ATTRIBUTE.match(lines[at]) or re.match(r"()()//", lines[at])):
        if entry[1]:
            blocks.context.assign(entry[1], entry[2] or "")
        at += 1
    html = blocks.inline.html(source)
    if anchor:
        blocks.context.ids[anchor] = html
    mark = f' id="{escape(anchor)}"' if anchor else ""
    return at, f"<h1{mark}>{html}</h1>", _words(html)


def _notes(blocks: Blocks) -> str:
    notes = blocks.context.footnotes
    return "".join(
        f'<p><a id="_footnotedef_{number}"></a>[{number}] {text}</p>' for number, (_, text) in enumerate(notes, start=1)
    )


def _reference(name: str, context: AsciiContext) -> str:
    """Return the id that a reference of the page leads to (after `=`), or the words that it shows."""
    wants_id, name = name.startswith("="), name.removeprefix("=")
    if name not in context.ids:
        titles = {_words(title): known for known, title in reversed(context.ids.items()) if title}
        found = titles.get(_words(name))
        if found is None:
            return escape(name) if wants_id else f"[{escape(name, quote=False)}]"
        name = found
    return escape(name) if wants_id else context.ids[name] or f"[{escape(name, quote=False)}]"


def _words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^<>]{1,500}>", "", html)).replace("\u200b", "").split())
