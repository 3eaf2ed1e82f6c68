"""Engines that hang, fail, flood or lie: the page is recorded with a reason, in bounded time, and nothing runs on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scanning import Opened, engine, joined, lines, need_tesseract, scanned, text_of, text_pdf
from support.constants import section_of

from citelock_formats.ocr.child import PagePicture
from citelock_formats.ocr.engine import Tesseract, words_of_table
from rag_serving.config.sections import Ocr

ENGLISH = "The turbine was inspected in March.\nAll 48 blades were replaced."
SCAN = scanned(text_pdf(ENGLISH))
SMALL = PagePicture(40, 20, bytes(800), 200.0)


def test_an_engine_that_hangs_is_ended_with_what_it_started(opened: Opened, tmp_path: Path) -> None:
    command = engine(tmp_path, f"sleep 300 &\necho $! > {tmp_path}/sleeper\nsleep 300")
    _, scans = opened(command=str(command), timeout_s=1)
    began = time.monotonic()
    prepared = scans.prepared(SCAN, False, None)
    assert prepared.unread == {1: "OCR of it exceeds 1 s (documents.ocr.timeout_s)"}
    assert time.monotonic() - began < 30
    _wait(lambda: _is_gone(int((tmp_path / "sleeper").read_text())))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'Error opening data file' >&2; exit 1", "OCR of it failed: Error opening data file"),
        ("kill -SEGV $$", "OCR of it failed: ended by SIGSEGV"),
        ("head -c 50000000 /dev/zero; exit $?", "OCR of it failed:"),
        ("printf 'what\\377ever\\t\\n5\\t'", "OCR finds no words in it that it is sure of"),
    ],
)
def test_an_engine_that_fails_says_why(opened: Opened, tmp_path: Path, body: str, reason: str) -> None:
    _, scans = opened(command=str(engine(tmp_path, body)), timeout_s=20)
    prepared = scans.prepared(SCAN, False, None)
    assert prepared.content == SCAN
    assert prepared.unread[1].startswith(reason)


def test_an_engine_that_is_broken_is_not_asked_for_every_page(opened: Opened, tmp_path: Path) -> None:
    command = engine(tmp_path, f"echo asked >> {tmp_path}/notes\nexit 3")
    _, scans = opened(command=str(command))
    prepared = scans.prepared(joined(*[SCAN] * 30), False, None)
    assert set(prepared.unread.values()) == {"OCR of it failed: exit status 3"}
    assert len(prepared.unread) == 30
    assert len(lines(tmp_path / "notes")) < 12


def test_one_page_that_fails_costs_no_other(opened: Opened, tmp_path: Path) -> None:
    need_tesseract()
    once = f'if mkdir {tmp_path}/first 2>/dev/null; then exit 1; fi\nexec "$TESSERACT" "$@"'
    other = scanned(text_pdf("Other pages are\nread as ever."))
    _, scans = opened(command=str(engine(tmp_path, once)))
    prepared = scans.prepared(joined(SCAN, other, other), False, None)
    (failed,) = prepared.unread
    assert [bool(text) for text in text_of(prepared.content)] == [page != failed for page in (1, 2, 3)]


def test_no_more_pages_than_allowed_are_read(opened: Opened) -> None:
    need_tesseract()
    reader, scans = opened(max_pages=1)
    prepared = scans.prepared(joined(SCAN, SCAN), False, None)
    assert [*prepared.recognized] == [1]
    assert prepared.unread == {2: "OCR reads 1 pages of a document (documents.ocr.max_pages)"}
    assert not reader.is_past(prepared.unread[2])
    assert opened(max_pages=5)[0].is_past(prepared.unread[2])


def test_a_language_that_is_not_installed_is_named(opened: Opened) -> None:
    need_tesseract()
    _, scans = opened(languages=["eng", "xyz"])
    assert scans.prepared(SCAN, False, None).unread == {
        1: "tesseract lacks a language: install tesseract-ocr-xyz (documents.ocr.languages)"
    }


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) ends the engine with the build")
def test_a_killed_build_leaves_no_engine_behind(tmp_path: Path) -> None:
    command = engine(tmp_path, f"echo $$ > {tmp_path}/engine-id\nexec sleep 300")
    code = (
        "from citelock_formats.ocr.engine import Tesseract\n"
        "from citelock_formats.ocr.child import PagePicture\n"
        "from rag_serving.config.sections import Ocr\n"
        f"Ocr.command = {str(command)!r}\n"
        "Tesseract(Ocr()).words(PagePicture(1, 1, b'0', 200.0), ['eng'])\n"
    )
    build = subprocess.Popen([sys.executable, "-c", code])
    noted = tmp_path / "engine-id"
    try:
        _wait(lambda: noted.exists() and noted.read_text().strip())
    finally:
        build.send_signal(signal.SIGKILL)
        build.wait()
    _wait(lambda: _is_gone(int(noted.read_text())))


@given(st.text(alphabet="5\t\n -.0123456789abcé\r\x00", max_size=200))
def test_any_table_gives_words_inside_of_the_picture(table: str) -> None:
    for row in (table, f"5\t1\t1\t1\t1\t1\t{table}"):
        for word in words_of_table(row, SMALL):
            assert 0 <= word.x0 < word.x1 <= 40
            assert 0 <= word.y0 < word.y1 <= 20
            assert 0 < word.confidence <= 100


def test_words_keep_their_lines_and_what_is_not_sure_is_left_out() -> None:
    head = "5\t1\t1\t1"
    rows = [
        "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext",
        f"{head}\t1\t1\t0\t0\t9\t9\t96.4\tone",
        f"{head}\t1\t2\t10\t0\t90\t90\t12\ttwo\tparts",
        f"{head}\t2\t1\t10\t0\t9\t9\t0\tnothing",
        f"{head}\t2\t1\t10\t10\t9\t9\t50\tthree",
    ]
    words = words_of_table("\n".join(rows), SMALL)
    assert [(word.text, word.line, word.confidence) for word in words] == [
        ("one", 0, 96),
        ("two parts", 0, 12),
        ("three", 1, 50),
    ]


def test_a_program_that_is_none_has_no_version(tmp_path: Path) -> None:
    silent = Tesseract(section_of(Ocr, command=str(engine(tmp_path, "exit 1", answers=False))))
    assert (silent.version, silent.languages) == (None, ())
    assert Tesseract(section_of(Ocr, command="nowhere")).version is None


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def _wait(holds: object) -> None:
    until = time.monotonic() + 20
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.05)
