"""The text of a file: its bytes, by the kind that its content shows, as a body that sections can be made of.

Belongs here: which module reads which kind; what is read in a few lines: tables of delimited values, the encoding and
the body of an HTML page, archives, whose members are sections under their names. Does not belong here: where files come
from and which are wanted (`rag_assets.sources`), which kinds there are (`documents.kinds`), unpacking (`zip_members`).
"""

from __future__ import annotations

import csv
from importlib import import_module
from types import MappingProxyType

from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.plugged import lack, plugged_in
from rag_assets.steps.files.records import FileError, FileText, PagesDone, decoded, shortened
from rag_assets.steps.files.zip_members import ZipMembers
from rag_assets.steps.formats.blocks import code_block
from rag_assets.steps.formats.budget import BUDGET, Budget, first_chars, first_rows, noted
from rag_assets.steps.formats.element_tree import PageError, parse_html
from rag_assets.steps.formats.html import templates_as_text
from rag_assets.steps.formats.tables import row_line
from rag_assets.steps.formats.text_marks import style_classes
from rag_serving.documents.kinds import KindError, extension_of, kind_in

__all__ = ["FileError", "FileText", "PagesDone", "file_text", "kind_text"]

_LANGUAGES = MappingProxyType({"py": "python", "js": "javascript", "ts": "typescript", "yml": "yaml", "sh": "bash"})
_NAMED = 20  # members of an archive that are named with the reason why they are not read; the others are counted


def file_text(
    name: str, content: bytes, budget: Budget = BUDGET, pages_done: PagesDone | None = None, depth: int = 0
) -> FileText:
    """Return the text of a file; one that is longer than the budget is cut, and its body ends with the reason
    (`noted`). `pages_done` follows a paged file; `depth`: how many files it lies in.

    Raises:
        FileError: its format is not supported, contradicts its name, or is broken.
        ImportError: the reader of its kind is not installed.
    """
    try:
        kind = kind_in(name, content)
    except KindError as error:
        raise FileError(str(error)) from None
    return kind_text(kind, name, content, budget, pages_done, depth)


def kind_text(
    kind: str,
    name: str,
    content: bytes,
    budget: Budget = BUDGET,
    pages_done: PagesDone | None = None,
    depth: int = 0,
) -> FileText:
    """Return the text of a file of a kind; see `file_text`."""
    match kind:
        case "plain":
            return FileText(shortened(decoded(content), budget), "text")
        case "markdown":
            return FileText(shortened(decoded(content), budget), "markdown")
        case "code":
            return FileText(_code(name, decoded(content), budget), "markdown")
        case "table":
            return FileText(delimited_table(decoded(content), budget), "markdown")
        case "html":
            return web_page(content)
        case "docx" | "pptx" | "xlsx":
            office = import_module(f"rag_assets.steps.files.office.{kind}")  # most processes meet none
            text: FileText = getattr(office, f"{kind}_text")(content, budget, pages_done)
            return text
        case "archive":
            return archive_text(content, _composed(budget, depth))
        case "pdf":
            return pdf_text(content, budget, pages_done)
        case "image":
            raise FileError(lack(kind))
        case _:
            return plugged_in(kind)(content, _composed(budget, depth), pages_done)


def _composed(budget: Budget, depth: int) -> Composed:
    return Composed(lambda name, content, deeper: file_text(name, content, budget, None, deeper), budget, depth)


def _code(name: str, text: str, budget: Budget) -> str:
    text, cut = first_chars(text, budget)
    block = code_block(text, _LANGUAGES.get(extension_of(name), extension_of(name))).text
    return noted(block, cut) if cut else block


def archive_text(content: bytes, composed: Composed) -> FileText:
    """Return the text of all members that can be read.

    Raises:
        FileError: the archive is broken or empty, or none of its members can be read.
    """
    members = ZipMembers(content)
    unread: list[str] = []
    for name in members.names:
        if composed.is_full:
            break
        try:
            composed.file(name, members.read(name), 1)
        except FileError as error:
            unread.append(f"{name}: {error}")
    if not composed.blocks:
        raise FileError(f"none of its members is read: {'; '.join(unread[:3])}" if unread else "the archive is empty")
    if unread:
        composed.lost("archive member", len(unread))
        composed.heading("Members that are not read", 1)
        for line in unread[:_NAMED]:
            composed.note(line)
        if len(unread) > _NAMED:
            composed.note(f"and {len(unread) - _NAMED:,} more")
    return composed.text()


def delimited_table(text: str, budget: Budget) -> str:
    """Return a file of delimited values as a Markdown table; the first line is its head and shows the delimiter."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t|", key=head.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise FileError(f"it is not a readable table: {error}") from None
    if not rows:
        return ""
    width = max(map(len, rows))
    kept, cut = first_rows(rows, budget)
    lines = [row_line([" ".join(cell.split()) for cell in row] + [""] * (width - len(row))) for row in kept]
    table = "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])
    return noted(table, cut) if cut else shortened(table, budget)


def web_page(content: bytes, charset: str | None = None) -> FileText:
    """Return the body of an HTML page; `charset`: its encoding by its transport, which takes precedence over its own.

    Raises:
        FileError: it cannot be read.
    """
    return FileText(_body(decoded(content, charset or _declared(content))), "html")


def _declared(content: bytes) -> str | None:
    """Return the encoding that an HTML page names in its head."""
    from bs4.dammit import EncodingDetector

    return EncodingDetector.find_declared_encoding(content, is_html=True)


def _body(text: str) -> str:
    """Return the content of an HTML page's body; empty if it has no text and no picture."""
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
