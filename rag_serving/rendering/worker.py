"""The process that renders pages of PDF files as PNG and as characters: `python -m rag_serving.rendering.worker`."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import IO, Any

from rag_serving.isolation.child import Frame, Limits
from rag_serving.isolation.serving import run, within_limits

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVEL = 4  # 8 % larger than at level 6, in half of the time


def png(width: int, height: int, pixels: bytes, stride: int) -> bytes:
    """Return an image file. `pixels`: rows of `stride` bytes, of which the first 3 x `width` are R, G, B."""
    rows = b"".join(b"\0" + pixels[row * stride : row * stride + 3 * width] for row in range(height))
    head = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, _LEVEL)) + _chunk(b"IEND", b"")


def size_of(image: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG file; None if the bytes are none."""
    if not image.startswith(_SIGNATURE) or image[12:16] != b"IHDR" or len(image) < 33:
        return None
    width, height = struct.unpack("!II", image[16:24])
    return width, height


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))


MOST_PIXELS = 12_000_000
"""Of a picture; a page that would have more is rendered smaller."""
MOST_CHARS = 60_000
"""Characters of a page's text layer that are told."""
_PARTS = 64  # of a point, the unit of places
_FAR = 10_000  # points from which the way that coordinates are shown is measured


class UnshownPageError(Exception):
    """The page cannot be shown."""


def _answer(request: Frame, requests: IO[bytes]) -> Frame:
    try:
        with within_limits(Limits(*request.facts["limits"]), requests):
            return _DOING[request.facts["do"]](request.facts, request.content)
    except UnshownPageError as error:
        return Frame({"fault": str(error)})
    except MemoryError:
        return Frame({"memory": True})
    except Exception as error:  # a fault of one file is reported; the next one is rendered
        return Frame({"fault": f"unexpected {type(error).__name__}"})


def _image(facts: Mapping[str, Any], content: bytes) -> Frame:
    import pypdfium2

    with pypdfium2.PdfDocument(content) as document:
        page = _page(document, facts["page"])
        width, height = _size(page)
        scale = min(float(facts["scale"]), math.sqrt(MOST_PIXELS / (width * height)))
        bitmap = page.render(scale=scale, may_draw_forms=False, rev_byteorder=True, force_bitmap_format=_RGB)
        image = png(bitmap.width, bitmap.height, bytes(bitmap.buffer), bitmap.stride)
        return Frame({"done": True}, image)


def _layer(facts: Mapping[str, Any], content: bytes) -> Frame:
    import pypdfium2

    with pypdfium2.PdfDocument(content) as document:
        page = _page(document, facts["page"])
        width, height = _size(page)
        label = document.get_page_label(facts["page"] - 1)
        return Frame({"done": True, "width": width, "height": height, "label": label, "chars": [*_chars(page)]})


def _chars(page: Any) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield each character with its rectangle in points from the top left of the page as it is shown."""
    from pypdfium2 import raw

    layer, shown = page.get_textpage(), _shown(page)
    for index in range(min(layer.count_chars(), MOST_CHARS)):
        code = raw.FPDFText_GetUnicode(layer, index)
        sign = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if raw.FPDFText_IsHyphen(layer, index) == 1:
            sign = "\u00ad"
        if sign.isspace():
            yield sign, 0, 0, 0, 0
            continue
        left, bottom, right, top = layer.get_charbox(index, loose=True)
        xs, ys = zip(shown(left, top), shown(right, bottom), strict=True)
        yield sign, min(xs), min(ys), max(xs), max(ys)


def _shown(page: Any) -> Callable[[float, float], tuple[float, float]]:
    """Return a function from a page's own coordinates to the displayed ones: rotated, cropped, from the top left."""
    from ctypes import byref, c_int

    from pypdfium2 import raw

    width, height = page.get_size()
    size = int(width * _PARTS), int(height * _PARTS)

    def of(x: float, y: float) -> tuple[float, float]:
        shown_x, shown_y = c_int(), c_int()
        raw.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, byref(shown_x), byref(shown_y))
        return shown_x.value / _PARTS, shown_y.value / _PARTS

    (x0, y0), (xx, xy), (yx, yy) = of(0, 0), of(_FAR, 0), of(0, _FAR)
    per_x, per_y = ((xx - x0) / _FAR, (xy - y0) / _FAR), ((yx - x0) / _FAR, (yy - y0) / _FAR)
    return lambda x, y: (x0 + per_x[0] * x + per_y[0] * y, y0 + per_x[1] * x + per_y[1] * y)


def _page(document: Any, number: int) -> Any:
    if not 1 <= number <= len(document):
        raise UnshownPageError(f"the document has {len(document)} pages")
    return document[number - 1]


def _size(page: Any) -> tuple[float, float]:
    """Return width and height of the page as it is shown, in points."""
    width, height = page.get_size()
    if not (math.isfinite(width) and math.isfinite(height) and 1 <= width <= 100_000 and 1 <= height <= 100_000):
        raise UnshownPageError("the page has no size that can be shown")
    return width, height


_RGB = 2  # FPDFBitmap_BGR: three bytes for each pixel, here in the order R, G, B
_DOING: Mapping[str, Callable[[Mapping[str, Any], bytes], Frame]] = MappingProxyType({"image": _image, "layer": _layer})

if __name__ == "__main__":
    run(_answer, ("pypdfium2", "pypdfium2.raw"))
