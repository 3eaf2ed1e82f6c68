"""Pages that lie, that are noise, that hold stray letters or glyphs without meaning, and pages that are empty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from PIL import Image
from pypdfium2 import raw
from scanning import (
    SIZE,
    Opened,
    counting,
    joined,
    lines,
    need_tesseract,
    picture_pdf,
    scanned,
    shades,
    text_of,
    text_pdf,
    written,
)
from sources.pdf_writer import pdf

from citelock_formats.ocr.scans import NOTHING_LEGIBLE
from rag_assets.steps.files.records import FileError

ENGLISH = "The turbine was inspected in March.\nIts bearings were worn and noisy.\nAll 48 blades were replaced."
WORDS = " ".join(ENGLISH.split())


@pytest.mark.parametrize("turn", [90, 180])
def test_a_page_that_lies_is_turned_upright(opened: Opened, turn: int) -> None:
    need_tesseract()
    _, scans = opened()
    long = "\n".join([ENGLISH] * 3)  # some lines show the orientation of a page
    upright = text_pdf(long, size=(360, 264))
    prepared = scans.prepared(scanned(upright, turn), False, None)
    assert text_of(prepared.content)[0] == " ".join(long.split())
    assert np.abs(shades(prepared.content, 0).astype(int) - shades(upright, 0)).mean() < 15
    first = prepared.recognized[1].words[0]
    assert (first.text, round(first.x0, -1), round(first.y0, -1)) == ("The", 20, 10)


def test_noise_is_not_read_and_the_next_page_is(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened()
    noise = Image.fromarray(np.random.default_rng(7).integers(0, 256, (320, 720), np.uint8).astype(np.uint8))
    prepared = scans.prepared(joined(picture_pdf(noise), scanned(text_pdf(ENGLISH))), False, None)
    assert prepared.unread == {1: NOTHING_LEGIBLE}
    assert text_of(prepared.content) == ["", WORDS]


def test_stray_letters_over_a_picture_stay_and_are_not_read_twice(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened()
    with pypdfium2.PdfDocument(scanned(text_pdf(ENGLISH))) as document:
        page = document[0]
        for text, hidden, y in ((b"Helvetica", False, 20), (b"Helvetica", True, 60)):
            item = raw.FPDFPageObj_NewTextObj(document, text, 14.0)
            codes = ("zq" if hidden else "Stamp").encode("utf-16-le") + b"\0\0"
            raw.FPDFText_SetText(item, pypdfium2.raw.cast(codes, pypdfium2.raw.POINTER(pypdfium2.raw.c_ushort)))
            raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, 20, y)
            raw.FPDFTextObj_SetTextRenderMode(item, 3 if hidden else 0)
            raw.FPDFPage_InsertObject(page, item)
        page.gen_content()
        content = written(document)
    prepared = scans.prepared(content, False, None)
    read = text_of(prepared.content)[0]
    assert (read.count("Stamp"), read.count("zq")) == (1, 0)
    assert WORDS in read
    assert "Stamp" not in [word.text for word in prepared.recognized[1].words]
    assert np.array_equal(shades(content, 0), shades(prepared.content, 0))


def test_glyphs_without_meaning_are_read_as_they_look(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened()
    content = _glyphs_without_unicode(ENGLISH)
    assert WORDS not in text_of(content)[0]
    prepared = scans.prepared(content, False, None)
    assert text_of(prepared.content) == [WORDS]
    assert np.abs(shades(prepared.content, 0).astype(int) - shades(content, 0)).mean() < 6


def test_empty_pages_need_no_engine(opened: Opened, tmp_path: Path) -> None:
    need_tesseract()
    command, notes = counting(tmp_path)
    reader, scans = opened(command=str(command))
    white = picture_pdf(Image.new("L", (720, 320), 250))
    for content in (pdf(""), pdf("", "", ""), white, text_pdf("Page 3 is short"), joined(pdf(""), white)):
        prepared = scans.prepared(content, False, None)
        assert (prepared.content, prepared.received_sha256, prepared.unread) == (content, None, {})
    assert not lines(notes)
    with pytest.raises(FileError):
        reader.document("white.pdf", white)


def test_a_skewed_scan_is_read(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened()
    with pypdfium2.PdfDocument(text_pdf(ENGLISH)) as document:
        level = document[0].render(scale=200 / 72, grayscale=True).to_pil()
    skewed = picture_pdf(level.rotate(3, fillcolor=255, resample=Image.Resampling.BICUBIC))
    assert text_of(scans.prepared(skewed, False, None).content) == [WORDS]


def test_broken_and_hostile_files_are_left_to_their_reader(opened: Opened) -> None:
    _, scans = opened()
    whole = scanned(text_pdf(ENGLISH))
    for content in (b"%PDF-1.7 nothing", whole[:2000]):
        assert scans.prepared(content, False, None).content == content


def _glyphs_without_unicode(text: str) -> bytes:
    """Return a page whose font maps to no characters: written by programs that embed parts of fonts carelessly."""
    from ctypes import byref, c_ubyte, c_uint, create_string_buffer

    from fontTools.ttLib import TTFont
    from matplotlib import get_data_path

    path = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font, glyphs = path.read_bytes(), TTFont(path)
    places = glyphs.getBestCmap()
    nothing = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0000> <0FFF> <E000> endbfrange endcmap end end"""
    same = b"".join(number.to_bytes(2, "big") for number in range(len(glyphs.getGlyphOrder())))
    with pypdfium2.PdfDocument.new() as document:
        page = document.new_page(*SIZE)
        loaded = raw.FPDFText_LoadCidType2Font(
            document,
            (c_ubyte * len(font)).from_buffer_copy(font),
            len(font),
            create_string_buffer(nothing),
            (c_ubyte * len(same)).from_buffer_copy(same),
            len(same),
        )
        for number, line in enumerate(text.splitlines(), start=1):
            codes = [glyphs.getGlyphID(places[ord(sign)]) for sign in line]
            item = raw.FPDFPageObj_CreateTextObj(document, loaded, 14.0)
            raw.FPDFText_SetCharcodes(item, (c_uint * len(codes))(*codes), len(codes))
            raw.FPDFPageObj_SetMatrix(item, byref(raw.FS_MATRIX(1, 0, 0, 1, 20, SIZE[1] - 24 * number)))
            raw.FPDFPage_InsertObject(page, item)
        page.gen_content()
        return written(document)
