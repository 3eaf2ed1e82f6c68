"""Records passed between the parts of OCR; a page of a PDF as a picture, and an image file as a PDF."""

from __future__ import annotations

import hashlib
import io
import math
import re
import struct
import time
from typing import Any, Literal, NamedTuple

from rag_assets.steps.files.records import FileError

Why = Literal["scan", "outlines", "broken"]
"""`scan`: a picture; `outlines`: letters drawn as lines; `broken`: a text layer whose glyphs have no Unicode."""


_LONG = 4  # letters of a word that is wider than high


class ScannedPage(NamedTuple):
    """A page that has no text layer that can be used."""

    page: int  # from 1
    why: Why


class PagePicture(NamedTuple):
    """A page as shades of gray, a byte a pixel, rows from the top."""

    width: int  # of the picture, in pixels
    height: int
    pixels: bytes
    dpi: float


class RecognizedWord(NamedTuple):
    """A word with its box in pixels from the top left of the picture; `line`: number of its line."""

    text: str
    x0: int
    y0: int
    x1: int
    y1: int
    confidence: int  # 0 to 100
    line: int


class RecognizedPage(NamedTuple):
    """An engine's result for a picture, turned clockwise by `turn` degrees first so that its lines are level."""

    width: int  # of the turned picture, in pixels
    height: int
    turn: int  # 0, 90, 180 or 270
    words: tuple[RecognizedWord, ...]

    @property
    def text(self) -> str:
        """Return the words in their order."""
        return " ".join(word.text for word in self.words)

    @property
    def confidence(self) -> float:
        """Return the mean confidence of a character, 0 if there is none."""
        signs = sum(len(word.text) for word in self.words)
        return sum(len(word.text) * word.confidence for word in self.words) / signs if signs else 0.0

    @property
    def is_lying(self) -> bool:
        """Return whether most words are higher than wide: they were read from the side, and are not where they seem."""
        long = [word for word in self.words if len(word.text) >= _LONG]
        return sum(word.y1 - word.y0 > word.x1 - word.x0 for word in long) * 2 > len(long)


def words_of_json(payload: Any) -> RecognizedPage:
    """Return page words from JSON. Raises ValueError for anything else."""
    try:
        width, height, turn, words = payload
        read = tuple(RecognizedWord(str(text), *map(int, numbers)) for text, *numbers in words)
        return RecognizedPage(int(width), int(height), int(turn), read)
    except (TypeError, ValueError):
        raise ValueError("it holds something else than words of a page") from None


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
_BROKEN = (
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
"""What Pillow raises of damaged files: its readers trust their tables."""


def picture(page: Any, dpi: int) -> PagePicture:
    """Return a page as it is shown, at most `MOST_PIXELS` large.

    Raises:
        FileError: it has no size that can be shown.
    """
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
    """Return a PDF of one page for each image of a PNG, JPEG or TIFF file; the same file gives the same bytes.

    Raises:
        FileError: it is broken, or too large.
    """
    from PIL import Image, UnidentifiedImageError
    from pypdfium2 import PdfDocument

    Image.MAX_IMAGE_PIXELS = None  # `_checked` says it in our words
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
    except _BROKEN as error:
        raise FileError(f"it is not a readable image: {error}"[:200]) from None


def _one_page(image: Any, dpi: int) -> bytes:
    _checked(image)
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


def _checked(image: Any) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise FileError(f"it has more than {MOST_PIXELS:,} pixels")


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
