"""The sealed form of older receipts: a stream of HMAC-SHA256 blocks over the text.

Belongs here: opening it. Does not belong here: the form that is written now (`artifacts.sealing`).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from collections.abc import Iterator


def unseal_stream(key: bytes, sealed: str, digest: str) -> str | None:
    """Return a text that an older program sealed with a stream of HMAC-SHA256 blocks; None where it is not readable.

    The caller compares the text with its `digest`: this form has no tag of its own.
    """
    try:
        content = b64decode(sealed)
        return bytes(one ^ other for one, other in zip(content, _stream(key, digest), strict=False)).decode(
            "utf-8", "surrogatepass"
        )
    except ValueError:
        return None


def _stream(key: bytes, nonce: str) -> Iterator[int]:
    number = 0
    while True:
        yield from hmac.new(key, f"stream\0{nonce}\0{number}".encode(), hashlib.sha256).digest()
        number += 1
