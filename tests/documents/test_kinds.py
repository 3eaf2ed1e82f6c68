"""What a file is shows in its bytes; a name decides among kinds of text."""

from __future__ import annotations

import io
import struct
import zipfile
from contextlib import suppress
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.documents.kinds import (
    ACCEPTS,
    OLE_HEAD,
    BrokenFileError,
    KindError,
    kind_by_name,
    kind_in,
    kind_of,
    media_type,
)

OFFICE = "[Content_Types].xml"
EMAIL = b"Received: from a\r\nFrom: ann@example.org\r\nTo: bob@example.org\r\nSubject: x\r\n\r\nHello\r\n"


def zipped(*names: str, mimetype: str = "") -> bytes:
    """A zip of members of these names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        if mimetype:
            file.writestr(zipfile.ZipInfo("mimetype"), mimetype)
        for name in names:
            file.writestr(name, "x" * 40)
    return out.getvalue()


def ole(*names: str) -> bytes:
    """The head of an OLE file and a directory of these entries, at the beginning of the file."""
    entries = (
        name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<H62x", 2 * len(name) + 2)
        for name in ("Root Entry", *names)
    )
    return OLE_HEAD.ljust(30, b"\0") + struct.pack("<H", 9).ljust(482, b"\0") + b"".join(entries)


OPEN = "application/vnd.oasis.opendocument"
FILES = {
    "docx": zipped(OFFICE, "word/document.xml"),
    "pptx": zipped(OFFICE, "_rels/.rels", "ppt/presentation.xml"),
    "xlsx": zipped("xl/workbook.xml", OFFICE),
    "odt": zipped("content.xml", mimetype=f"{OPEN}.text"),
    "ods": zipped("content.xml", mimetype=f"{OPEN}.spreadsheet-template"),
    "odp": zipped("content.xml", mimetype=f"{OPEN}.presentation"),
    "epub": zipped("META-INF/container.xml", mimetype="application/epub+zip"),
    "archive": zipped("a.md", "word/b.md"),
    "rtf": rb"{\rtf1\ansi Hello}",
    "email": EMAIL,
    "outlook": ole("__nameid_version1.0", "__properties_version1.0"),
    "pdf": b"%PDF-1.7\n",
    "image": b"\x89PNG\r\n\x1a\n\x00\x00",
    "html": b"<!DOCTYPE html><html><body>x",
    "plain": b"words",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_what_its_content_shows_whatever_its_name(kind: str) -> None:
    for name in ("noextension", "a.txt", "wrong.zip" if kind not in ("rtf", "email", "html", "plain") else "notes"):
        assert kind_in(name, FILES[kind]) == kind


@pytest.mark.parametrize("kind", FILES)
def test_an_upload_with_its_own_ending_is_taken_by_its_head(kind: str) -> None:
    ending = next(ending for ending in ACCEPTS if kind_by_name(f"a{ending}") == kind)
    assert kind_of(f"a{ending}", FILES[kind][:4096]) == kind


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.docm", zipped(OFFICE, "word/document.xml"), "save it as .docx"),
        ("a.docx", zipped(OFFICE, "word/document.xml", "word/vbaProject.bin"), "it holds macros; save it as .docx"),
        ("a.xlsb", zipped(OFFICE, "xl/workbook.bin"), "save it as .xlsx"),
        ("a.xlsx", zipped(OFFICE, "xl/workbook.bin"), "binary Excel workbook"),
        ("a.doc", ole("WordDocument"), "save it as .docx"),
        ("a.txt", ole("PowerPoint Document"), "save it as .pptx"),
        ("a.xls", ole("Workbook"), "save it as .xlsx"),
        ("a.docx", ole("EncryptionInfo", "EncryptedPackage"), "it has a password: remove it"),
        ("a.docx", b"words", "not a Word document"),
        ("a.pdf", b"words", "not a PDF"),
        ("a.png", b"words", "not a picture"),
        ("a.docx", FILES["docx"][:60], "its end is missing"),
        ("a.odg", zipped(mimetype=f"{OPEN}.graphics"), "other than texts"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c\x00\x00", "make it a zip"),
        ("a.tar", b"a.md".ljust(257, b"\0") + b"ustar\0", "make it a zip"),
        ("a.jar", zipped("META-INF/MANIFEST.MF"), "a program"),
        ("a.exe", b"MZ\x90\x00", "a program"),
        ("a.gif", b"GIF89a\x00", "save a picture of a page as PNG"),
        ("a.pages", zipped("Index/Document.iwa"), "save it as PDF"),
        ("a.bin", b"\x00\x01", "of this type are not read"),
        ("a.md", b"\x00\x01", "it is not text"),
    ],
)
def test_what_is_not_read_says_why(name: str, content: bytes, why: str) -> None:
    with pytest.raises(KindError, match=why):
        kind_in(name, content)


def test_what_could_be_read_but_for_its_state_is_broken() -> None:
    with pytest.raises(BrokenFileError):
        kind_in("a.docx", FILES["docx"][:60])


def test_files_that_programs_call_word_and_are_not_are_read_as_what_they_are() -> None:
    assert kind_in("export.doc", FILES["rtf"]) == "rtf"
    assert kind_in("export.xls", FILES["html"]) == "html"
    assert kind_in("report.txt", EMAIL) == "email"
    assert kind_in("about.md", b"A PDF begins with %PDF-1.7") == "markdown"
    assert kind_in("log.txt", b"From: here\nTo: there\n\nno e-mail\nMessage-ID: 1") == "plain"


def test_kinds_go_by_name_whatever_its_case() -> None:
    kinds = [kind_by_name(name) for name in ("a.TXT", "b.Md", "c.yaml", "Dockerfile", "d.pdf", "e.docx", "f.tar.gz")]
    assert kinds == ["plain", "markdown", "code", "code", "pdf", "docx", None]


HEADS = [content[:cut] for content in FILES.values() for cut in (4, 30, 200)]


@given(
    st.sampled_from([*HEADS, b""]),
    st.binary(max_size=200),
    st.sampled_from([*(f"a{ending}" for ending in ACCEPTS[::3]), "a", "a.doc", "a.bin"]),
)
def test_a_kind_is_told_or_refused(head: bytes, rest: bytes, name: str) -> None:
    for look in (kind_of, kind_in):
        with suppress(KindError):
            assert PurePath(media_type(look(name, head + rest))).parent.name
