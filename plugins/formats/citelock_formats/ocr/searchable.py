"""The searchable PDF: recognized words are on their pages as invisible text, at their places.

Belongs here: text objects in render mode 3 (ISO 32000-1, 9.3.6) in a font whose characters are all the same empty box,
pages turned upright, pages whose own text is broken. Pure; called in a process with limits.
Does not belong here: recognizing (`engine`), choosing pages (`worker`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

from citelock_formats.ocr.pictures import saved
from citelock_formats.ocr.records import RecognizedPage, ScannedPage
from rag_assets.steps.files.records import OcrPage, OcrWord

_ADVANCE = 0.5
"""Of each character, in sizes of the font."""
_DESCENT = 0.2
"""Of the box below the baseline, in sizes of the font."""
_UNITS = 1000
_CODES = 0x10000

# A code is the character itself, in UTF-16 (Adobe Technical Note 5411).
_TO_UNICODE = b"""/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
1 beginbfrange
<0000> <FFFF> <0000>
endbfrange
endcmap
CMapName currentdict /CMap defineresource pop
end
end
"""


_TALLEST = 1.8  # times the median height of its words; a line that is higher is not level
_INVISIBLE = 3
_SAME = 0.5  # share of a word that the page's own text covers


class _Plane(NamedTuple):
    """The mapping from the displayed page [from the top left] to the page's own coordinates."""

    origin: tuple[float, float]
    right: tuple[float, float]  # of one point to the right
    down: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (
            self.origin[0] + x * self.right[0] + y * self.down[0],
            self.origin[1] + x * self.right[1] + y * self.down[1],
        )


def searchable_pdf(
    document: Any, pages: Mapping[int, tuple[ScannedPage, RecognizedPage]], dpi: int
) -> tuple[bytes, list[OcrPage]]:
    """Return the document with the words on their pages, and the words with boxes as the pages show them.

    Args:
        document: an open PDF; changed.
        pages: the results, by page number from 1.
        dpi: resolution of the picture that takes the place of a page whose own text is broken.
    """
    font = _load_font(document)
    recognized = []
    for number, (scanned, read) in sorted(pages.items()):
        page = document[number - 1]
        if scanned.why == "broken":
            _keep_as_picture(document, page, dpi)
        else:
            _remove_invisible(page)
        if read.turn:
            page.set_rotation((page.get_rotation() + read.turn) % 360)
        words = _without_own(page, [*_placed(page, read)])
        plane = _plane(page)
        for word, size in words:
            _write(document, page, font, plane, word, size)
        page.gen_content()
        page.close()
        recognized.append(OcrPage(number, tuple(word for word, _ in words)))
    return saved(document), recognized


def _placed(page: Any, read: RecognizedPage) -> Iterator[tuple[OcrWord, float]]:
    """Yield the words with boxes in points, and the size of their letters: words of a level line have one height."""
    width, height = page.get_size()
    across, down = width / read.width, height / read.height
    for _, line in groupby(read.words, key=lambda word: word.line):
        words = [word for word in line if _codes(word.text)]
        if not words:
            continue
        top, bottom = min(word.y0 for word in words), max(word.y1 for word in words)
        usual = median(word.y1 - word.y0 for word in words)
        is_level = bottom - top <= _TALLEST * usual
        for word in words:
            y0, y1 = (top, bottom) if is_level else (word.y0, word.y1)
            box = (word.x0 * across, y0 * down, word.x1 * across, y1 * down)
            yield OcrWord(word.text, *box, word.confidence), (bottom - top if is_level else usual) * down


def _without_own(page: Any, words: Sequence[tuple[OcrWord, float]]) -> list[tuple[OcrWord, float]]:
    """Return the words that are not on the page as text already: of a stamp, or of a page number."""
    own = [*_own_boxes(page)]
    if not own:
        return list(words)
    return [(word, size) for word, size in words if _covered(word, own) < _SAME]


def _own_boxes(page: Any) -> Iterator[tuple[float, float, float, float]]:
    """Yield where the page's characters are shown, in points from the top left."""
    plane, layer = _plane(page), page.get_textpage()
    (ox, oy), (rx, ry), (dx, dy) = plane
    scale = rx * dy - dx * ry
    try:
        for index in range(layer.count_chars()):
            if layer.get_text_range(index, 1).isspace():
                continue
            left, bottom, right, top = layer.get_charbox(index)
            xs, ys = [], []
            for x, y in ((left - ox, bottom - oy), (right - ox, top - oy)):
                xs.append((x * dy - y * dx) / scale)
                ys.append((y * rx - x * ry) / scale)
            yield min(xs), min(ys), max(xs), max(ys)
    finally:
        layer.close()


def _covered(word: OcrWord, boxes: Sequence[tuple[float, float, float, float]]) -> float:
    area = (word.x1 - word.x0) * (word.y1 - word.y0)
    common = 0.0
    for x0, y0, x1, y1 in boxes:
        width, height = min(x1, word.x1) - max(x0, word.x0), min(y1, word.y1) - max(y0, word.y0)
        if width > 0 and height > 0:
            common += width * (word.y1 - word.y0)  # a letter is as high as its box
    return common / area if area > 0 else 0.0


