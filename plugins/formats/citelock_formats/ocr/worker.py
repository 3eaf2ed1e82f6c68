"""The process that inspects PDF files for OCR: `python -m citelock_formats.ocr.worker`, one request after the other.

Which pages need OCR, a page as a picture, an image file as a PDF, and the PDF with the recognized text on its pages.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import struct
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import groupby
from statistics import median
from typing import IO, Any, NamedTuple

from citelock_formats.ocr.child import UNKNOWN, PagePicture, RecognizedPage, ScannedPage, Why, words_of_json
from rag_assets.parsing.worker import outcome
from rag_assets.steps.files.pdf.reading import opened, shown_objects
from rag_assets.steps.files.records import FileError, OcrPage, OcrWord
from rag_serving.isolation.child import Frame, Limits
from rag_serving.isolation.serving import run

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
    document: Any, pages: Iterable[tuple[int, Why, RecognizedPage]], dpi: int
) -> tuple[bytes, list[OcrPage]]:
    """Return an open document, which is changed, with the words on their pages, and the words with boxes as the pages
    show them. `pages`: number from 1, why it was read, and the result; in order. `dpi`: resolution of the picture that
    takes the place of a page whose own text is broken."""
    font = _load_font(document)
    recognized = []
    for number, why, read in pages:
        page = document[number - 1]
        if why == "broken":
            _keep_as_picture(document, page, dpi)
        else:
            _remove_objects(page, invisible_text_only=True)
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
    return [(word, size) for word, size in words if _covered(word, own) < _SAME]


def _own_boxes(page: Any) -> Iterator[tuple[float, float, float, float]]:
    """Yield where the page's characters are shown, in points from the top left."""
    (ox, oy), (rx, ry), (dx, dy) = _plane(page)
    scale = rx * dy - dx * ry
    with closing(page.get_textpage()) as layer:
        for index in range(layer.count_chars()):
            if layer.get_text_range(index, 1).isspace():
                continue
            left, bottom, right, top = layer.get_charbox(index)
            xs, ys = [], []
            for x, y in ((left - ox, bottom - oy), (right - ox, top - oy)):
                xs.append((x * dy - y * dx) / scale)
                ys.append((y * rx - x * ry) / scale)
            yield min(xs), min(ys), max(xs), max(ys)


def _covered(word: OcrWord, boxes: Sequence[tuple[float, float, float, float]]) -> float:
    area = (word.x1 - word.x0) * (word.y1 - word.y0)
    common = 0.0
    for x0, y0, x1, y1 in boxes:
        width, height = min(x1, word.x1) - max(x0, word.x0), min(y1, word.y1) - max(y0, word.y0)
        if width > 0 and height > 0:
            common += width * (word.y1 - word.y0)  # a letter is as high as its box
    return common / area if area > 0 else 0.0


def _write(document: Any, page: Any, font: Any, plane: _Plane, word: OcrWord, size: float) -> None:
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


def _remove_objects(page: Any, invisible_text_only: bool) -> None:
    """Remove what is on a page, or only invisible text: the poor result of another program."""
    from pypdfium2 import raw

    for item in [raw.FPDFPage_GetObject(page, index) for index in range(raw.FPDFPage_CountObjects(page))]:
        is_text = raw.FPDFPageObj_GetType(item) == raw.FPDF_PAGEOBJ_TEXT
        if invisible_text_only and not (is_text and raw.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE):
            continue
        if raw.FPDFPage_RemoveObject(page, item):
            raw.FPDFPageObj_Destroy(item)


def _keep_as_picture(document: Any, page: Any, dpi: int) -> None:
    """Replace the content of a page by its picture: it looks the same, and its letters are no text any more."""
    from pypdfium2 import PdfImage, PdfMatrix

    width, height = page.get_size()
    bitmap = page.render(scale=dpi / 72, rev_byteorder=False)
    _remove_objects(page, invisible_text_only=False)
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


ENOUGH_LETTERS = 150
"""Letters and digits; a page with more has a text layer, whatever pictures lie behind it."""
_STRAY = 10  # letters that say nothing: a page number, a stamp
_WHOLE_PAGE, _SOME = 0.5, 0.1  # shares of the page that pictures cover: with few letters, with hardly any
_BROKEN = 0.3  # share of signs without meaning
_FEWEST_SIGNS = 20
_OUTLINES = 300  # paths; so many without a letter are letters
_MOST_OBJECTS = 50_000
_GRID = 32  # a page is looked at in so many rows and columns
_PLAIN = frozenset("\t\r\n\x02\ufffe")  # PDFium writes the last two for hyphens


