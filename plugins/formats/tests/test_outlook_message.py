"""Messages of Outlook are read as the e-mails that they are, whatever was done to their files."""

from __future__ import annotations

import struct
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.compound_files import (
    CUTOFF,
    Tree,
    attached_file,
    attached_message,
    compound_file,
    compressed_rtf,
    message,
    outlook,
)
from support.examples import examples

from citelock_formats.outlook_message import DEEPEST_MESSAGE, decompressed, encoding
from rag_assets.steps.files.file_text import FileError, file_text
from rag_assets.steps.formats.blocks import Content, blocks_content
from rag_serving.documents.kinds import OLE_HEAD, kind_in, kind_of
from rag_serving.text.normalization import OMISSION

# The example of MS-OXRTFCP 4.1.
PUBLISHED = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
)


def read(content: bytes, name: str = "a.msg") -> Content:
    return blocks_content(file_text(name, content).body)


def lines(content: Content) -> list[str]:
    return [f"{'#' * block.level} {block.text}" if block.level else block.text for block in content.blocks]


def test_a_message_is_its_head_its_text_and_what_hangs_on_it() -> None:
    made = outlook(
        attached=[
            attached_file("Häfen.csv", b"Port,Berths\nGdansk,12\n", "text/csv"),
            attached_file("logo.gif", b"GIF89a\x00", "image/gif"),
            attached_file("signature.png", b"\x89PNG\r\n\x1a\n", "image/png", "<one@two>"),
        ]
    )
    content = read(made)
    assert lines(content) == [
        "# Berth plan",
        "| From | To | Date | Subject |\n|---|---|---|---|",
        "| Jörg <joerg@example.org> | Bob <bob@example.org> | Mon, 23 Nov 2026 10:00:00 +0000 | Berth plan |",
        "Hello Bob,",
        "see the plan.",
        f"Attachments (2): Häfen.csv, logo.gif{OMISSION}",
        "## Häfen.csv",
        "| Port | Berths |\n|---|---|",
        "| Gdansk | 12 |",
        "logo.gif is not read: pictures of this type, sound and film are not read; save a picture of a page as PNG"
        f"{OMISSION}",
    ]
    assert content.ledger["attachment", "lost"] == 1
    assert content.ledger["picture", "lost"] == 1


def test_of_several_bodies_the_richest_that_has_words_is_read_once() -> None:
    rtf = compressed_rtf(rb"{\rtf1\ansi\ansicpg1252 Of the \b rich\b0  form, caf\'e9.\par}")
    html = b'<html><head><meta charset="utf-8"></head><body><p>Of the web</p></body></html>'
    assert lines(read(outlook(html=html, rtf=rtf)))[-1] == "Of the web"
    assert lines(read(outlook(html=b"  ", rtf=rtf)))[-1] == "Of the rich form, café."
    assert lines(read(outlook(rtf=rtf[:-4])))[-1] == "see the plan."  # broken: its checksum says so
    assert lines(read(outlook(rtf=compressed_rtf(rb"{\rtf1\ansi\fromtext x}"))))[-1] == "see the plan."
    assert len(lines(read(outlook(body=None)))) == 3


def test_texts_are_read_in_the_code_page_that_the_message_names() -> None:
    html = "<p>Настройка причала</p>".encode("cp1251")
    found = lines(read(outlook("Причал", None, html=html, code_page=1251)))
    assert found[0] == "# Причал"
    assert found[-1] == "Настройка причала"