def _write(document: Any, page: Any, font: Any, plane: _Plane, word: OcrWord, size: float) -> None:
    """Put a word on the page, as wide and as high as its box."""
    from ctypes import byref, c_uint

    from pypdfium2 import raw

    codes = _codes(word.text)
    wide = max(word.x1 - word.x0, 0.1) / (len(codes) * _ADVANCE * size)
    high = max(word.y1 - word.y0, 0.1) / size
    text = raw.FPDFPageObj_CreateTextObj(document, font, size)
    raw.FPDFText_SetCharcodes(text, (c_uint * len(codes))(*codes), len(codes))
    (rx, ry), (dx, dy) = plane.right, plane.down
    x, y = plane.at(word.x0, word.y1 - _DESCENT * (word.y1 - word.y0))
    raw.FPDFPageObj_SetMatrix(text, byref(raw.FS_MATRIX(rx * wide, ry * wide, -dx * high, -dy * high, x, y)))
    raw.FPDFTextObj_SetTextRenderMode(text, _INVISIBLE)
    raw.FPDFPage_InsertObject(page, text)


def _codes(text: str) -> list[int]:
    """Return the characters that the font has: those of the Basic Multilingual Plane."""
    return [ord(sign) for sign in text if 0x20 <= ord(sign) < 0x10000 and not 0xD800 <= ord(sign) < 0xE000]


def _plane(page: Any) -> _Plane:
    from ctypes import byref, c_double

    from pypdfium2 import raw

    width, height = page.get_size()
    many = 1 << 20  # PDFium takes whole numbers for what is shown
    corners = []
    for x, y in ((0, 0), (many, 0), (0, many)):
        own_x, own_y = c_double(), c_double()
        raw.FPDF_DeviceToPage(page, 0, 0, many, many, 0, x, y, byref(own_x), byref(own_y))
        corners.append((own_x.value, own_y.value))
    origin, right, bottom = corners
    return _Plane(
        origin,
        ((right[0] - origin[0]) / width, (right[1] - origin[1]) / width),
        ((bottom[0] - origin[0]) / height, (bottom[1] - origin[1]) / height),
    )


def _remove_invisible(page: Any) -> None:
    """Remove invisible text: the poor result of another program."""
    from pypdfium2 import raw

    items = [raw.FPDFPage_GetObject(page, index) for index in range(raw.FPDFPage_CountObjects(page))]
    for item in items:
        is_text = raw.FPDFPageObj_GetType(item) == raw.FPDF_PAGEOBJ_TEXT
        if is_text and raw.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE and raw.FPDFPage_RemoveObject(page, item):
            raw.FPDFPageObj_Destroy(item)


def _keep_as_picture(document: Any, page: Any, dpi: int) -> None:
    """Replace the content of a page by its picture: it looks the same, and its letters are no text any more."""
    from pypdfium2 import PdfImage, PdfMatrix, raw

    width, height = page.get_size()
    bitmap = page.render(scale=dpi / 72, rev_byteorder=False)
    for item in [raw.FPDFPage_GetObject(page, index) for index in range(raw.FPDFPage_CountObjects(page))]:
        if raw.FPDFPage_RemoveObject(page, item):
            raw.FPDFPageObj_Destroy(item)
    (ox, oy), (rx, ry), (dx, dy) = _plane(page)
    image = PdfImage.new(document)
    image.set_bitmap(bitmap)
    image.set_matrix(PdfMatrix(rx * width, ry * width, -dx * height, -dy * height, ox + dx * height, oy + dy * height))
    page.insert_obj(image)


def _load_font(document: Any) -> Any:
    """Return the font, added to a document; its codes are UTF-16 units."""
    import ctypes

    from pypdfium2 import raw

    font, glyphs = _font_file(), b"\x00\x01" * _CODES
    loaded = raw.FPDFText_LoadCidType2Font(
        document,
        (ctypes.c_ubyte * len(font)).from_buffer_copy(font),
        len(font),
        ctypes.create_string_buffer(_TO_UNICODE),
        (ctypes.c_ubyte * len(glyphs)).from_buffer_copy(glyphs),
        len(glyphs),
    )
    if not loaded:
        raise RuntimeError("PDFium takes no font")
    return loaded


@cache
def _font_file() -> bytes:
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    top, bottom, right = round((1 - _DESCENT) * _UNITS), round(-_DESCENT * _UNITS), round(_ADVANCE * _UNITS)
    pen = TTGlyphPen(None)
    pen.moveTo((0, bottom))
    for corner in ((0, top), (right, top), (right, bottom)):
        pen.lineTo(corner)
    pen.closePath()
    box = pen.glyph()
    builder = FontBuilder(_UNITS, isTTF=True)
    builder.setupGlyphOrder([".notdef", "box"])
    builder.setupCharacterMap({})
    builder.setupGlyf({".notdef": box, "box": box})
    builder.setupHorizontalMetrics({".notdef": (right, 0), "box": (right, 0)})
    builder.setupHorizontalHeader(ascent=top, descent=bottom)
    builder.setupOS2(sTypoAscender=top, sTypoDescender=bottom, usWinAscent=top, usWinDescent=-bottom)
    builder.setupNameTable({"familyName": "Invisible", "styleName": "Regular", "psName": "Invisible"})
    builder.setupPost(keepGlyphNames=False)
    builder.font["head"].created = builder.font["head"].modified = 0  # the same file each time
    builder.font.recalcTimestamp = False
    target = io.BytesIO()
    builder.save(target)
    return target.getvalue()
