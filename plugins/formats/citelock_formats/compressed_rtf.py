"""RTF as Outlook compresses it (MS-OXRTFCP).

Belongs here: its header, its dictionary, its checksum. Does not belong here: RTF itself (`rtf`).
"""

from __future__ import annotations

import struct
from zlib import crc32

from rag_assets.steps.files.records import FileError

_START = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    b"SymbolArialTimes New Roman"
    b"Courier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
"""What the dictionary holds at the beginning (2.1.3.1.3): 207 bytes."""
_SIZE = 4096
_COMPRESSED, _PLAIN = 0x75465A4C, 0x414C454D
_HEADER = struct.Struct("<IIII")


def decompressed(content: bytes) -> bytes:
    """Return the RTF; empty of nothing. A byte of it is at most nine of RTF, so that no bound is needed.

    Raises:
        FileError: it is broken.
    """
    if not content:
        return b""
    if len(content) < _HEADER.size:
        raise FileError("its compressed text is cut")
    size, _, kind, checksum = _HEADER.unpack_from(content)
    body = content[_HEADER.size : size + 4]
    if kind == _PLAIN:
        return body
    if kind != _COMPRESSED:
        raise FileError("its compressed text is of an unknown form")
    if crc32(body, 0xFFFFFFFF) ^ 0xFFFFFFFF != checksum:
        raise FileError("its compressed text is not what its checksum says")
    return _unpacked(body)


def _unpacked(body: bytes) -> bytes:
    """Return what runs of eight tokens stand for, each a byte or a place in the last 4,096 bytes and a length."""
    dictionary = bytearray(_START.ljust(_SIZE, b" "))
    out, write, at = bytearray(), len(_START), 0
    while at < len(body):
        control, at = body[at], at + 1
        for bit in range(8):
            if control >> bit & 1:
                if at + 2 > len(body):
                    return bytes(out)
                place, length = body[at] << 4 | body[at + 1] >> 4, (body[at + 1] & 15) + 2
                at += 2
                if place == write:
                    return bytes(out)
                for read in range(place, place + length):
                    one = dictionary[read % _SIZE]
                    out.append(one)
                    dictionary[write] = one
                    write = (write + 1) % _SIZE
            else:
                if at >= len(body):
                    return bytes(out)
                out.append(body[at])
                dictionary[write] = body[at]
                write, at = (write + 1) % _SIZE, at + 1
    return bytes(out)
