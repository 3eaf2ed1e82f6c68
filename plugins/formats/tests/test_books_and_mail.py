"""Books and e-mails are read part by part, and what is not read says why."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from support.read_files import lines, read, zipped

from rag_assets.steps.files.file_text import FileError
from rag_serving.text.normalization import OMISSION

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
XHTML = '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" \
xmlns:epub="http://www.idpf.org/2007/ops"><head><title/></head><body>{}</body></html>'


def book(chapters: dict[str, str], navigation: str = "", extra: dict[str, str] | None = None) -> bytes:
    """An EPUB 3 of chapters, with the items of its navigation."""
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in chapters)
    spine = "".join(f'<itemref idref="{n}"/>' for n in ["nav", *chapters])
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest>'
        f'<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>{items}</manifest>'
        f'<spine>{spine}</spine><guide><reference type="cover" href="cover.xhtml"/></guide></package>'
    )
    nav = XHTML.format(f'<nav epub:type="toc"><ol>{navigation}</ol></nav>')
    members = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package}
    members |= {"OEBPS/nav.xhtml": nav, **(extra or {})}
    return zipped({**members, **{f"OEBPS/{n}.xhtml": XHTML.format(text) for n, text in chapters.items()}})


def test_a_book_is_read_in_the_order_of_its_spine_under_the_titles_of_its_navigation() -> None:
    chapters = {
        "cover": "<p>The cover</p>",
        "two": '<h1 id="s">Second</h1><p>Caf&eacute;&nbsp;&amp; tea<a epub:type="noteref" href="#n">1</a></p>'
        '<aside epub:type="footnote" id="n"><p>A note.</p></aside>',
        "one": "<p>No heading of its own.</p><script/>",
        "three": "<h1>Deep</h1><h2>Deeper</h2><p>x</p>",
    }
    navigation = (
        '<li><a href="two.xhtml">Second</a></li><li><a href="one.xhtml#top">Part</a>'
        '<ol><li><a href="three.xhtml">Deep</a></li></ol></li>'
    )
    content = read("b.epub", book(chapters, navigation))
    assert lines(content) == [
        "# Second",
        "Café & tea[1]",
        "A note.",
        "# Part",
        "No heading of its own.",
        "## Deep",
        "### Deeper",
        "x",
    ]
    assert content.blocks[0].anchors == ("s",)


def test_a_book_that_an_office_program_wrote_is_read_to_the_last_word() -> None:
    file = Path(__file__).with_name("manual.epub").read_bytes()
    content = read("manual.epub", file)
    said = [word for block in content.blocks for word in re.findall(r"\w+", block.text)]
    with zipfile.ZipFile(io.BytesIO(file)) as book:
        chapters = [name for name in sorted(book.namelist()) if "/section0" in name]
        texts = [BeautifulSoup(book.read(name), "html.parser").get_text(" ") for name in chapters]
    written = re.findall(r"\w+", " ".join(texts))
    assert len(written) > 150
    assert not Counter(written) - Counter(said)
    headings = [(block.level, block.text) for block in content.blocks if block.kind == "heading"]
    assert headings == [(1, "Section 1"), (1, "Mooring"), (1, "Fleet figures")]
    assert content.ledger["figure", "lost"] == 1


def test_the_navigation_of_an_older_book_counts_as_well() -> None:
    ncx = (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>One</text></navLabel>'
        '<content src="a.html"/><navPoint><navLabel><text>Sub</text></navLabel><content src="b.html"/></navPoint>'
        "</navPoint></navMap></ncx>"
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.html" '
        'media-type="application/xhtml+xml"/><item id="b" href="b.html" media-type="application/xhtml+xml"/>'
        '<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
        '<spine toc="t"><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    members = {"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package, "OEBPS/toc.ncx": ncx}
    members |= {"OEBPS/a.html": "<p>not <br> well formed", "OEBPS/b.html": XHTML.format("<p>y</p>")}
    assert lines(read("b.epub", zipped(members))) == ["# One", "not\nwell formed", "## Sub", "y"]


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"META-INF/rights.xml": "<r/>"}, "DRM"),
        ({"META-INF/encryption.xml": '<e><EncryptionMethod Algorithm="http://www.w3.org/aes128-cbc"/></e>'}, "DRM"),
        ({"META-INF/container.xml": "<container>"}, "broken"),
    ],
)
def test_a_book_that_cannot_be_read_says_why(extra: dict[str, str], why: str) -> None:
    with pytest.raises(FileError, match=why):
        read("b.epub", book({"one": "<p>x</p>"}, extra=extra))


def test_encrypted_fonts_keep_no_book_from_being_read() -> None:
    fonts = '<e><EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/></e>'
    assert lines(read("b.epub", book({"one": "<p>x</p>"}, extra={"META-INF/encryption.xml": fonts}))) == ["x"]


def message(subject: str = "Berth plan", text: str = "Hello Bob,\n\nsee the plan.\n") -> EmailMessage:
    made = EmailMessage(policy=SMTP)
    made["Received"] = "from a by b"
    made["From"] = "Jörg <joerg@example.org>"
    made["To"] = "bob@example.org"
    made["Date"] = "Mon, 23 Nov 2026 10:00:00 +0000"
    made["Subject"] = subject
    made.set_content(text)
    return made


def test_an_e_mail_is_its_head_its_text_and_what_hangs_on_it() -> None:
    mail = message()
    mail.add_attachment(b"Port,Berths\nGdansk,12\n", maintype="text", subtype="csv", filename="Häfen.csv")
    mail.add_attachment(b"GIF89a\x00", maintype="image", subtype="gif", filename="logo.gif")
    content = read("a.eml", mail.as_bytes())
    assert lines(content) == [
        "# Berth plan",
        "| From | To | Date | Subject |\n|---|---|---|---|",
        "| Jörg <joerg@example.org> | bob@example.org | Mon, 23 Nov 2026 10:00:00 +0000 | Berth plan |",
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


def test_of_two_forms_of_a_text_the_richer_one_is_read_once() -> None:
    mail = message()
    mail.add_alternative("<table><tr><th>a</th></tr><tr><td>1</td></tr></table><p>Rich</p>", subtype="html")
    found = lines(read("a.eml", mail.as_bytes()))
    assert found[-1] == "Rich"
    assert "Hello Bob," not in found


def test_messages_within_a_message_are_read_and_what_a_reply_quotes_is_not() -> None:
    inner = message("First", "The crane stands at berth 7.\n")
    outer = message("Re: First", "I agree.\n\n> Hello all\n>\n> Hello all\n")
    outer.add_attachment(inner)
    found = lines(read("a.eml", outer.as_bytes()))
    assert "Hello all" not in found
    assert found[found.index("## First") + 3 :] == ["The crane stands at berth 7."]


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        (b"Content-Type: text/plain; charset=windows-1251", "Настройка".encode("windows-1251"), "Настройка"),
        (b"Content-Type: text/plain; charset=iso-2022-jp", "設定".encode("iso-2022-jp"), "設定"),
        (b"Content-Type: text/plain; charset=x-none", "café".encode("cp1252"), "café"),
        (b"Content-Type: text/plain; format=flowed", b"one \ntwo", "one two"),
        (b"Content-Type: text/plain\nContent-Transfer-Encoding: base64", b"d29y\nZHM=", "words"),
        (b"Content-Type: text/plain\nContent-Transfer-Encoding: base64", b"!!!words", ""),
        (b"Content-Type: text/html; charset=utf-8", "<p>Überblick".encode(), "Überblick"),
    ],
)
def test_a_text_is_read_in_the_encoding_that_its_part_names(head: bytes, body: bytes, words: str) -> None:
    found = lines(read("a.eml", b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n" + head + b"\n\n" + body))
    assert found[0] == "# Grüße"
    assert words in found[-1]
