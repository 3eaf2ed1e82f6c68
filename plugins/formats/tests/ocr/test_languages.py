"""A document is read in its own language, which its first pages tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from scanning import Opened, counting, joined, lines, need_tesseract, scanned, text_of, text_pdf

from citelock_formats.ocr.scans import first_languages, language_of

GERMAN = "Die Prüfung der Anlage dauerte\nüber drei Stunden. Größere Schäden\nwurden dabei nicht gefunden."
INSTALLED = ("chi_sim", "deu", "eng", "ell", "fra", "rus", "ukr", "spa")


def test_a_german_document_is_read_in_german(opened: Opened, tmp_path: Path) -> None:
    need_tesseract()
    command, notes = counting(tmp_path, "deu eng osd")
    _, scans = opened(command=str(command), languages=["deu", "eng"])
    page = scanned(text_pdf(GERMAN))
    prepared = scans.prepared(
        joined(page, scanned(text_pdf(GERMAN + "\n1")), scanned(text_pdf(GERMAN + "\n2"))), False, None
    )
    assert text_of(prepared.content)[2] == " ".join(GERMAN.split()) + " 2"
    assert sorted(line.partition("-l ")[2].split()[0] for line in lines(notes)) == ["deu", "deu+eng", "deu+eng"]


@pytest.mark.parametrize(
    ("script", "languages"),
    [
        ("Latin", ("eng", "deu", "fra")),
        ("", ("eng", "deu", "fra")),
        ("Cyrillic", ("rus", "ukr")),
        ("Greek", ("ell",)),
        ("Han", ("chi_sim",)),
        ("Thai", ("eng", "chi_sim", "deu")),
    ],
)
def test_the_first_pages_are_read_in_languages_of_their_script(script: str, languages: tuple[str, ...]) -> None:
    assert first_languages(INSTALLED, script) == languages


def test_a_language_that_is_not_installed_is_not_chosen() -> None:
    french = "La maison est grande et les enfants jouent dans le jardin avec leurs amis."
    assert language_of(french, INSTALLED) == ("fra",)
    assert language_of(french, ("eng", "deu")) == ()
    assert language_of("17 48 2023", INSTALLED) == ()
