"""Files of every kind, and what disks, networks, careless programs and attackers make of them."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from sources.pdf_writer import pdf
from support.compound_files import attached_file, attached_message, message, outlook

SAMPLES = Path(__file__).parents[1] / "office" / "samples"
EMAIL = (
    b"Received: from a\r\nFrom: =?utf-8?q?J=C3=B6rg?= <j@example.org>\r\nTo: bob@example.org\r\nSubject: Berths\r\n"
    b'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="xx"\r\n\r\n--xx\r\nContent-Type: text/plain; '
    b"charset=utf-8; format=flowed\r\n\r\nHello \r\nBob\r\n--xx\r\nContent-Type: multipart/alternative; boundary=yy\r\n"
    b"\r\n--yy\r\nContent-Type: text/html\r\n\r\n<p>Rich <b>text</b></p>\r\n--yy--\r\n--xx\r\nContent-Type: text/csv; "
    b'name="a.csv"\r\nContent-Disposition: attachment; filename="a.csv"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    b"YSxiCjEsMgo=\r\n--xx\r\nContent-Type: message/rfc822\r\n\r\nSubject: Inner\r\n\r\nInner text\r\n--xx--\r\n"
)
CHAPTER = '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1 id="a">One</h1><p>Text &amp; more</p></body></html>'
BOOK = {
    "mimetype": b"application/epub+zip",
    "META-INF/container.xml": b'<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>',
    "b.opf": b'<package><manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/><item id="n" '
    b'href="n.xhtml" properties="nav" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="c"/>'
    b"</spine></package>",
    "c.xhtml": CHAPTER.encode(),
    "n.xhtml": b'<html><body><nav><ol><li><a href="c.xhtml">One</a></li></ol></nav></body></html>',
}
ENTITIES = (
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">'
    b'<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e SYSTEM "file:///etc/passwd">]>'
)
ENDINGS = tuple("txt md html csv pdf docx pptx xlsx odt ods odp rtf epub eml msg rst zip json bin".split())  # noqa: SIM905


def seeds() -> dict[str, bytes]:
    """Return a sound file of each kind, by name."""
    found = {
        "a.md": b"# Title\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n",
        "a.html": b"<html><head><meta charset=utf-8></head><body><h1>A</h1><table><tr><td>1</td></tr></table></body>",
        "a.csv": b"a;b;c\n1;2;3\n",
        "a.rst": b"Title\n=====\n\n.. note:: hello\n\n* one\n* two\n",
        "a.txt": "plain text, größer\n\nmore".encode(),
        "a.rtf": rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 A;}}\b Head\b0\par One \'e9 \u8364?\par\trowd\cell 1\row}",
        "a.pdf": pdf("Berth planning", "Second page"),
        "a.eml": EMAIL,
        "a.msg": outlook(attached=[attached_file("a.csv", b"a,b\n1,2"), attached_message(message("Inner", "Text"))]),
        "a.epub": zipped(BOOK),
        "a.zip": zipped({"a.md": b"# A", "b/c.csv": b"x,y\n1,2", "d.eml": EMAIL}),
    }
    samples = sorted(SAMPLES.iterdir()) if SAMPLES.is_dir() else []
    return found | {path.name: path.read_bytes() for path in samples if path.stat().st_size < 1_000_000}


def mutated(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files, the same for one seed."""
    rng, originals = random.Random(seed), seeds()
    names = sorted(originals)
    for number in range(count):
        name = names[number % len(names)]
        content = originals[name]
        mutations = PACKED if content.startswith(b"PK") and rng.random() < 0.7 else BARE
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            content = rng.choice(mutations)(content, rng)
        stem, _, ending = name.rpartition(".")
        if rng.random() < 0.15:
            ending = rng.choice(ENDINGS)
        yield f"{number:05}-{stem}.{ending}", content


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            file.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def _members(content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return {name: file.read(name) for name in file.namelist()} or {"a": content}
    except Exception:  # an earlier mutation broke it
        return {"a": content}


def _truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 4, 40))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _without_a_part(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[at + rng.choice((1, 50, 500)) :]


def _with_noise(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.randbytes(rng.choice((1, 100))) + content[at:]


def _with_words(content: bytes, rng: random.Random) -> bytes:
    """A file with what means something to somebody, where it does not belong."""
    words = (
        b"\0",
        b"<",
        b"]]>",
        b"{\\rtf",
        b"%PDF-",
        b"PK\x05\x06",
        b"\xff\xfe",
        b"\\u-9999999",
        b"&e;",
        b"--xx\r\n",
        b"\r",
    )
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(words) * rng.choice((1, 1, 3000)) + content[at:]


def _repeated(content: bytes, rng: random.Random) -> bytes:
    if len(content) > 200_000:
        return content
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice((10, 100, 1000))]
    return content[:start] + part * rng.choice((2, 300, 3000)) + content[start:]


def _joined(content: bytes, rng: random.Random) -> bytes:
    return content + rng.choice([*seeds().values()])


def _nested(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 2, 5, 30))):
        content = zipped({rng.choice(("a.zip", "a.docx", "word/document.xml", "a.md")): content})
    return content


