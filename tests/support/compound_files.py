"""A writer of compound files (MS-CFB, version 3) and of Outlook's messages in them (MS-OXMSG)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zlib import crc32

SECTOR, SMALL, CUTOFF = 512, 64, 4096
FREE, END, FAT_SECTOR = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
STORAGE, STREAM, ROOT = 1, 2, 5

Tree = Mapping[str, "bytes | Tree"]
"""Streams and storages by name."""


@dataclass
class _Entry:
    name: str
    kind: int
    content: bytes = b""
    child: int = FREE
    left: int = FREE
    right: int = FREE
    start: int = 0
    size: int = 0


@dataclass
class _Chains:
    """Sectors of one size, and the table that chains them."""

    size: int
    sectors: list[bytes] = field(default_factory=list)
    table: list[int] = field(default_factory=list)

    def add(self, content: bytes) -> int:
        """Append a stream; return its first sector."""
        if not content:
            return END
        first = len(self.sectors)
        parts = [content[at : at + self.size].ljust(self.size, b"\0") for at in range(0, len(content), self.size)]
        self.sectors += parts
        self.table += [*range(first + 1, first + len(parts)), END]
        return first


def compound_file(tree: Tree) -> bytes:
    """Return the file of a tree; one of at most 6 MB, whose table needs no second level."""
    entries = [_Entry("Root Entry", ROOT)]
    entries[0].child = _placed(tree, entries)
    large, small = _Chains(SECTOR), _Chains(SMALL)
    for entry in entries:
        if entry.kind == STREAM:
            entry.size = len(entry.content)
            entry.start = (small if entry.size < CUTOFF else large).add(entry.content)
    packed = b"".join(small.sectors)
    entries[0].start, entries[0].size = large.add(packed), len(packed)
    small_table = large.add(_table(small.table)) if small.table else END
    directory = large.add(b"".join(_entry(entry) for entry in entries))
    tables = 1
    while tables * 128 < len(large.sectors) + tables:
        tables += 1
    first = len(large.sectors)
    fat = _table(large.table + [FAT_SECTOR] * tables)
    places = [*range(first, first + tables)]
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6, 0, tables, directory, 0, CUTOFF,
        small_table, -(-len(small.table) // 128), END, 0,
    )  # fmt: skip
    head += struct.pack("<109I", *(places + [FREE] * (109 - tables)))
    return head + b"".join(large.sectors) + fat


def _placed(tree: Tree, entries: list[_Entry]) -> int:
    """Append the entries of a storage as a balanced tree; return its root."""
    at: list[int] = []
    for name in sorted(tree, key=lambda one: (len(one), one.upper())):
        held = tree[name]
        at.append(len(entries))
        entry = _Entry(name, STREAM, held) if isinstance(held, bytes) else _Entry(name, STORAGE)
        entries.append(entry)
        if not isinstance(held, bytes):
            entry.child = _placed(held, entries)
    return _balanced(at, entries)


def _balanced(at: Sequence[int], entries: list[_Entry]) -> int:
    if not at:
        return FREE
    middle = len(at) // 2
    entry = entries[at[middle]]
    entry.left, entry.right = _balanced(at[:middle], entries), _balanced(at[middle + 1 :], entries)
    return at[middle]


def _entry(entry: _Entry) -> bytes:
    name = entry.name.encode("utf-16-le") + b"\0\0"
    return struct.pack(
        "<64sHBBIII16xI8x8xIQ",
        name, len(name), entry.kind, 1, entry.left, entry.right, entry.child, 0, entry.start, entry.size,
    )  # fmt: skip


def _table(numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers) + struct.pack("<I", FREE) * (-len(numbers) % 128)


def outlook(
    subject: str = "Berth plan",
    body: str | None = "Hello Bob,\n\nsee the plan.\n",
    *,
    html: bytes | None = None,
    rtf: bytes | None = None,
    attached: Sequence[Tree] = (),
    code_page: int | None = None,
) -> bytes:
    """Return a message's file."""
    return compound_file(message(subject, body, html=html, rtf=rtf, attached=attached, code_page=code_page))


def message(
    subject: str,
    body: str | None,
    *,
    html: bytes | None = None,
    rtf: bytes | None = None,
    attached: Sequence[Tree] = (),
    code_page: int | None = None,
    is_inside: bool = False,
) -> Tree:
    """Return the storage of a message from Jörg to Bob; its texts are UTF-16, or in a code page."""
    texts = {0x0037: subject, 0x0042: "Jörg", 0x5D02: "joerg@example.org", 0x1000: body}
    fixed = {(0x0039, 0x0040): ticks(datetime(2026, 11, 23, 10, tzinfo=UTC))}
    if code_page is not None:
        fixed |= {(one, 0x0003): struct.pack("<II", code_page, 0) for one in (0x3FFD, 0x3FDE)}
    streams = {0x10130102: html, 0x10090102: rtf}
    recipient = _storage({0x3001: "Bob", 0x39FE: "bob@example.org"}, {(0x0C15, 0x0003): struct.pack("<II", 1, 0)}, {})
    return {
        "__nameid_version1.0": {},
        **_storage(texts, fixed, streams, code_page, 24 if is_inside else 32),
        "__recip_version1.0_#00000000": recipient,
        **{f"__attach_version1.0_#{number:08X}": one for number, one in enumerate(attached)},
    }


def attached_file(name: str, content: bytes, media: str = "", content_id: str = "") -> Tree:
    """Return the storage of an attached file."""
    return _storage({0x3707: name, 0x370E: media, 0x3712: content_id or None}, {}, {0x37010102: content})


def attached_message(inner: Tree) -> Tree:
    """Return the storage of an attached message, one of `message(…, is_inside=True)`."""
    return {**_storage({0x3001: "inner"}, {}, {}), "__substg1.0_3701000D": inner}


def ticks(when: datetime) -> bytes:
    """Return a time as files of Windows have it."""
    return struct.pack("<Q", int((when - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000)


def compressed_rtf(content: bytes) -> bytes:
    """Return RTF in the compressed form, none of it shortened (MS-OXRTFCP)."""
    ended = content + b"\0" * (-len(content) % 8)
    body = b"".join(b"\0" + ended[at : at + 8] for at in range(0, len(ended), 8))
    return struct.pack("<IIII", len(body) + 12, len(content), 0x75465A4C, crc32(body, 0xFFFFFFFF) ^ 0xFFFFFFFF) + body


def _storage(
    texts: Mapping[int, str | None],
    fixed: Mapping[tuple[int, int], bytes],
    streams: Mapping[int, bytes | None],
    code_page: int | None = None,
    header: int = 8,
) -> dict[str, bytes | Tree]:
    kind, codec = (0x001F, "utf-16-le") if code_page is None else (0x001E, f"cp{code_page}")
    made: dict[str, bytes | Tree] = {
        f"__substg1.0_{one:04X}{kind:04X}": text.encode(codec, "replace")
        for one, text in texts.items()
        if text is not None
    }
    made |= {f"__substg1.0_{one:08X}": content for one, content in streams.items() if content is not None}
    entries = b"".join(struct.pack("<HHI8s", kind, one, 6, value) for (one, kind), value in fixed.items())
    return {**made, "__properties_version1.0": b"\0" * header + entries}
