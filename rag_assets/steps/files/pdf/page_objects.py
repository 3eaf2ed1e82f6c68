"""What a page has beside its text: pictures, lines, and values in the fields of a form.

Belongs here: counting figures, lines, reading filled fields, by pypdfium2.
Does not belong here: the text layer (`words`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from rag_assets.steps.files.pdf.records import Box

OBJECTS_MAX = 20_000
"""Objects of a page that are looked at."""
_FIELDS_MAX = 2_000
_VALUE_MAX = 4_000
_THIN = 3.5  # points: thickness of a line
_DEPTH = 8  # of forms in forms
_SHOWN = frozenset({2, 3, 4})  # FPDF_PAGEOBJ_PATH, _IMAGE, _SHADING
_FIGURE = 0.02  # of the page's area: a smaller picture is a mark or a line


class Drawn(NamedTuple):
    """What a page shows beside text, in the coordinates of the file."""

    figures: int  # pictures that are large enough to show something
    lines: list[Box]  # left, bottom, right, top of paths that are thin


def drawn(page: Any) -> Drawn:
    """Return the pictures and the lines of a page."""
    from pypdfium2 import raw

    width, height = page.get_size()
    least, found = _FIGURE * width * height, 0
    lines: list[Box] = []
    for kind, (x0, y0, x1, y1) in shown_objects(page, OBJECTS_MAX):
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            found += (x1 - x0) * (y1 - y0) >= least
        elif kind == raw.FPDF_PAGEOBJ_PATH and min(x1 - x0, y1 - y0) <= _THIN and math.isfinite(x0 + y0 + x1 + y1):
            lines.append((x0, y0, x1, y1))
    return Drawn(found, lines)


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


def filled_fields(page: Any) -> Iterator[str]:
    """Yield the fields of a form that have a value, as "name: value"."""
    from pypdfium2 import raw

    if page.formenv is not None:
        for annotation in _annotations(page, raw.FPDF_ANNOT_WIDGET):
            yield from _field(page.formenv, annotation)


def struck_out(page: Any) -> Iterator[Box]:
    """Yield lines in the middle of what annotations strike out, along and across the page: its words may be turned."""
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
    """Yield the annotations of a kind."""
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


def _field(form: Any, annotation: Any) -> Iterator[str]:
    from pypdfium2 import raw

    value = _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE) or not value:
        return
    is_box = kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
    if is_box and not raw.FPDFAnnot_IsChecked(form, annotation):
        return
    name = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).strip()
    name = name or _string(raw.FPDFAnnot_GetFormFieldName, form, annotation).strip()
    yield f"{name}: {value}" if name else value


def _string(ask: Any, form: Any, annotation: Any) -> str:
    """Return a text that PDFium writes as UTF-16 into a buffer."""
    from ctypes import c_ushort

    size = ask(form, annotation, None, 0)
    if not 2 < size <= 2 * _VALUE_MAX:
        return ""
    buffer = (c_ushort * (size // 2))()
    ask(form, annotation, buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")
