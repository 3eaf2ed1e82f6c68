"""A rich text is read with its headings, lists, tables and notes, in every code page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.office_truth import content_of

from rag_assets.steps.files.file_text import file_text, kind_text
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.blocks import clean
from rag_serving.text.normalization import OMISSION


def texts(body: str) -> list[str]:
    return [block.text for block in content_of("rtf", f"{{\\rtf1\\ansi {body}}}".encode("latin-1")).blocks]


def escaped(word: str) -> str:
    """A word as Word writes it: units of UTF-16, each with a character for readers that know none."""
    raw = word.encode("utf-16-le")
    units = (int.from_bytes(raw[at : at + 2], "little") for at in range(0, len(raw), 2))
    return "".join(f"\\u{unit - 65536 if unit > 32767 else unit}?" for unit in units)


def test_headings_are_known_by_outline_and_by_style() -> None:
    head = r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 House;}{\s2\sbasedon1 Our;}{\s3 heading 2;}}"
    body = head + r"\pard\s2 One\par\pard\s3 Two\par\pard\outlinelevel2 Three\par\pard Text\par"
    blocks = content_of("rtf", f"{{\\rtf1 {body}}}".encode()).blocks
    assert [(block.level, block.text) for block in blocks] == [(1, "One"), (2, "Two"), (3, "Three"), (0, "Text")]


def test_text_is_decoded_by_the_character_set_of_its_font() -> None:
    fonts = r"{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}{\f2\fcharset128 C;}}"
    assert texts(fonts + r"caf\'e9 {\f1 \'cf\'f0\'e8} {\f2 \'93\'fa} \emdash\~x\par") == ["café При 日 — x"]


def test_merged_cells_of_word_are_repeated() -> None:
    rows = (
        r"\trowd\trhdr\clvmgf\cellx1000\clmgf\cellx2000\clmrg\cellx3000\pard\intbl A\cell B\cell\cell\row"
        r"\trowd\trhdr\clvmrg\cellx1000\cellx2000\cellx3000\pard\intbl\cell C\cell D\cell\row"
        r"\trowd\cellx1000\cellx2000\cellx3000\pard\intbl 1\cell 2\cell 3\cell\row\pard End\par"
    )
    assert texts(rows) == ["| A | B C | B D |\n|---|---|---|", "| 1 | 2 | 3 |", "End"]


def test_what_is_hidden_or_data_is_no_text() -> None:
    body = r"{\*\unknown secret}{\v hidden}{\pict 00ff}{\info{\title t}}shown{\header h}\par"
    content = content_of("rtf", f"{{\\rtf1 {body}}}".encode())
    assert [block.text for block in content.blocks] == ["shown"]
    assert content.ledger["figure", "lost"] == content.ledger["hidden text", "hidden"] == 1


def test_binary_data_is_skipped_by_its_length() -> None:
    assert texts("a{\\pict\\bin5 {{{}}}b\\par") == ["ab"]


@pytest.mark.parametrize("body", [b"", b"text", b"{\\rtf1 " + b"{" * 5000])
def test_what_is_no_rich_text_has_a_reason(body: bytes) -> None:
    with pytest.raises(FileError):
        kind_text("rtf", "", body)


def test_an_empty_rich_text_has_no_blocks() -> None:
    assert file_text("a.txt", b"{\\rtf").body == ""


def test_unbalanced_braces_lose_no_text() -> None:
    assert texts("}}one\\par {two") == ["one", "two"]


WORDS = st.text(min_size=1, max_size=6).map(clean).filter(lambda word: word and OMISSION not in word)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=4))
def test_no_word_is_lost(paragraphs: list[list[str]]) -> None:
    body = "\\par ".join(" ".join(map(escaped, words)) for words in paragraphs)
    assert " ".join(texts(body)) == " ".join(clean(" ".join(words)) for words in paragraphs)


@given(st.binary(max_size=200))
def test_no_bytes_are_an_error(body: bytes) -> None:
    kind_text("rtf", "", b"{\\rtf1 " + body)
