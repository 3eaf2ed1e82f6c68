"""PNG, JPEG and TIFF files are scanned documents."""

from __future__ import annotations

import hashlib
import io
from contextlib import suppress
from typing import Any

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ocr.conftest import Opened
from ocr.scanning import need_tesseract, text_of, text_pdf
from PIL import Image

from rag_assets.ocr.pictures import MOST_PIXELS, image_pdf
from rag_assets.steps.files.records import FileError

ENGLISH = "The turbine was inspected in March.\nAll 48 blades were replaced."
WORDS = " ".join(ENGLISH.split())


def shown(text: str = ENGLISH, dpi: int = 150) -> Image.Image:
    """Return a page as a picture."""
    with pypdfium2.PdfDocument(text_pdf(text)) as document:
        return document[0].render(scale=dpi / 72).to_pil().convert("RGB")


def file(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def test_a_picture_of_a_page_is_read_and_kept_as_a_pdf(opened: Opened) -> None:
    need_tesseract()
    reader, _ = opened()
    content = file(shown(), "PNG")
    document = reader.document("scan.png", content)
    assert document.content.startswith(b"%PDF")
    assert document.received_sha256 == hashlib.sha256(content).hexdigest()
    assert text_of(document.content) == [WORDS]
    assert document.text.page_count == 1
    assert "48 blades" in document.text.body


def test_each_image_of_a_fax_is_a_page(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened()
    first, second = (shown(text).convert("1") for text in (ENGLISH, "The second page speaks\nof other engines."))
    fax = file(first, "TIFF", save_all=True, append_images=[second], compression="group4", dpi=(150, 150))
    prepared = scans.prepared(fax, True, None)
    assert text_of(prepared.content) == [WORDS, "The second page speaks of other engines."]
    with pypdfium2.PdfDocument(prepared.content) as document:
        assert document[0].get_size() == pytest.approx((360, 160), abs=1)
    assert prepared.content == scans.prepared(fax, True, None).content


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I"])
def test_every_kind_of_pixels_looks_the_same(mode: str) -> None:
    gray = Image.linear_gradient("L")
    image = gray.convert("I").point(lambda shade: shade * 256) if mode.startswith("I") else gray.convert(mode)
    content = file(image.convert("I;16") if mode == "I;16" else image, "TIFF" if mode in ("CMYK", "I") else "PNG")
    with pypdfium2.PdfDocument(image_pdf(content, 72)) as document:
        page = document[0].render(scale=256 / document[0].get_width(), grayscale=True).to_numpy()
    assert page[:16].mean() < 60
    assert page[-16:].mean() > 195


def test_a_camera_that_was_held_upright_is_believed() -> None:
    image = shown()
    facts = image.getexif()
    facts[0x0112] = 6  # turn it by 90 degrees
    with pypdfium2.PdfDocument(image_pdf(file(image, "JPEG", exif=facts), 150)) as document:
        width, height = document[0].get_size()
    assert height > width


def test_images_that_are_broken_or_too_large_say_so() -> None:
    whole = file(shown(), "PNG")
    for content in (whole[:3000], whole[:40], b"\x89PNG\r\n\x1a\n", b"II*\x00" + bytes(50), b"\xff\xd8\xff\xe0junk"):
        with pytest.raises(FileError, match="not a readable image"):
            image_pdf(content, 200)
    bomb = file(Image.new("1", (20_000, MOST_PIXELS // 20_000 + 1)), "PNG")
    assert len(bomb) < 20_000
    with pytest.raises(FileError, match="more than 40,000,000 pixels"):
        image_pdf(bomb, 200)


@pytest.mark.filterwarnings("ignore")  # as the process does that reads them
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255), st.sampled_from(["PNG", "JPEG", "TIFF"]))
def test_a_flipped_bit_gives_a_picture_or_a_reason(place: int, flip: int, kind: str) -> None:
    content = bytearray(file(Image.linear_gradient("L").resize((40, 40)), kind))
    content[place % len(content)] ^= flip
    with suppress(FileError):
        assert image_pdf(bytes(content), 200).startswith(b"%PDF")
