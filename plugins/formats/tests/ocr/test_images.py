"""PNG, JPEG and TIFF files are scanned documents."""

from __future__ import annotations

import hashlib
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pypdfium2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scanning import Opened, engine, need_tesseract, text_of, text_pdf

from citelock_formats.ocr.worker import MOST_PIXELS, image_pdf
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


def test_odd_images_are_documents_or_have_a_reason(opened: Opened, tmp_path: Path) -> None:
    reader, _ = opened(command=str(engine(tmp_path, "exit 1")))
    dot, wide = Image.new("L", (1, 1), 0), Image.new("1", (30_000, 3), 0)
    cmyk, deep = shown().convert("CMYK"), Image.linear_gradient("L").convert("I").point(lambda shade: shade * 256)
    claimed = bytearray(file(Image.new("L", (4, 4)), "PNG"))
    claimed[16:24] = (2**31 - 1).to_bytes(4, "big") * 2  # width and height
    files = {
        "dot.png": file(dot, "PNG"),
        "wide.tiff": file(wide, "TIFF", compression="group4"),
        "cmyk.jpg": file(cmyk, "JPEG"),
        "deep.tiff": file(deep, "TIFF"),
        "sixteen.png": file(deep.convert("I;16"), "PNG"),
        "claimed.png": bytes(claimed),
        "cut.jpg": file(shown(), "JPEG")[:900],
        "turned.tiff": file(shown(), "TIFF")[::-1],
    }
    reasons = {}
    for name, content in files.items():
        with pytest.raises(FileError) as error:
            reader.document(name, content)
        reasons[name] = str(error.value)
    assert all("unexpected" not in reason and "\n" not in reason for reason in reasons.values()), reasons
    assert "pixels" in reasons["claimed.png"] or "readable" in reasons["claimed.png"]
    assert "readable image" in reasons["cut.jpg"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_images_have_a_reason(opened: Opened, tmp_path: Path, data: st.DataObject) -> None:
    reader, _ = opened(command=str(engine(tmp_path, "exit 1")))
    mode, kind = data.draw(st.sampled_from([("RGB", "PNG"), ("CMYK", "JPEG"), ("I;16", "TIFF"), ("L", "TIFF")]))
    content = bytearray(file(Image.linear_gradient("L").resize((30, 30)).convert(mode), kind))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with pytest.raises(FileError) as error:
        reader.document(f"scan.{kind.lower()}", bytes(content[: data.draw(st.integers(1, len(content)))]))
    assert "\n" not in str(error.value)
