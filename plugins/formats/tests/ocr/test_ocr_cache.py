"""What was read is kept by the picture: altered or lost readings are made again, those of no document are removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scanning import Opened, counting, joined, lines, need_tesseract, scanned, text_pdf

from citelock_formats.ocr.child import PagePicture, RecognizedPage, RecognizedWord, words_of_json
from citelock_formats.ocr.scans import OcrCache, picture_key
from rag_assets.parsing.reader import FOLDER

WORDS = RecognizedPage(40, 20, 90, (RecognizedWord("Straße", 1, 2, 30, 12, 93, 0),))
KEY = "k" * 64


@pytest.fixture
def cache(tmp_path: Path) -> OcrCache:
    return OcrCache(tmp_path / "sources" / "docs" / FOLDER)


def test_what_is_kept_comes_back(cache: OcrCache) -> None:
    assert cache.words(KEY) is None
    cache.keep(KEY, WORDS)
    assert cache.words(KEY) == WORDS
    assert cache.words("j" * 64) is None


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 500), flip=st.integers(1, 255), cut=st.booleans())
def test_an_altered_reading_is_none(cache: OcrCache, tmp_path: Path, place: int, flip: int, cut: bool) -> None:
    cache.keep(KEY, WORDS)
    path = tmp_path / "sources" / "docs" / FOLDER / "pages" / KEY
    content = bytearray(path.read_bytes())
    place %= len(content)
    content[place] ^= flip
    path.write_bytes(content[:place] if cut else content)
    assert cache.words(KEY) is None
    cache.keep(KEY, WORDS)
    path.rename(path.with_name("j" * 64))  # another picture's words are not this one's
    assert cache.words("j" * 64) is None


def test_readings_of_no_document_are_removed(cache: OcrCache, tmp_path: Path) -> None:
    for key in ("a" * 64, "b" * 64, "c" * 64):
        cache.keep(key, WORDS)
    cache.name_pages("1" * 64, ["a" * 64, "b" * 64])
    cache.name_pages("2" * 64, ["b" * 64, "c" * 64])
    (tmp_path / "sources" / "docs" / FOLDER / "pages" / f".{'a' * 64}-half").touch()
    cache.remove_unnamed(["2" * 64])
    left = sorted(path.name[0] for path in (tmp_path / "sources" / "docs" / FOLDER / "pages").iterdir())
    assert left == ["b", "c"]
    cache.remove_unnamed([])
    assert not [path for path in (tmp_path / "sources" / "docs" / FOLDER).rglob("*") if path.is_file()]
    OcrCache(tmp_path / "nowhere").remove_unnamed([])


def test_a_picture_is_known_by_pixels_engine_and_languages() -> None:
    picture = PagePicture(2, 2, b"abcd", 200.0)
    others = [
        picture_key(picture._replace(pixels=b"abce"), "5.3", ["eng"]),
        picture_key(picture._replace(width=4, height=1), "5.3", ["eng"]),
        picture_key(picture, "5.4", ["eng"]),
        picture_key(picture, "5.3", ["deu"]),
        picture_key(picture._replace(dpi=300.0), "5.3", ["eng"]),
    ]
    assert len({picture_key(picture, "5.3", ["eng"]), *others}) == 6


def test_anything_else_than_words_is_refused() -> None:
    for payload in (None, 3, [], [1, 2, 0], [1, 2, 0, [["a", 1]]], [1, 2, 0, [["a", 1, 2, 3, 4, "x", 0]]], {"a": 1}):
        with pytest.raises(ValueError, match="something else"):
            words_of_json(payload)


def test_a_killed_build_reads_only_the_pages_that_are_missing(opened: Opened, tmp_path: Path) -> None:
    need_tesseract()
    command, notes = counting(tmp_path)
    content = joined(*(scanned(text_pdf(f"Page {word}\nof the report.")) for word in ("one", "two", "three")))
    _, scans = opened(command=str(command))
    first = scans.prepared(content, False, None)
    assert len(lines(notes)) == 3
    pages = sorted((tmp_path / "sources" / "docs" / FOLDER / "pages").iterdir())
    pages[0].unlink()  # as if it had been killed before
    pages[1].write_bytes(b"half")
    assert scans.prepared(content, False, None) == first
    assert len(lines(notes)) == 5
