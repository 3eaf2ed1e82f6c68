"""PDF files to bodies of blocks.

Belongs here: opening a PDF, its pages one by one, its outline. Does not belong here: what a page's lines are
(`layout`), rendering (`rag_serving.rendering`), reading pictures of text.

Held in memory are the words of the page at work, and of the pages before it their lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rag_assets.steps.files.pdf.headings import Outlined
from rag_assets.steps.files.pdf.layout import Confidences, blocks_of
from rag_assets.steps.files.pdf.page_objects import drawn, filled_fields, struck_out
from rag_assets.steps.files.pdf.records import Box, PageRows
from rag_assets.steps.files.pdf.rows import evened, readable, rows_of
from rag_assets.steps.files.pdf.ruled import ruled_tables
from rag_assets.steps.files.pdf.words import PageWords, page_text, turned_place
from rag_assets.steps.files.records import FileError, FileText, OcrPage, PagesDone
from rag_assets.steps.formats.block_json import blocks_body
from rag_assets.steps.formats.budget import Budget, noted, within
from rag_serving.documents.kinds import PASSWORD

PDF_PAGES_MAX = 2000
_OUTLINE_MAX = 10_000
_OUTLINE_DEPTH = 10
_TITLE_MAX = 300


def pdf_text(
    content: bytes,
    budget: Budget,
    pages_done: PagesDone | None,
    recognized: Mapping[int, OcrPage] | None = None,
) -> FileText:
    """Return the blocks of a PDF up to the budget.

    Args:
        content: the file's bytes.
        budget: the most that is kept of it.
        pages_done: told how many pages have been read.
        recognized: what OCR read, by page from 1; blocks on these pages say how sure it was.

    Raises:
        FileError: it is no PDF, encrypted, has too many pages or no text at all.
        ImportError: pypdfium2 is not installed.
    """
    with opened(content) as document:
        count = len(document)
        if count > PDF_PAGES_MAX:
            raise FileError(f"it has more than {PDF_PAGES_MAX} pages")
        pages = _Pages(document, budget, recognized or {})
        outline, title = _outline(document), _title(document)
        rows = list(pages.read(count, pages_done))
    if not any(page.letters for page in rows):
        raise FileError("the PDF has no text layer: its pages are images")
    found = blocks_of(rows, outline, Confidences(pages.confidences), title)
    body = within(found, budget)
    reason = pages.cut or body.cut
    text = blocks_body(body._replace(cut=None))
    return FileText(noted(text, reason) if reason else text, "blocks", count)


def opened(content: bytes) -> Any:
    """Return a document of pypdfium2. Raises FileError where it is no PDF, or needs a password."""
    import pypdfium2
    from pypdfium2 import raw

    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        needs_password = error.err_code == raw.FPDF_ERR_PASSWORD
        raise FileError(PASSWORD if needs_password else f"it is not a readable PDF: {error}") from None


class _Pages:
    """Reads the pages of a document while the budget lasts."""

    def __init__(self, document: Any, budget: Budget, recognized: Mapping[int, OcrPage]) -> None:
        self._document = document
        self._budget = budget
        self._recognized = recognized
        self.confidences: dict[int, list[tuple[float, float, int]]] = {}
        self.cut: str | None = None

    def read(self, count: int, pages_done: PagesDone | None) -> Iterator[PageRows]:
        """Yield the lines of each page; a page that cannot be read is an error of the file."""
        left = self._budget.text_chars
        self._document.init_forms()
        for number in range(1, count + 1):
            page = self._page(number)
            yield page
            left -= sum(len(row.text) for row in page.rows)
            if pages_done is not None:
                pages_done(number, count)
            if left < 0 and number < count:
                self.cut = self._budget.reason("text_chars")
                return

    def _page(self, number: int) -> PageRows:
        import pypdfium2

        try:
            page = self._document[number - 1]
            try:
                return self._rows(number, page)
            finally:
                page.close()
        except pypdfium2.PdfiumError as error:
            raise FileError(f"page {number} of the PDF cannot be read: {error}") from None

    def _rows(self, number: int, page: Any) -> PageRows:
        seen = drawn(page)
        text = page_text(page, [*seen.lines, *struck_out(page)])
        recognized = self._recognized.get(number)
        if recognized is not None:
            self.confidences[number] = [*_places(recognized, text.parts[0])]
        fields = tuple(filled_fields(page))
        first, *others = (_laid_out(number, part, seen.lines, recognized is not None) for part in text.parts)
        return first._replace(
            aslant=text.aslant,
            fields=fields,
            images=seen.figures,
            letters=text.letters + sum(map(len, fields)),
            turned=tuple(others),
        )


def _laid_out(number: int, part: PageWords, lines: Sequence[Box], is_recognized: bool) -> PageRows:
    """Return the lines and the ruled tables of words that are turned alike."""
    shown = readable(part.words)
    ruled, others = ruled_tables([part.placed(line) for line in lines], shown)
    rows = rows_of(others, part.width)
    rows = evened(rows) if is_recognized else rows
    tiny = len(part.words) - len(shown)
    return PageRows(number, part.width, part.height, tuple(rows), tuple(ruled), tiny, part.struck)


def _places(recognized: OcrPage, words: PageWords) -> Iterator[tuple[float, float, int]]:
    """Yield where the middle of each word that OCR read lies on the page as it is read, and how sure OCR was."""
    for word in recognized.words:
        x, y = (word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2
        x, y = turned_place(x, y, words.width, words.height, words.turned)
        yield words.width - x if words.mirrored else x, y, word.confidence


def _up(destination: Any) -> float:
    """Return how far above the bottom of its page a destination lies, in points; infinite where it says only the
    page."""
    from pypdfium2 import raw

    mode, values = destination.get_view()
    return (
        float(values[1]) if mode == raw.PDFDEST_VIEW_XYZ and len(values) > 1 and math.isfinite(values[1]) else math.inf
    )


def _title(document: Any) -> str:
    """Return the title in a file's metadata."""
    return str(document.get_metadata_value("Title"))[:_TITLE_MAX]


def _outline(document: Any) -> list[Outlined]:
    """Return the entries of a file's outline; none where it has no readable one."""
    import pypdfium2

    entries: list[Outlined] = []
    try:
        for bookmark in document.get_toc(max_depth=_OUTLINE_DEPTH):
            destination = bookmark.get_dest()
            page = destination.get_index() if destination is not None else None
            title = bookmark.get_title()[:_TITLE_MAX]
            if page is not None and title.strip() and math.isfinite(page):
                entries.append(Outlined(bookmark.level + 1, title, page + 1, _up(destination)))
            if len(entries) >= _OUTLINE_MAX:
                break
    except (pypdfium2.PdfiumError, ValueError, RecursionError):
        return entries
    return entries
