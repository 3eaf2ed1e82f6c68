"""PDF files to bodies of blocks: opening a PDF, its pages one by one, its outline, and what a page has beside text.

Held in memory are the words of the page at work, and of the pages before it their lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from rag_assets.steps.files.pdf.headings import Outlined
from rag_assets.steps.files.pdf.layout import Confidences, blocks_of
from rag_assets.steps.files.pdf.rows import evened, readable, rows_of
from rag_assets.steps.files.pdf.tables import ruled_tables
from rag_assets.steps.files.pdf.words import Box, PageRows, page_text, turned_place
from rag_assets.steps.files.records import FileError, FileText, OcrPage, PagesDone
from rag_assets.steps.formats.blocks import Budget, blocks_body, noted, within
from rag_serving.documents.kinds import PASSWORD

OBJECTS_MAX = 20_000
"""Objects of a page that are looked at."""
_FIELDS_MAX = 2_000
_VALUE_MAX = 4_000
_THIN = 3.5  # points: thickness of a line
_DEPTH = 8  # of forms in forms
_SHOWN = frozenset({2, 3, 4})  # FPDF_PAGEOBJ_PATH, _IMAGE, _SHADING
_FIGURE = 0.02  # of the page's area: a smaller picture is a mark or a line


def _drawn(page: Any) -> tuple[int, list[Box]]:
    """Return the number of pictures that are large enough to show something, and the boxes of thin paths, in the
    coordinates of the file (left, bottom, right, top)."""
    from pypdfium2 import raw

    width, height = page.get_size()
    least, figures = _FIGURE * width * height, 0
    lines: list[Box] = []
    for kind, (x0, y0, x1, y1) in shown_objects(page, OBJECTS_MAX):
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            figures += (x1 - x0) * (y1 - y0) >= least
        elif kind == raw.FPDF_PAGEOBJ_PATH and min(x1 - x0, y1 - y0) <= _THIN and math.isfinite(x0 + y0 + x1 + y1):
            lines.append((x0, y0, x1, y1))
    return figures, lines


def shown_objects(page: Any, most: int) -> Iterator[tuple[int, Box]]:
    """Yield kind and bounds, in the page's coordinates, of its pictures, shades and paths, those inside of forms
    included; at `most` so many objects are looked at."""
    from ctypes import byref, c_float

    from pypdfium2 import PdfMatrix, raw

    left, bottom, right, top = (c_float() for _ in range(4))
    sides = tuple(map(byref, (left, bottom, right, top)))
    found = raw.FS_MATRIX()
    todo: list[tuple[Any, Any, int]] = [(page, None, 0)]
    while todo:
        container, matrix, depth = todo.pop()
        count = raw.FPDFPage_CountObjects(page) if not depth else raw.FPDFFormObj_CountObjects(container)
        get = raw.FPDFFormObj_GetObject if depth else raw.FPDFPage_GetObject
        for index in range(min(count, most)):
            item = get(container, index)
            kind = raw.FPDFPageObj_GetType(item) if item else raw.FPDF_PAGEOBJ_UNKNOWN
            if kind == raw.FPDF_PAGEOBJ_FORM and depth < _DEPTH:
                own = PdfMatrix.from_raw(found) if raw.FPDFPageObj_GetMatrix(item, byref(found)) else PdfMatrix()
                todo.append((item, own.multiply(matrix) if matrix else own, depth + 1))
            elif kind in _SHOWN and raw.FPDFPageObj_GetBounds(item, *sides):
                box = (left.value, bottom.value, right.value, top.value)
                yield kind, matrix.on_rect(*box) if matrix else box
        most -= max(count, 0)


def _filled_fields(page: Any) -> Iterator[str]:
    """Yield the fields of a form that have a value, as "name: value"."""
    from pypdfium2 import raw

    form = page.formenv
    for annotation in _annotations(page, raw.FPDF_ANNOT_WIDGET) if form is not None else ():
        value = _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        if kind in (raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE) or not value:
            continue
        is_box = kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
        if is_box and not raw.FPDFAnnot_IsChecked(form, annotation):
            continue
        name = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).strip()
        name = name or _string(raw.FPDFAnnot_GetFormFieldName, form, annotation).strip()
        yield f"{name}: {value}" if name else value


def _struck_out(page: Any) -> Iterator[Box]:
    """Yield lines in the middle of text struck out by annotations, along and across the page: words may be turned."""
    from ctypes import byref

    from pypdfium2 import raw

    quad = raw.FS_QUADPOINTSF()
    for annotation in _annotations(page, raw.FPDF_ANNOT_STRIKEOUT):
        if raw.FPDFAnnot_GetFlags(annotation) & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW):
            continue
        for index in range(min(raw.FPDFAnnot_CountAttachmentPoints(annotation), _FIELDS_MAX)):
            if raw.FPDFAnnot_GetAttachmentPoints(annotation, index, byref(quad)):
                xs, ys = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
                x0, y0, x1, y1 = min(xs), min(ys), max(xs), max(ys)
                x, y = (x0 + x1) / 2, (y0 + y1) / 2
                yield from ((x0, y, x1, y), (x, y0, x, y1))


def _annotations(page: Any, kind: int) -> Iterator[Any]:
    from pypdfium2 import raw

    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _FIELDS_MAX)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if raw.FPDFAnnot_GetSubtype(annotation) == kind:
                yield annotation
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _string(ask: Any, form: Any, annotation: Any) -> str:
    from ctypes import c_ushort

    size = ask(form, annotation, None, 0)
    if not 2 < size <= 2 * _VALUE_MAX:
        return ""
    buffer = (c_ushort * (size // 2))()
    ask(form, annotation, buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")


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
    """Return the blocks of a PDF up to the budget. `content`: the file's bytes. `budget`: the most that is kept of it.
    `pages_done`: receives the number of pages read. `recognized`: the OCR text, by page from 1; blocks on these pages
    have its confidence. Raises FileError: it is no PDF, encrypted, has too many pages, an unreadable one, or no text at
    all. Raises ImportError: pypdfium2 is not installed."""
    import pypdfium2

    rows: list[PageRows] = []
    confidences: dict[int, list[tuple[float, float, int]]] = {}
    cut, left = None, budget.text_chars
    with opened(content) as document:
        if (count := len(document)) > PDF_PAGES_MAX:
            raise FileError(f"it has more than {PDF_PAGES_MAX} pages")
        outline, title = _outline(document), str(document.get_metadata_value("Title"))[:_TITLE_MAX]
        document.init_forms()
        for number in range(1, count + 1):
            try:
                with closing(document[number - 1]) as page:
                    rows.append(_page_rows(number, page, (recognized or {}).get(number), confidences))
            except pypdfium2.PdfiumError as error:
                raise FileError(f"page {number} of the PDF cannot be read: {error}") from None
            left -= sum(len(row.text) for row in rows[-1].rows)
            if pages_done is not None:
                pages_done(number, count)
            if left < 0 and number < count:
                cut = budget.reason("text_chars")
                break
    if not any(page.letters for page in rows):
        raise FileError("the PDF has no text layer: its pages are images")
    body = within(blocks_of(rows, outline, Confidences(confidences), title), budget)
    return FileText(noted(blocks_body(body._replace(cut=None)), cut or body.cut), "blocks", count)


def _page_rows(
    number: int, page: Any, recognized: OcrPage | None, confidences: dict[int, list[tuple[float, float, int]]]
) -> PageRows:
    """Return the lines of a page; add where the middle of each word that OCR read lies on it, and how sure OCR was."""
    figures, lines = _drawn(page)
    text = page_text(page, [*lines, *_struck_out(page)])
    if recognized is not None:
        first, confidences[number] = text.parts[0], []
        for word in recognized.words:
            x, y = (word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2
            x, y = turned_place(x, y, first.width, first.height, first.turned)
            confidences[number].append((first.width - x if first.mirrored else x, y, word.confidence))
    fields = tuple(_filled_fields(page))
    parts: list[PageRows] = []
    for part in text.parts:  # words that are turned alike
        shown = readable(part.words)
        ruled, others = ruled_tables([part.placed(line) for line in lines], shown)
        rows = rows_of(others, part.width)
        rows = evened(rows) if recognized is not None else rows
        tiny = len(part.words) - len(shown)
        parts.append(PageRows(number, part.width, part.height, tuple(rows), tuple(ruled), tiny, part.struck))
    letters = text.letters + sum(map(len, fields))
    return parts[0]._replace(
        aslant=text.aslant, fields=fields, images=figures, letters=letters, turned=tuple(parts[1:])
    )


def opened(content: bytes) -> Any:
    """Return a document of pypdfium2. Raises FileError if it is no PDF, or needs a password."""
    import pypdfium2
    from pypdfium2 import raw

    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        needs_password = error.err_code == raw.FPDF_ERR_PASSWORD
        raise FileError(PASSWORD if needs_password else f"it is not a readable PDF: {error}") from None


def _outline(document: Any) -> list[Outlined]:
    """Return the entries of a file's outline; none if it has no readable one."""
    import pypdfium2
    from pypdfium2 import raw

    entries: list[Outlined] = []
    with suppress(pypdfium2.PdfiumError, ValueError, RecursionError):
        for bookmark in document.get_toc(max_depth=_OUTLINE_DEPTH):
            destination = bookmark.get_dest()
            page = destination.get_index() if destination is not None else None
            title = bookmark.get_title()[:_TITLE_MAX]
            if page is not None and title.strip() and math.isfinite(page):
                mode, values = destination.get_view()
                is_place = mode == raw.PDFDEST_VIEW_XYZ and len(values) > 1 and math.isfinite(values[1])
                up = float(values[1]) if is_place else math.inf  # to the page
                entries.append(Outlined(bookmark.level + 1, title, page + 1, up))
            if len(entries) >= _OUTLINE_MAX:
                break
    return entries
