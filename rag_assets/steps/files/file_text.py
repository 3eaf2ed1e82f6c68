"""The text of a file: its bytes, by the kind that its content shows, as a body that sections can be made of.

Belongs here: which module reads which kind. Does not belong here: any kind of file, where files come from and which are
wanted (`rag_assets.sources`), which kinds there are (`documents.kinds`).
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

from rag_assets.steps.files.archive import archive_text
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.decoding import decoded, shortened
from rag_assets.steps.files.delimited import delimited_table
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.plugged import lack, plugged_in
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.files.web_page import web_page
from rag_assets.steps.formats.blocks import code_block
from rag_assets.steps.formats.budget import BUDGET, Budget, first_chars, noted
from rag_serving.documents.kinds import KindError, extension_of, kind_in

__all__ = ["FileError", "FileText", "PagesDone", "file_text", "kind_text"]

_LANGUAGES = MappingProxyType({"py": "python", "js": "javascript", "ts": "typescript", "yml": "yaml", "sh": "bash"})


def file_text(
    name: str, content: bytes, budget: Budget = BUDGET, pages_done: PagesDone | None = None, depth: int = 0
) -> FileText:
    """Return the text of a file; one that is longer than the budget is cut, and its body ends with the reason
    (`noted`). `pages_done` is told how far a paged file is; `depth`: how many files
    it lies in.

    Raises:
        FileError: it is of no kind that is read, is not what its name says, or is broken.
        ImportError: what reads its kind is not installed.
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
