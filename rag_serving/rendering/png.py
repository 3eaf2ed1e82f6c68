"""PNG files, of 8-bit RGB alone.

Belongs here: encoding, as https://www.w3.org/TR/png-3/ has it. Does not belong here: where the pixels come from
(`worker`).
"""

from __future__ import annotations

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVEL = 4  # 8 % larger than at level 6, in half of the time


def png(width: int, height: int, pixels: bytes, stride: int) -> bytes:
    """Return an image file. `pixels`: rows of `stride` bytes, of which the first 3 x `width` are R, G, B."""
    rows = b"".join(b"\0" + pixels[row * stride : row * stride + 3 * width] for row in range(height))
    head = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, _LEVEL)) + _chunk(b"IEND", b"")


def size_of(image: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG file; None if the bytes are none."""
    if not image.startswith(_SIGNATURE) or image[12:16] != b"IHDR" or len(image) < 33:
        return None
    width, height = struct.unpack("!II", image[16:24])
    return width, height


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
