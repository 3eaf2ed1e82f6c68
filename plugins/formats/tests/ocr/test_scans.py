"""Scanned pages become text at the places of their words; the other pages stay as they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from scanning import SIZE, Opened, counting, joined, lines, need_tesseract, scanned, shades, text_of, text_pdf

from rag_assets.steps.files.records import FileError

ENGLISH = "The turbine was inspected in March.\nIts bearings were worn and noisy.\nAll 48 blades were replaced."
GERMAN = "Die Prüfung der Anlage dauerte\nüber drei Stunden. Größere Schäden\nwurden dabei nicht gefunden."
TYPED = "This page was typed. " * 2 + "\n" + "\n".join("It has a text layer of its own here." for _ in range(5))


def test_a_scanned_page_gets_its_words_and_the_typed_one_stays(opened: Opened, tmp_path: Path) -> None:
    need_tesseract()
    command, notes = counting(tmp_path)
    content = joined(text_pdf(TYPED), scanned(text_pdf(ENGLISH)))
    reader, scans = opened(command=str(command))
    told: list[tuple[int, int]] = []
    prepared = scans.prepared(content, False, lambda page, pages: told.append((page, pages)))
    assert text_of(prepared.content) == [*text_of(content)[:1], " ".join(ENGLISH.split())]
    assert prepared.received_sha256 == hashlib.sha256(content).hexdigest()
    assert (told, prepared.unread, [*prepared.recognized]) == ([(2, 2)], {}, [2])
    for page in (0, 1):
        assert np.array_equal(shades(content, page), shades(prepared.content, page))
    assert min(word.confidence for word in prepared.recognized[2].words) > 50
    assert len(lines(notes)) == 1
    again = reader.document("report.pdf", content)
    assert len(lines(notes)) == 1  # what was read once is not read again
    assert (again.content, again.received_sha256) == (prepared.content, prepared.received_sha256)
    assert "All 48 blades were replaced." in " ".join(again.text.body.split())


def test_words_stand_where_the_picture_shows_them(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened()
    typed = text_pdf(ENGLISH)
    recognized = scans.prepared(scanned(typed), False, None).recognized[1]
    with pypdfium2.PdfDocument(typed) as document:
        layer = document[0].get_textpage()
        true = []
        for index in range(layer.count_chars()):
            if not layer.get_text_range(index, 1).isspace():
                true.append(layer.get_charbox(index))
    assert sum(len(word.text) for word in recognized.words) == len(true)
    for word in recognized.words:
        boxes, true = true[: len(word.text)], true[len(word.text) :]
        left, right = min(box[0] for box in boxes), max(box[2] for box in boxes)
        top, bottom = SIZE[1] - max(box[3] for box in boxes), SIZE[1] - min(box[1] for box in boxes)
        assert (word.x0, word.x1) == pytest.approx((left, right), abs=1.5)
        assert word.y0 <= top + 1
        assert word.y1 >= bottom - 1
        assert word.y1 - word.y0 < 20


def test_without_the_program_the_reason_says_what_to_install(opened: Opened) -> None:
    reader, scans = opened(command="tesseract-that-is-nowhere")
    scan, typed = scanned(text_pdf(ENGLISH)), text_pdf(TYPED)
    with pytest.raises(FileError, match=r"install tesseract-ocr.*\(documents\.ocr\.enabled\)") as error:
        reader.document("scan.pdf", scan)
    assert not reader.is_past(str(error.value))
    mixed = reader.document("mixed.pdf", joined(typed, scan))
    assert "typed" in mixed.text.body
    assert mixed.received_sha256 is None
    assert [*scans.prepared(joined(typed, scan), False, None).unread] == [2]
    assert opened(enabled=False)[0].is_past(str(error.value))
    with pytest.raises(FileError, match=r"OCR is off \(documents\.ocr\.enabled\)"):
        opened(enabled=False)[0].document("scan.pdf", scan)
    with pytest.raises(FileError, match="1 page has no text layer"):
        opened(enabled=True, command="nowhere")[0].document("mixed.pdf", joined(typed, scan))
