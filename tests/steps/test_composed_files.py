"""Archives are read member by member, and what is not read says why."""

from __future__ import annotations

import pytest
from support.read_files import lines, read, zipped

from rag_assets.steps.files.file_text import FileError, file_text
from rag_assets.steps.formats.blocks import Budget
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.text.normalization import OMISSION


def test_an_archive_that_is_uploaded_is_a_section_for_each_member() -> None:
    inner = zipped({"deep.md": "# Deep\n\nwords"})
    content = read(
        "a.zip",
        zipped({"b.md": "# Title\n\nText", "a/inner.zip": inner, "c.exe": b"MZ\x00", ".hidden": "x", "e.txt": ""}),
    )
    assert lines(content) == [
        "# a/inner.zip",
        "## deep.md",
        "### Deep",
        "words",
        "# b.md",
        "## Title",
        "Text",
        "# Members that are not read",
        f"c.exe: it is a program, not a document{OMISSION}",
        f"e.txt: it is empty{OMISSION}",
    ]
    assert content.ledger["archive member", "lost"] == 2


def test_archives_within_archives_end_at_a_depth() -> None:
    content = zipped({"a.md": "words"})
    for _ in range(5):
        content = zipped({"b.zip": content, "c.md": "text"})
    assert any("it lies more than 3 files deep" in line for line in lines(read("a.zip", content)))


def test_an_archive_of_nothing_that_is_read_has_no_text() -> None:
    with pytest.raises(FileError, match=r"none of its members is read: a\.gif: pictures"):
        read("a.zip", zipped({"a.gif": b"GIF89a\x00"}))
    with pytest.raises(FileError, match="empty"):
        read("a.zip", zipped({}))


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(FileError, match="200 times"):
        read("a.zip", zipped({"a.txt": b"0" * 20_000_000}))


def test_a_member_that_is_encrypted_is_named_and_the_others_are_read() -> None:
    content = bytearray(zipped({"a.md": "secret", "b.md": "words"}))
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    assert lines(read("a.zip", bytes(content)))[-1] == (
        f"a.md: it has a password: remove it, and add the file again{OMISSION}"
    )


def test_a_long_archive_is_cut_at_the_budget() -> None:
    found = file_text("a.zip", zipped({f"{n}.txt": "word " * 100 for n in range(9)}), Budget(text_chars=1000))
    assert (
        DirectReader().content(found.body, found.body_format).cut
        == "cut at 1,000 characters of text (documents.max_text_chars)"
    )
