"""What a zip or an OLE file holds, told by the names in its directory; nothing is unpacked.

Belongs here: the directories of both containers, read within bounds, and the formats that are known by them.
Does not belong here: kinds that need no container (`kinds`), the text of a file (`rag_assets.steps.files`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

ZIP_HEADS = (b"PK\x03\x04", b"PK\x05\x06")
OLE_HEAD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
MOST_NAMES = 20_000
"""Names of a zip's directory that are looked at: those that tell a format are never far from its beginning or end."""

_EOCD = b"PK\x05\x06"
_EOCD_WITHIN = 22 + 65_535  # bytes from the end: the record and the longest comment
_ENTRY = b"PK\x01\x02"
_ENTRY_SIZE = 46
_OLE_SECTOR, _OLE_NAME = 512, 128  # bytes: streams' names begin at multiples of the second


def zip_names(content: bytes) -> list[str] | None:
    """Return the names in a zip's directory, in its order; None where it has no directory that can be read."""
    at = content.rfind(_EOCD, max(0, len(content) - _EOCD_WITHIN))
    if at < 0 or at + 22 > len(content):
        return None
    size, offset = struct.unpack_from("<II", content, at + 12)
    start = at - size if size <= at and content[at - size : at - size + 4] == _ENTRY else offset
    names = list(_names(content, start, at))
    return names if names or not size else None


def zip_media_type(head: bytes) -> str:
    """Return what a zip says in its first member `mimetype` (OpenDocument, EPUB); empty where it says nothing."""
    if not head.startswith(ZIP_HEADS[0]) or len(head) < 38:
        return ""
    method, size, name_size, extra_size = struct.unpack_from("<H8xI4xHH", head, 8)
    begin = 30 + name_size + extra_size
    if head[30 : 30 + name_size] != b"mimetype" or method or not 0 < size < 200:
        return ""
    return head[begin : begin + size].decode("ascii", "replace").strip()


def first_zip_name(head: bytes) -> str:
    """Return the name of a zip's first member; empty where its head does not have it whole."""
    if not head.startswith(ZIP_HEADS[0]) or len(head) < 30:
        return ""
    (name_size,) = struct.unpack_from("<H", head, 26)
    return head[30 : 30 + name_size].decode("utf-8", "replace")


def ole_holds(content: bytes, name: str) -> bool:
    """Return whether an OLE file has a stream or storage of this name."""
    written = name.encode("utf-16-le") + b"\x00\x00"
    at = content.find(written, _OLE_SECTOR)
    while at >= 0:
        if at % _OLE_NAME == 0:
            return True
        at = content.find(written, at + 1)
    return False


def first_ole_names(content: bytes) -> list[str]:
    """Return the names in the first sector of an OLE file's directory, without its root's (MS-CFB 2.2, 2.6.1)."""
    if len(content) < _OLE_SECTOR:
        return []
    shift, sector = *struct.unpack_from("<H", content, 30), *struct.unpack_from("<I", content, 48)
    if shift not in (9, 12):
        return []
    begin = (sector + 1) << shift
    entries = (content[at : at + _OLE_NAME] for at in range(begin + _OLE_NAME, begin + (1 << shift), _OLE_NAME))
    return [
        entry[: max(0, size - 2)].decode("utf-16-le", "replace")
        for entry in entries
        if len(entry) == _OLE_NAME and (size := struct.unpack_from("<H", entry, 64)[0]) <= 64
    ]


def _names(content: bytes, start: int, end: int) -> Iterator[str]:
    for _ in range(MOST_NAMES):
        if start < 0 or start + _ENTRY_SIZE > end or content[start : start + 4] != _ENTRY:
            return
        name_size, extra_size, comment_size = struct.unpack_from("<HHH", content, start + 28)
        name = content[start + _ENTRY_SIZE : start + _ENTRY_SIZE + name_size]
        yield name.decode("utf-8", "replace")
        start += _ENTRY_SIZE + name_size + extra_size + comment_size
