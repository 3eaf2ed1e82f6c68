"""Scans for tests: pages of our own text, rendered and put into a PDF as pictures; and engines that misbehave."""

from __future__ import annotations

import ctypes
import io
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pypdfium2
import pytest
from pypdfium2 import PdfMatrix, raw

from citelock_formats.ocr.child import PdfChild
from citelock_formats.ocr.scans import Scans
from rag_assets.parsing.reader import LimitedReader
from rag_serving.isolation.child import Child

SIZE = (360, 160)
"""Of a page, in points: small ones are read in a third of a second."""
DPI = 150
Opened = Callable[..., tuple[LimitedReader, Scans]]


class Processes(NamedTuple):
    """The processes for reading files and for OCR: starting both takes longer than most tests."""

    parser: Child
    looker: PdfChild


def need_tesseract() -> None:
    """Skip where tesseract is not installed, except in CI."""
    if shutil.which("tesseract") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "tesseract is not installed; `apt-get install tesseract-ocr tesseract-ocr-deu`"
        )


def text_pdf(*pages: str, size: tuple[int, int] = SIZE) -> bytes:
    """Return a PDF whose pages show these lines in Helvetica of 14 points."""
    with pypdfium2.PdfDocument.new() as document:
        for text in pages:
            page = document.new_page(*size)
            for number, line in enumerate(text.splitlines(), start=1):
                item = raw.FPDFPageObj_NewTextObj(document, b"Helvetica", 14.0)
                codes = (line + "\0").encode("utf-16-le")
                raw.FPDFText_SetText(item, ctypes.cast(codes, ctypes.POINTER(ctypes.c_ushort)))
                raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, 20, size[1] - 24 * number)
                raw.FPDFPage_InsertObject(page, item)
            page.gen_content()
        return written(document)


def scanned(content: bytes, turn: int = 0, dpi: int = DPI) -> bytes:
    """Return a PDF whose pages are pictures of these, lying `turn` degrees clockwise."""
    with pypdfium2.PdfDocument(content) as source, pypdfium2.PdfDocument.new() as document:
        for shown in source:
            bitmap = shown.render(scale=dpi / 72, rotation=turn, grayscale=True)
            add_picture(document, bitmap, (bitmap.width * 72 / dpi, bitmap.height * 72 / dpi))
        return written(document)


def picture_pdf(image: Any, size: tuple[int, int] = SIZE) -> bytes:
    """Return a PDF of one page that a picture of PIL covers."""
    with pypdfium2.PdfDocument.new() as document:
        add_picture(document, pypdfium2.PdfBitmap.from_pil(image), size)
        return written(document)


def add_picture(document: Any, bitmap: Any, size: tuple[float, float]) -> Any:
    """Add a page that a picture covers."""
    page = document.new_page(*size)
    image = pypdfium2.PdfImage.new(document)
    image.set_bitmap(bitmap)
    image.set_matrix(PdfMatrix().scale(*size))
    page.insert_obj(image)
    page.gen_content()
    return page


def joined(*contents: bytes) -> bytes:
    """Return the pages of several PDFs as one."""
    with pypdfium2.PdfDocument.new() as document:
        for content in contents:
            with pypdfium2.PdfDocument(content) as part:
                document.import_pages(part)
        return written(document)


def written(document: Any) -> bytes:
    """Return an open document as a file."""
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def text_of(content: bytes) -> list[str]:
    """Return the text layers of the pages."""
    with pypdfium2.PdfDocument(content) as document:
        return [" ".join(page.get_textpage().get_text_range().split()) for page in document]


def shades(content: bytes, page: int) -> Any:
    """Return a page as it is shown."""
    with pypdfium2.PdfDocument(content) as document:
        return document[page].render(scale=1, grayscale=True).to_numpy().copy()


def engine(folder: Path, body: str, answers: bool = True, languages: str = "eng osd") -> Path:
    """Return a substitute for tesseract: `body` in shell, for pictures; $TESSERACT is the real one."""
    path = folder / "engine"
    told = {"--version": "echo tesseract 5.3.0", "--list-langs": f"echo x:; printf '%s\\n' {languages}"}
    asked = "\n".join(f'[ "$1" = {option} ] && {{ {answer}; exit; }}' for option, answer in told.items())
    real = shutil.which("tesseract") or "tesseract"
    path.write_text(f"#!/bin/sh\nTESSERACT={real}\n{asked if answers else ''}\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def counting(folder: Path, languages: str = "eng osd") -> tuple[Path, Path]:
    """Return a program that is tesseract and notes each picture that it is given, and the file of notes."""
    notes = folder / "notes"
    notes.touch()
    return engine(folder, f'echo "$@" >> {notes}\nexec "$TESSERACT" "$@"', languages=languages), notes


def lines(notes: Path) -> Sequence[str]:
    """Return the notes of a counting engine."""
    return notes.read_text(encoding="utf-8").splitlines()
