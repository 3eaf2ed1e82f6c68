"""The rectangles of a quote cover its words, on real files, on rotated pages and across lines."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rendering.quoted_pages import covered, is_covered, layer_of, pdfs, quotes_of
from sources.pdf_writer import pdf

from rag_serving.rendering.layer import Box, Char, PageLayer, QuoteContext, compared
from rag_serving.rendering.worker import _image, png, size_of

SHARE = 0.98
REAL = Path(__file__).parents[3] / "shared/data/pdf"


def written(*lines: str, width: float = 6.0) -> PageLayer:
    """A page with these lines in letters of one width."""
    chars = []
    for row, line in enumerate(lines):
        for column, sign in enumerate(f"{line}\n"):
            place = (0.0, 0.0, 0.0, 0.0)
            if not sign.isspace():
                place = (column * width, row * 12.0, (column + 1) * width, row * 12.0 + 10)
            chars.append(Char(sign, *place))
    return PageLayer("1", 600, 800, tuple(chars))


@pytest.mark.parametrize(
    ("lines", "quote", "boxes"),
    [
        (("one two three",), "two three", [Box(24, 0, 78, 10)]),
        (("one two", "three four"), "two  three", [Box(24, 0, 42, 10), Box(0, 12, 30, 22)]),
        (("one exam-", "ple two"), "example two", [Box(24, 0, 54, 10), Box(0, 12, 42, 22)]),
        (("one exam\u00ad", "ple two"), "exam- ple", [Box(24, 0, 54, 10), Box(0, 12, 18, 22)]),
        (("the \ufb01rst “page”",), 'first "page"', [Box(24, 0, 90, 10)]),
        (("catalogue cat",), "cat", [Box(60, 0, 78, 10)]),
        (("one two",), "three", []),
        (("one two",), " - ", []),
        (("one" + " " * 40 + "two",), "one two", [Box(0, 0, 18, 10), Box(258, 0, 276, 10)]),
    ],
)
def test_a_quote_has_a_rectangle_for_each_line(lines: tuple[str, ...], quote: str, boxes: list[Box]) -> None:
    assert written(*lines).boxes(QuoteContext(quote)) == boxes


@given(st.lists(st.text("ab -’ﬁ.", max_size=12), max_size=5), st.text(max_size=20))
def test_rectangles_cover_what_was_asked_for_or_nothing(lines: list[str], quote: str) -> None:
    layer = written(*lines)
    for asked in (quote, " ".join(lines)):
        boxes = layer.boxes(QuoteContext(asked))
        if boxes and compared(asked) in compared("".join(lines)):
            assert compared(asked) in compared(covered(layer, boxes))
        elif boxes:  # found in pieces
            assert set(compared(covered(layer, boxes))) & set(compared(asked))
    assert all(word.strip() for word, _ in layer.words)
    assert compared("".join(word for word, _ in layer.words)) == compared("".join(char.sign for char in layer.chars))


def test_hostile_text_takes_no_longer() -> None:
    layer = written("a" * 60_000)
    begun = time.perf_counter()
    layer.boxes(QuoteContext("a" * 2000 + "b"))
    layer.boxes(QuoteContext("a" * 2000))
    assert layer.boxes(QuoteContext("\ufdfa" * 2000)) == []
    assert time.perf_counter() - begun < 5


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/data/pdf is not here")
def test_of_real_files_the_rectangles_cover_exactly_the_words_of_the_quote() -> None:
    asked = right = 0
    for path in sorted(pdfs(REAL), key=lambda path: path.stat().st_size)[:5]:
        content = path.read_bytes()
        for page, quote in quotes_of(content, pages=3, each=5):
            layer = layer_of(content, page)
            asked += 1
            right += is_covered(layer, layer.boxes(QuoteContext(quote)), quote)
    assert asked >= 50
    assert right / asked >= SHARE


def pixels(image: bytes) -> tuple[int, int, bytes]:
    """Width, height and the rows of a picture, three bytes for a pixel."""
    size = size_of(image)
    assert size is not None
    raw = zlib.decompress(image[image.index(b"IDAT") + 4 : image.rindex(b"IEND") - 8])
    stride = 3 * size[0] + 1
    return *size, b"".join(raw[row * stride + 1 : (row + 1) * stride] for row in range(size[1]))


@pytest.mark.parametrize("turned", ["", "/Rotate 90", "/Rotate 180", "/Rotate 270", "/CropBox [50 100 562 760]"])
def test_pixels_of_the_quote_lie_under_its_rectangles(turned: str) -> None:
    """Of a page with a quote alone every dark pixel is inside, and every rectangle has some."""
    content = pdf("Mooring lines are checked").replace(b"/MediaBox", f"{turned} /MediaBox".encode())
    scale, layer = 2, layer_of(content, 1)
    width, height, rows = pixels(_image({"page": 1, "scale": scale}, content).content)
    assert (width, height) == (round(layer.width * scale), round(layer.height * scale))
    dark = [(at % width, at // width) for at in range(width * height) if rows[3 * at] < 128]
    boxes = layer.boxes(QuoteContext("Mooring lines are checked"))
    assert dark
    assert boxes
    for x, y in dark:
        assert any(
            b.x0 * scale - 2 <= x <= b.x1 * scale + 2 and b.y0 * scale - 2 <= y <= b.y1 * scale + 2 for b in boxes
        )
    area = sum((b.x1 - b.x0) * (b.y1 - b.y0) for b in boxes)
    assert area < 0.02 * layer.width * layer.height


def test_a_picture_is_a_file_that_others_read() -> None:
    image = png(2, 1, b"\xff\x00\x00\x00\xff\x00\x00\x00", 8)
    assert size_of(image) == (2, 1)
    assert pixels(image) == (2, 1, b"\xff\x00\x00\x00\xff\x00")
    assert size_of(b"GIF89a") is size_of(image[:20]) is None