def _attached(content: bytes, rng: random.Random) -> bytes:
    """A file in an e-mail in an e-mail in an e-mail …"""
    for _ in range(rng.choice((1, 3, 60))):
        content = b"MIME-Version: 1.0\r\nSubject: x\r\nContent-Type: message/rfc822\r\n\r\n" + content
    return content


def _changed_member(content: bytes, rng: random.Random) -> bytes:
    """A sound archive whose member is broken: further than to its directory most mutations never come."""
    members = _members(content)
    name = rng.choice(sorted(members))
    members[name] = rng.choice((_truncated, _flipped, _without_a_part, _with_words, _repeated))(members[name], rng)
    return zipped(members)


def _deep_member(content: bytes, rng: random.Random) -> bytes:
    members = _members(content)
    name, depth = rng.choice(sorted(members)), rng.choice((300, 30_000))
    tag = rng.choice((b"p", b"w:p", b"table:table-row", b"div"))
    at = members[name].find(b">", rng.randrange(len(members[name]) + 1)) + 1
    deep = b"<" + tag + b">"
    members[name] = members[name][:at] + deep * depth + deep.replace(b"<", b"</") * depth + members[name][at:]
    return zipped(members)


def _with_entities(content: bytes, rng: random.Random) -> bytes:
    members = _members(content)
    name = rng.choice(sorted(members))
    start = members[name].find(b"?>") + 2 if members[name].startswith(b"<?xml") else 0
    end = members[name].rfind(b"</")
    changed = members[name][start:end] + b"&d;&e;" + members[name][end:] if end > start else members[name]
    members[name] = members[name][:start] + ENTITIES + changed
    return zipped(members)


def _bomb(content: bytes, rng: random.Random) -> bytes:
    members = _members(content)
    name = rng.choice(sorted(members))
    members[name] = rng.choice((members[name][:200], b"<x>", b"")) + rng.choice((b" ", b"0", b"<a/>")) * 5_000_000
    return zipped(members)


def _swapped(content: bytes, rng: random.Random) -> bytes:
    """A container of one kind with the members of another."""
    others = [_members(one) for one in seeds().values() if one.startswith(b"PK")]
    return zipped(_members(content) | rng.choice(others))


def _missing(content: bytes, rng: random.Random) -> bytes:
    members = _members(content)
    members.pop(rng.choice(sorted(members)))
    return zipped(members)


def _doubled(content: bytes, rng: random.Random) -> bytes:
    """An archive with two members of one name."""
    members = _members(content)
    name = rng.choice(sorted(members))
    marked = name[:-1] + ("~" if name[-1:] != "~" else "-")
    doubled = zipped({**members, marked: b"<second/>"})
    return doubled.replace(marked.encode(), name.encode())


def _lying(content: bytes, rng: random.Random) -> bytes:
    """An archive whose directory lies of checksums, sizes, offsets, methods or flags."""
    changed, at, entries = bytearray(content), -1, list[int]()
    while (at := content.find(b"PK\x01\x02", at + 1)) >= 0:
        entries.append(at)
    entries = [at for at in entries if at + 46 <= len(content)]
    if entries:
        entry = rng.choice(entries)
        offset, size = rng.choice(((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4)))
        value = rng.choice((0, 1, 99, 2**15, 2**31 - 1, 2**32 - 1)) % 2 ** (8 * size)
        struct.pack_into("<H" if size == 2 else "<I", changed, entry + offset, value)
    return bytes(changed)


Mutation = Callable[[bytes, random.Random], bytes]
BARE: tuple[Mutation, ...] = (
    _truncated, _flipped, _flipped, _without_a_part, _with_noise, _with_words, _repeated, _joined, _nested, _attached
)  # fmt: skip
PACKED: tuple[Mutation, ...] = (
    _truncated, _flipped, _nested, _changed_member, _changed_member, _changed_member, _deep_member, _with_entities,
    _bomb, _swapped, _missing, _doubled, _lying, _lying
)  # fmt: skip
