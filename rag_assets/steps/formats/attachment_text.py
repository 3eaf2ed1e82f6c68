"""The text of an attached file: what kind it is by its name, and its bytes as a body that sections can be made of.

Belongs here: file name extensions, encodings, the text layer of a PDF.
Does not belong here: where files come from and which are wanted (`rag_assets.sources.attachments`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from types import MappingProxyType
from typing import Literal, NamedTuple

from rag_assets.steps.formats.blocks import code_block
from rag_assets.steps.formats.budget import BUDGET, Budget, first_chars, first_rows, noted
from rag_assets.steps.formats.element_tree import PageError, parse_html
from rag_assets.steps.formats.tables import row_line

Kind = Literal["plain", "markdown", "html", "table", "code", "pdf"]

PDF_PAGES_MAX = 2000

_EXTENSIONS: dict[Kind, str] = {
    "plain": "txt text log rst adoc asc tex srt",
    "markdown": "md markdown",
    "html": "html htm xhtml",
    "table": "csv tsv",
    "pdf": "pdf",
    "code": "json jsonl yaml yml xml xsd xsl xslt wsdl toml ini cfg conf properties sql py pyi js mjs ts jsx tsx java "
    "kt kts scala groovy gradle go rs rb php pl lua r jl c h cc cpp hpp cs fs swift m sh bash zsh ps1 bat cmd "
    "css scss less vue proto thrift graphql tf hcl diff patch dockerfile makefile puml plantuml mmd",
}
_KINDS = MappingProxyType({name: kind for kind, names in _EXTENSIONS.items() for name in names.split()})
_LANGUAGES = MappingProxyType({"py": "python", "js": "javascript", "ts": "typescript", "yml": "yaml", "sh": "bash"})
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class AttachmentError(Exception):
    """This file has no text that can be read; the message says why."""


class AttachmentText(NamedTuple):
    """A body and the format that it is in."""

    body: str
    body_format: Literal["text", "markdown", "storage"]


def attachment_kind(name: str) -> Kind | None:
    """Return what a file is by its name; None for what has no text that is read (images, office files, archives)."""
    return _KINDS.get(_extension(name))


def attachment_text(name: str, content: bytes, budget: Budget = BUDGET) -> AttachmentText:
    """Return the text of a file; one that is longer than the budget is cut, and its body ends with the reason
    (`noted`).

    Raises:
        AttachmentError: it is of no kind that is read, is not what its name says, or is broken.
        ImportError: it is a PDF, and pypdfium2 is not installed.
    """
    match attachment_kind(name):
        case "plain":
            return AttachmentText(_shortened(_decoded(content).replace("\f", "\n\n"), budget), "text")
        case "markdown":
            return AttachmentText(_shortened(_decoded(content), budget), "markdown")
        case "code":
            text, cut = first_chars(_decoded(content), budget)
            block = code_block(text, _LANGUAGES.get(_extension(name), _extension(name))).text
            return AttachmentText(noted(block, cut) if cut else block, "markdown")
        case "table":
            return AttachmentText(_table(_decoded(content), budget), "markdown")
        case "html":
            return AttachmentText(_html(_decoded(content, _declared(content))), "storage")
        case "pdf":
            return AttachmentText(_pdf(content, budget), "text")
        case _:
            raise AttachmentError(f"files of type {_extension(name) or 'none'!r} are not read")


def _extension(name: str) -> str:
    """`txt` of `notes.TXT`, and the whole name of a `Dockerfile`."""
    stem, dot, extension = name.lower().rpartition(".")
    return extension if dot and stem else name.lower()


def _declared(content: bytes) -> str | None:
    """Return the encoding that an HTML page names in its head."""
    from bs4.dammit import EncodingDetector

    return EncodingDetector.find_declared_encoding(content, is_html=True)


def _decoded(content: bytes, declared: str | None = None) -> str:
    """Return the text of bytes: UTF-8, UTF-16 where it says so, else as declared or Windows-1252 (what older files are
    in).

    UTF-8 comes before what is declared: text in another encoding is hardly ever valid UTF-8, and pages lie.
    """
    if content.startswith(_UTF16):
        return content.decode("utf-16", "replace")
    if b"\x00" in content:
        raise AttachmentError("it is not text, whatever its name says")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return content.decode(declared or "cp1252", "replace")
    except (LookupError, UnicodeError):
        return content.decode("cp1252", "replace")


def _shortened(text: str, budget: Budget) -> str:
    kept, cut = first_chars(text, budget)
    return noted(kept, cut) if cut else kept


def _table(text: str, budget: Budget) -> str:
    """Return a file of delimited values as a Markdown table; the first line is its head and shows the delimiter."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t|", key=head.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise AttachmentError(f"it is not a readable table: {error}") from None
    if not rows:
        return ""
    width = max(map(len, rows))
    kept, cut = first_rows(rows, budget)
    lines = [row_line([" ".join(cell.split()) for cell in row] + [""] * (width - len(row))) for row in kept]
    table = "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])
    return noted(table, cut) if cut else _shortened(table, budget)


def _html(text: str) -> str:
    """Return what stands in the body of an HTML page, well formed."""
    from lxml import etree

    if not text.strip():
        return ""
    try:
        root = parse_html(text, huge=False)
    except PageError as error:
        raise AttachmentError(f"it is not readable HTML: {error}") from None
    etree.strip_elements(root, "script", "style", "noscript", "template", with_tail=False)
    body = root.find("body")
    return str(etree.tostring(root if body is None else body, encoding="unicode", method="xml"))


def _pdf(content: bytes, budget: Budget) -> str:
    """Return the pages up to the budget, parted by form feeds."""
    pages: list[str] = []
    left = budget.text_chars
    for text in _pdf_pages(content):
        if len(text) > left:
            return noted("\f".join([*pages, text[:left]]), budget.reason("text_chars"))
        pages.append(text)
        left -= len(text)
    return "\f".join(pages)


def _pdf_pages(content: bytes) -> Iterator[str]:
    """Yield the text layer of each page; what is only an image has none."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise AttachmentError(f"it is not a readable PDF: {error}") from None
    with document:
        if len(document) > PDF_PAGES_MAX:
            raise AttachmentError(f"it has more than {PDF_PAGES_MAX} pages")
        found = False
        for number in range(len(document)):
            text = _pdf_page(document, number)
            found = found or bool(text.strip())
            yield text
        if not found:
            raise AttachmentError("the PDF has no text layer: its pages are images")


def _pdf_page(document: object, number: int) -> str:
    import pypdfium2

    try:
        page = document[number]  # type: ignore[index]
        layer = page.get_textpage()
        text = str(layer.get_text_range())
        layer.close()
        page.close()
    except pypdfium2.PdfiumError as error:
        raise AttachmentError(f"page {number + 1} of the PDF cannot be read: {error}") from None
    return text.replace("\ufffe", "").replace("\x02", "").replace("\f", " ")
