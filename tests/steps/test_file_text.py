"""The text of a file is what a person would read in it; what has none says why."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources.pdf_writer import pdf

from rag_assets.steps.files.file_text import FileError, file_text
from rag_assets.steps.formats.blocks import blocks_content, without_note
from rag_assets.steps.formats.html import html_content
from rag_assets.steps.formats.storage_elements import Content
from rag_assets.steps.sections.reading import markdown_content, plain_content

READERS = {"blocks": blocks_content, "text": plain_content, "markdown": markdown_content, "html": html_content}


def content(name: str, file: bytes) -> Content:
    found = file_text(name, file)
    return READERS[found.body_format](without_note(found.body)[0])


def texts(name: str, file: bytes) -> list[str]:
    return [block.text for block in content(name, file).blocks]


def test_source_code_stays_to_the_letter() -> None:
    code = "def f(a):\n    return a[b[0]]  # ``` < & \n"
    (block,) = content("tool.py", code.encode()).blocks
    assert (block.kind, block.body) == ("code", code)
    assert block.text.startswith("````python\n")


def test_a_table_is_read_by_its_own_delimiter_with_its_head() -> None:
    file = b'Port;Berths;Note\r\nGdansk;12;"two\nlines"\r\nBusan;40\r\n'
    assert texts("ports.csv", file) == [
        "| Port | Berths | Note |\n|---|---|---|",
        "| Gdansk | 12 | two lines |",
        "| Busan | 40 | |",
    ]


def test_pipes_in_cells_do_not_make_columns() -> None:
    assert texts("a.csv", b"x,y\n1,a|b\n")[1] == "| 1 | a\\|b |"


def test_html_gives_its_words_and_none_of_its_scripts() -> None:
    file = (
        b"<html><head><title>t</title><style>p{}</style></head><body><h2>Head<p>One<br>two<script>x()</script></body>"
    )
    assert texts("page.HTML", file) == ["Head", "One\ntwo"]


def test_each_page_of_a_pdf_is_read() -> None:
    found = texts("manual.pdf", pdf("Berth planning", "", "Second chapter"))
    assert found == ["Page 1", "Berth planning", "Page 3", "Second chapter"]


@pytest.mark.parametrize(
    ("name", "file", "why"),
    [
        ("a.gif", b"GIF89a\x00", "save a picture of a page as PNG"),
        ("a.xyz", b"x", "of this type are not read"),
        ("a.txt", b"PK\x03\x04\x00\x00", "its end is missing"),
        ("a.txt", b"\x00\x01", "not text"),
        ("a.pdf", b"%PDF-1.4 nothing", "not a readable PDF"),
        ("a.pdf", pdf("", ""), "no text layer"),
    ],
)
def test_what_has_no_text_says_why(name: str, file: bytes, why: str) -> None:
    with pytest.raises(FileError, match=why):
        file_text(name, file)


@pytest.mark.parametrize(
    "file", ["Größe".encode(), "Größe".encode("utf-8-sig"), "Größe".encode("utf-16"), "Größe".encode("cp1252")]
)
def test_text_is_read_in_the_encoding_it_has(file: bytes) -> None:
    assert texts("a.txt", file) == ["Größe"]


def test_a_form_feed_in_a_text_file_is_only_an_empty_line() -> None:
    assert texts("rfc.txt", b"one\ftwo") == ["one", "two"]


@given(st.sampled_from(["a.txt", "a.md", "a.html", "a.csv", "a.json", "a.pdf"]), st.binary(max_size=400))
def test_any_bytes_give_text_or_a_reason(name: str, file: bytes) -> None:
    with contextlib.suppress(FileError):
        content(name, file)


@pytest.mark.parametrize(
    ("declared", "written"),
    [("windows-1251", "windows-1251"), ("Shift_JIS", "shift_jis"), ("utf-16", "utf-8"), ("x-unknown", "utf-8")],
)
def test_an_html_page_is_read_in_the_encoding_that_it_names_unless_it_is_utf_8(declared: str, written: str) -> None:
    words = {"windows-1251": "Настройка", "shift_jis": "設定"}.get(written, "Überblick")
    page = f'<html><head><meta charset="{declared}"></head><body><p>{words}</p></body></html>'
    assert words in file_text("page.html", page.encode(written)).body


@pytest.mark.parametrize("declared", ["x-unknown", "hex", "idna", "undefined", ""])
def test_an_encoding_that_nobody_knows_is_read_as_windows_1252(declared: str) -> None:
    page = f'<meta charset="{declared}"><p>caf\u00e9</p>'.encode("latin-1")
    assert "café" in file_text("page.html", page).body