class OcrWorker:
    """Answers requests about a document, which is sent once, and then named."""

    def __init__(self) -> None:
        self._name = ""
        self._document: Any = None

    def answer(self, request: Frame, requests: IO[bytes]) -> Frame:
        """Return the answer; a fault of one document is a reason."""
        limits = Limits(*request.facts["limits"])
        answer = outcome(limits, requests, lambda: self._done(request.facts, request.content))
        return answer["result"] if "result" in answer else Frame(answer)

    def _done(self, facts: Mapping[str, Any], content: bytes) -> Frame:
        if facts["do"] == "image_pdf":
            return Frame({"result": True}, image_pdf(content, facts["dpi"]))
        if content:
            self._close()
            self._document, self._name = opened(content), facts["name"]
        if self._name != facts["name"]:
            return Frame({"result": UNKNOWN})
        match facts["do"]:
            case "look":
                first = facts["first"]
                count = len(self._document)
                numbers = range(first, min(first + facts["most"], count + 1))
                return Frame({"result": {"count": count, "pages": [*pages_without_text(self._document, numbers)]}})
            case "picture":
                return self._picture(facts["page"], facts["dpi"])
            case _:
                return self._searchable(facts["pages"], facts["dpi"])

    def _close(self) -> None:
        document, self._document, self._name = self._document, None, ""
        if document is not None:
            with suppress(Exception):
                document.close()

    def _picture(self, number: int, dpi: int) -> Frame:
        with closing(self._document[number - 1]) as page:
            shown = picture(page, dpi)
        facts = {"width": shown.width, "height": shown.height, "dpi": shown.dpi, "ink": has_ink(shown)}
        return Frame({"result": facts}, shown.pixels)

    def _searchable(self, pages: list[Any], dpi: int) -> Frame:
        read = sorted((number, why, words_of_json(words)) for number, why, words in pages)
        try:
            content, recognized = searchable_pdf(self._document, read, dpi)
        finally:
            self._close()  # it is another document now
        return Frame({"result": recognized}, content)


def pages_without_text(document: Any, numbers: Sequence[int]) -> Iterator[ScannedPage]:
    """Yield those of the pages [numbers from 1] that need OCR; an empty page does not."""
    for number in numbers:
        with closing(document[number - 1]) as page:
            if why := _why(page):
                yield ScannedPage(number, why)


def _why(page: Any) -> Why | None:
    with closing(page.get_textpage()) as layer:
        letters, unreadable, total = _signs(layer.get_text_range())
    if total >= _FEWEST_SIGNS and unreadable > _BROKEN * total:
        return "broken"
    if letters >= ENOUGH_LETTERS:
        return None
    covered, paths = _drawn(page)
    if covered >= _WHOLE_PAGE or (letters < _STRAY and covered >= _SOME):
        return "scan"
    return "outlines" if letters < _STRAY and paths >= _OUTLINES else None


def _signs(text: str) -> tuple[int, int, int]:
    """Return how many letters and digits a text has, signs without meaning, and signs in all."""
    letters = unreadable = total = 0
    for sign in text:
        if sign.isspace() or sign in _PLAIN:
            continue
        total += 1
        if sign.isalnum():
            letters += 1
        elif sign == "\ufffd" or unicodedata.category(sign) in ("Cc", "Cn", "Co", "Cs"):
            unreadable += 1
    return letters, unreadable, total


def _drawn(page: Any) -> tuple[float, int]:
    """Return the share of the page that pictures cover, and how many paths it has."""
    import numpy as np
    from pypdfium2 import raw

    left, bottom, right, top = page.get_bbox()
    width, height = right - left, top - bottom
    if not (width > 0 and height > 0):
        return 0.0, 0
    grid, paths = np.zeros((_GRID, _GRID), bool), 0
    for kind, (x0, y0, x1, y1) in shown_objects(page, _MOST_OBJECTS):
        if kind == raw.FPDF_PAGEOBJ_PATH:
            paths += 1
            continue
        columns = [round(min(max((x - left) / width, 0), 1) * _GRID) for x in (x0, x1)]
        rows = [round(min(max((y - bottom) / height, 0), 1) * _GRID) for y in (y0, y1)]
        grid[rows[0] : rows[1], columns[0] : columns[1]] = True
    return float(grid.mean()), paths


_TAIL = 4096
_IDENTIFIER = re.compile(rb"/ID ?\[<([0-9A-Fa-f]{32})><([0-9A-Fa-f]{32})>\]")

POINTS = 72.0
"""In an inch."""
MOST_PIXELS = 40_000_000
"""Of a picture; a larger page is rendered with fewer, a larger image is not read."""
MOST_IMAGES = 2000
_INK, _LEAST_INK = 48, 2e-5  # shades darker than the paper; share of the pixels
_LEAST_DPI, _MOST_DPI = 100.0, 1200.0  # that an image may claim
_SMALL = 1000  # pixels; a smaller image is shown at half of the resolution, so that its letters are large enough
_QUALITY = 92
_DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    LookupError,
    EOFError,
    TypeError,
    ArithmeticError,
    AttributeError,
    struct.error,
)
"""Errors of Pillow for damaged files: its readers trust their tables."""