def test_a_large_body_is_read_whole() -> None:
    text = "\n\n".join(f"Berth {number} is free." for number in range(4 * CUTOFF // 10))
    assert lines(read(outlook(body=text)))[-1] == text.rpartition("\n")[2]


def test_messages_within_a_message_are_read() -> None:
    inner = message("First", "The crane stands at berth 7.\n", is_inside=True)
    by_value = attached_file("second.msg", outlook("Second", "Tide at noon.\n"))
    found = lines(read(outlook(body="> The crane stands at berth 7.\n", attached=[attached_message(inner), by_value])))
    assert "## second.msg" in found
    assert "### Second" in found
    assert found[-1] == "The crane stands at berth 7."
    assert found.index("## First") > found.index("### Second")


def test_messages_as_deep_as_nobody_nests_them_end_where_the_limit_is() -> None:
    inner: Tree = message("Deepest", "Bottom.", is_inside=True)
    for number in range(DEEPEST_MESSAGE + 5):
        inner = message(f"Level {number}", f"Text {number}.", attached=[attached_message(inner)], is_inside=number < 24)
    content = read(compound_file(inner))
    assert "Text 24." in lines(content)
    assert "Text 5." in lines(content)
    assert "Bottom." not in lines(content)
    assert content.ledger["attachment", "lost"] == 1
    wrapped = outlook("Innermost", "Bottom.")
    for number in range(10):
        wrapped = outlook(f"Level {number}", "", attached=[attached_file("in.msg", wrapped)])
    content = read(wrapped)
    assert f"in.msg is not read: it lies more than 3 files deep{OMISSION}" in lines(content)
    assert "Bottom." not in lines(content)


def test_of_a_signed_message_what_was_signed_is_read() -> None:
    signed = (
        b'Content-Type: multipart/signed; protocol="application/pkcs7-signature"; boundary="b"\r\n\r\n--b\r\n'
        b"Content-Type: text/plain\r\n\r\nThe crane stands at berth 7.\r\n--b\r\n"
        b'Content-Type: application/pkcs7-signature; name="smime.p7s"\r\n\r\nMIIx\r\n--b--\r\n'
    )
    found = lines(read(outlook(body=None, attached=[attached_file("smime.p7m", signed, "multipart/signed")])))
    assert found[3:5] == ["The crane stands at berth 7.", f"Attachments (1): smime.p7s{OMISSION}"]


def test_a_message_is_known_by_its_content() -> None:
    made = outlook(attached=[attached_file("old.doc", compound_file({"WordDocument": b"x" * 5000}))])
    for name in ("noextension", "a.txt", "a.doc", "a.msg"):
        assert kind_in(name, made) == "outlook"
    assert kind_of("a.msg", made[:4096]) == "outlook"
    assert "save it as .docx" in lines(read(made))[-1]


@pytest.mark.parametrize("cut", [0, 100, 512, 600, 2000, 3072])
def test_a_truncated_file_is_refused_with_a_reason(cut: int) -> None:
    with pytest.raises(FileError, match=r"broken|holds no message"):
        read(OLE_HEAD + outlook()[len(OLE_HEAD) : cut])


def test_what_claims_to_be_larger_than_its_file_is_refused_at_once() -> None:
    made = bytearray(outlook(body="x" * 5000))
    at = made.find("__substg1.0_1000001F".encode("utf-16-le"))
    struct.pack_into("<Q", made, at + 120, 100_000_000)
    with pytest.raises(FileError, match="claim to hold more"):
        read(bytes(made))


def test_a_table_that_claims_to_be_larger_than_its_file_is_refused_at_once() -> None:
    """It could be a circle: four thousand million sectors of a table in a file of seven."""
    made = bytearray(outlook())
    struct.pack_into("<I", made, 44, 2**32 - 1)
    struct.pack_into("<II", made, 68, 0, (2**32 - 110 + 126) // 127)
    with pytest.raises(FileError, match="its table"):
        read(bytes(made))


def test_streams_that_share_their_sectors_are_refused() -> None:
    """A thousand attached files that are one: read one by one, they would be a thousand times the file."""
    made = bytearray(outlook(attached=[attached_file(f"{number}.txt", b"x" * 9000) for number in range(3)]))
    name = "__substg1.0_37010102".encode("utf-16-le")
    first = made.find(name)
    at = first
    while (at := made.find(name, at + 1)) > 0:
        made[at + 116 : at + 128] = made[first + 116 : first + 120] + struct.pack("<Q", 20_000)
    with pytest.raises(FileError, match="broken"):
        read(bytes(made))


def test_more_attached_files_than_anybody_sends_are_refused_soon() -> None:
    made = outlook(attached=[attached_file(f"{number}.txt", b"word") for number in range(1100)])
    began = time.process_time()
    with pytest.raises(FileError, match="more than 1,000 parts"):
        read(made)
    assert time.process_time() - began < 5


def test_sectors_in_a_circle_end() -> None:
    made = bytearray(outlook(body="x" * 20_000))
    fat = (len(made) // 512 - 1) * 512
    for number in range(128):
        (after,) = struct.unpack_from("<I", made, fat + 4 * number)
        if after < 0xFFFFFFF0:
            struct.pack_into("<I", made, fat + 4 * number, max(0, number - 1))
    began = time.monotonic()
    with suppress(FileError):
        read(bytes(made))
    assert time.monotonic() - began < 10


def test_compressed_text_is_read_as_its_specification_shows() -> None:
    assert decompressed(PUBLISHED) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    assert decompressed(b"") == b""
    assert decompressed(struct.pack("<IIII", 12 + 5, 5, 0x414C454D, 0) + b"{\\rtf") == b"{\\rtf"
    for broken, why in ((PUBLISHED[:9], "cut"), (PUBLISHED[:-3], "checksum"), (b"x" * 40, "unknown form")):
        with pytest.raises(FileError, match=why):
            decompressed(broken)


@given(st.binary(max_size=3000))
def test_compressed_text_is_what_was_compressed(content: bytes) -> None:
    assert decompressed(compressed_rtf(content)).startswith(content)


@pytest.mark.parametrize(
    ("page", "name"), [(1252, "cp1252"), (65001, "utf-8"), (28592, "iso8859-2"), (932, "cp932"), (9, "cp1252")]
)
def test_code_pages_have_the_names_of_their_encodings(page: int, name: str) -> None:
    assert encoding(page) == name


SOUND = outlook(
    rtf=compressed_rtf(rb"{\rtf1 words}"),
    attached=[attached_file("a.txt", b"words"), attached_message(message("a", "b"))],
)


@settings(max_examples=examples(5), deadline=None)
@given(st.data())
def test_a_damaged_message_is_read_or_refused(data: st.DataObject) -> None:
    made = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 12))):
        made[data.draw(st.integers(len(OLE_HEAD), len(made) - 1))] = data.draw(
            st.sampled_from((0, 1, 0x7F, 0xFE, 0xFF))
        )
    with suppress(FileError):
        file_text("a.msg", bytes(made))
