"""The text of a file: its bytes, by the kind that its content shows, as a body that sections can be made of.

Also the members of a zip, unpacked within bounds. Which kinds there are is in `documents.kinds`.
"""

from __future__ import annotations

import csv
import struct
import zipfile
import zlib
from datetime import UTC, datetime
from importlib import import_module
from io import BytesIO
from types import MappingProxyType

from rag_assets.steps.files.composed import Composed, brought, lack
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.records import FileError, FileText, PagesDone, decoded, shortened
from rag_assets.steps.formats.blocks import (
    BUDGET,
    Budget,
    code_block,
    first_chars,
    first_rows,
    noted,
    row_line,
    style_classes,
)
from rag_assets.steps.formats.element_tree import PageError, parse_html
from rag_assets.steps.formats.html import templates_as_text
from rag_serving.documents.kinds import PASSWORD, KindError, extension_of, kind_in

MOST_MEMBERS = 10_000
MOST_BYTES = 300_000_000
"""Unpacked, of all members that are read."""
MOST_RATIO = 200
"""Unpacked to packed bytes of a member; text seldom reaches 20."""
RATIO_FROM = 1_000_000
"""Unpacked bytes from which the ratio counts: a small member harms nobody."""

_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # the others unpack without bounds
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error, NotImplementedError, IndexError)


class ZipMembers:
    """The files of a zip by their names; hidden ones are left aside, and of one name the last counts."""

    def __init__(self, content: bytes) -> None:
        """Read the directory. Raises FileError: it is broken, or has too many members."""
        if content.count(b"PK\x01\x02") > 2 * MOST_MEMBERS:  # before zipfile makes an object of each
            raise FileError(f"the archive has more than {MOST_MEMBERS:,} members")
        try:
            self._file = zipfile.ZipFile(BytesIO(content))
            found = self._file.infolist()
        except (*_BROKEN, UnicodeError, RuntimeError) as error:
            raise FileError(f"the archive is broken: {_short(error)}") from None
        if len(found) > MOST_MEMBERS:
            raise FileError(f"the archive has more than {MOST_MEMBERS:,} members")
        self._unpacked: set[str] = set()  # a member that is read again counts once
        self._total = 0
        self._members = {one.filename: one for one in found if not one.is_dir() and _is_shown(one.filename)}

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        """Return how many bytes a member unpacks to at most."""
        return self._members[name].file_size

    def stamp(self, name: str) -> str:
        """Return size and checksum of a member, as the archive says."""
        member = self._members[name]
        return f"{member.file_size}.{member.CRC:08x}"

    def written_at(self, name: str) -> datetime | None:
        """Return when a member was written, as the archive says; None if that is no date."""
        try:
            return datetime(*self._members[name].date_time, tzinfo=UTC)
        except ValueError:
            return None

    def read(self, name: str) -> bytes:
        """Return the content of a member. Raises KeyError: there is none of that name. Raises FileError: it is
        encrypted, broken, or unpacks to more than is allowed."""
        member = self._members[name]
        if member.flag_bits & 0x1:
            raise FileError(PASSWORD)
        if member.compress_type not in _METHODS:
            raise FileError(f"it is packed by a method that is not read ({member.compress_type})")
        if member.file_size > max(RATIO_FROM, MOST_RATIO * member.compress_size):
            raise FileError(f"it unpacks to more than {MOST_RATIO} times its size")
        if name not in self._unpacked:
            self._unpacked.add(name)
            self._total += member.file_size
        if self._total > MOST_BYTES:
            raise FileError(f"the archive unpacks to more than {MOST_BYTES:,} bytes")
        try:
            return self._file.read(member)  # never more than `file_size`, whatever is packed
        except (*_BROKEN, UnicodeError, RuntimeError) as error:
            raise FileError(f"it is broken in its archive: {_short(error)}") from None


def _is_shown(name: str) -> bool:
    """Return whether a member is a file that people put there, not one that a system hides beside it."""
    parts = name.split("/")
    return all(parts) and "__MACOSX" not in parts and not any(part.startswith(".") for part in parts)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


__all__ = ["FileError", "FileText", "PagesDone", "file_text", "kind_text"]

_LANGUAGES = MappingProxyType({"py": "python", "js": "javascript", "ts": "typescript", "yml": "yaml", "sh": "bash"})
_NAMED = 20  # members of an archive that are named with the reason why they are not read; the others are counted


def file_text(
    name: str, content: bytes, budget: Budget = BUDGET, pages_done: PagesDone | None = None, depth: int = 0
) -> FileText:
    """Return the text of a file; one that is longer than the budget is cut, and its body ends with the reason
    (`noted`). `pages_done` follows a paged file; `depth`: how many files it lies in. Raises FileError: its format is
    not supported, contradicts its name, or is broken. Raises ImportError: the reader of its kind is not installed."""
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
    composed = Composed(lambda inner, part, deeper: file_text(inner, part, budget, None, deeper), budget, depth)
    text: FileText
    match kind:
        case "plain" | "markdown":
            text = FileText(shortened(decoded(content), budget), "text" if kind == "plain" else "markdown")
        case "code":
            kept, cut = first_chars(decoded(content), budget)
            block = code_block(kept, _LANGUAGES.get(extension_of(name), extension_of(name))).text
            text = FileText(noted(block, cut), "markdown")
        case "table":
            text = FileText(delimited_table(decoded(content), budget), "markdown")
        case "html":
            text = web_page(content)
        case "docx" | "pptx" | "xlsx":
            office = import_module(f"rag_assets.steps.files.office.{kind}")  # most processes meet none
            text = getattr(office, f"{kind}_text")(content, budget, pages_done)
        case "archive":
            text = archive_text(content, composed)
        case "pdf":
            text = pdf_text(content, budget, pages_done)
        case "image":
            raise FileError(lack(kind))
        case _:
            text = brought(kind)(content, composed, pages_done)
    return text


def archive_text(content: bytes, composed: Composed) -> FileText:
    """Return the text of all members that can be read. Raises FileError: the archive is broken or empty, or none of its
    members can be read."""
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
    """Return the body of an HTML page; empty if it has no text and no picture. `charset`: its encoding by its
    transport, which takes precedence over that in its head. Raises FileError: it cannot be read."""
    from bs4.dammit import EncodingDetector
    from lxml import etree

    text = decoded(content, charset or EncodingDetector.find_declared_encoding(content, is_html=True))
    if not text.strip():
        return FileText("", "html")
    try:
        root = parse_html(templates_as_text(text), huge=False)
    except PageError as error:
        raise FileError(f"it is not readable HTML: {error}") from None
    style_classes(root)
    etree.strip_elements(root, "script", "style", "noscript", "template", with_tail=False)
    found = root.find("body")
    body = root if found is None else found
    if not body.text_content().strip() and not body.xpath(".//img/@alt[normalize-space()]"):
        return FileText("", "html")
    body.tag, body.tail = "div", None
    return FileText(str(etree.tostring(body, encoding="unicode", method="html")), "html")