def picture(page: Any, dpi: int) -> PagePicture:
    """Return a page as it is shown, at most `MOST_PIXELS` large. Raises FileError: it has no size that can be shown."""
    width, height = page.get_size()
    if not (math.isfinite(width) and math.isfinite(height) and width >= 1 and height >= 1):
        raise FileError("the page has no size that can be shown")
    scale = min(dpi / POINTS, math.sqrt(MOST_PIXELS / (width * height)))
    bitmap = page.render(scale=scale, grayscale=True)
    array = bitmap.to_numpy()[:, : bitmap.width].reshape(bitmap.height, bitmap.width)
    return PagePicture(bitmap.width, bitmap.height, array.tobytes(), scale * POINTS)


def has_ink(shown: PagePicture) -> bool:
    """Return whether there is more on a picture than paper: some pixels differ clearly from most."""
    import numpy as np

    shades = np.frombuffer(shown.pixels, np.uint8)
    counts = np.bincount(shades, minlength=256)
    paper = int(counts.argmax())
    alike = int(counts[max(paper - _INK, 0) : paper + _INK + 1].sum())
    return shades.size - alike > _LEAST_INK * shades.size


def image_pdf(content: bytes, dpi: int) -> bytes:
    """Return a PDF of one page for each image of a PNG, JPEG or TIFF file; the same file gives the same bytes. Raises
    FileError: it is broken, or too large."""
    from PIL import Image, UnidentifiedImageError
    from pypdfium2 import PdfDocument

    Image.MAX_IMAGE_PIXELS = None  # `_one_page` says it in our words
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "TIFF")) as image:
            count = getattr(image, "n_frames", 1)
            if count > MOST_IMAGES:
                raise FileError(f"it has more than {MOST_IMAGES} pages")
            with PdfDocument(_one_page(image, dpi)) as document:  # a new one would reveal when it was made
                for number in range(1, count):
                    image.seek(number)
                    with PdfDocument(_one_page(image, dpi)) as page:
                        document.import_pages(page)
                return saved(document)
    except UnidentifiedImageError:
        raise FileError("it is not a readable image") from None
    except _DAMAGED as error:
        raise FileError(f"it is not a readable image: {error}"[:200]) from None


def _one_page(image: Any, dpi: int) -> bytes:
    if image.width * image.height > MOST_PIXELS:
        raise FileError(f"it has more than {MOST_PIXELS:,} pixels")
    target, shown = io.BytesIO(), _plain(image)
    options = {} if shown.mode == "1" else {"quality": _QUALITY}  # black and white is kept without loss
    dates = dict.fromkeys(("creationDate", "modDate"), time.gmtime(0))
    shown.save(target, "PDF", resolution=_resolution(image, dpi), **dates, **options)
    return target.getvalue()


def _plain(image: Any) -> Any:
    """Return an image upright, in black and white, gray, or RGB on white."""
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("1", "L", "RGB", "CMYK"):
        return upright
    if upright.mode.startswith("I;16") or upright.mode in ("I", "F"):
        return upright.convert("F").point(lambda shade: shade / 256).convert("L")
    if "A" in upright.getbands() or "transparency" in upright.info:
        shown = upright.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert("RGB")
    return upright.convert("RGB")


def _resolution(image: Any, dpi: int) -> float:
    """Return pixels an inch: the file's claim if plausible, else one that shows its pixels as they are."""
    claimed = image.info.get("dpi")
    try:
        across = float(claimed[0]) if claimed else 0.0
    except (TypeError, ValueError, ZeroDivisionError, IndexError):
        across = 0.0
    if _LEAST_DPI <= across <= _MOST_DPI:
        return across
    return dpi if max(image.size) >= _SMALL else dpi / 2


def saved(document: Any) -> bytes:
    """Return the document as a file whose identifier is made from its content.

    ISO 32000-1, 14.4, wants an identifier that two files hardly share; the digest of the rest is one.
    """
    target = io.BytesIO()
    document.save(target)
    content = target.getvalue()
    found = _IDENTIFIER.search(content, max(len(content) - _TAIL, 0))
    if found is None:
        return content
    rest = content[: found.start()] + content[found.end() :]
    name = hashlib.sha256(rest).hexdigest()[:32].upper().encode()
    (first, end), (second, last) = found.span(1), found.span(2)
    return content[:first] + name + content[end:second] + name + content[last:]


if __name__ == "__main__":
    run(OcrWorker().answer, ("pypdfium2", "pypdfium2.raw", "numpy"))
