"""Texts encrypted for one place: AES-256-GCM, bound to what stands beside them.

Belongs here: the sealed form and opening it, the form of older receipts too.
Does not belong here: keys (`artifacts.secret`), what is sealed and beside what (`secrecy`).

A sealed text is `v1:` and, in base64, 8 bytes that name the key, a random nonce [12 bytes] and the ciphertext with its
tag [16 bytes]. For one key a nonce repeats with a chance below 2^-32 in 2^32 texts (NIST SP 800-38D, 8.3).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterator

PREFIX = "v1:"
_KEY_NAME_BYTES, _NONCE_BYTES, _KEY_BYTES = 8, 12, 32


class SealError(Exception):
    """A sealed text cannot be opened; the message says why."""


def seal(secret: bytes, text: str, beside: bytes) -> str:
    """Return the text sealed with a key of the secret [32 bytes]; it opens only `beside` the same bytes."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    name, key = _keys(secret)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = AESGCM(key).encrypt(nonce, text.encode("utf-8", "surrogatepass"), _bound(name, beside))
    return PREFIX + b64encode(name + nonce + ciphertext).decode()


def unseal(secret: bytes, sealed: str, beside: bytes) -> str:
    """Return a sealed text.

    Raises:
        SealError: it was sealed with another secret, altered, or belongs beside something else.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    content = _content(sealed)
    name, key = _keys(secret)
    if not hmac.compare_digest(content[:_KEY_NAME_BYTES], name):
        raise SealError("it cannot be read, because the installation's secret is another one")
    nonce, ciphertext = content[_KEY_NAME_BYTES:][:_NONCE_BYTES], content[_KEY_NAME_BYTES + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, _bound(name, beside)).decode("utf-8", "surrogatepass")
    except (InvalidTag, ValueError) as error:
        raise SealError("it was altered, or belongs to another receipt") from error


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


def _content(sealed: str) -> bytes:
    try:
        content = b64decode(sealed.removeprefix(PREFIX), validate=True)
    except ValueError as error:
        raise SealError("it is damaged: no base64") from error
    if not sealed.startswith(PREFIX) or b64encode(content).decode() != sealed.removeprefix(PREFIX):
        raise SealError("it is in a form that this program does not know")
    return content


def _keys(secret: bytes) -> tuple[bytes, bytes]:
    """Return a public name of the key [8 bytes] and the key [32 bytes], both by HKDF (RFC 5869)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    length = _KEY_NAME_BYTES + _KEY_BYTES
    derived = HKDF(SHA256(), length, salt=None, info=b"citelock sealed text, AES-256-GCM, v1").derive(secret)
    return derived[:_KEY_NAME_BYTES], derived[_KEY_NAME_BYTES:]


def _bound(name: bytes, beside: bytes) -> bytes:
    return PREFIX.encode() + name + beside


def _stream(key: bytes, nonce: str) -> Iterator[int]:
    number = 0
    while True:
        yield from hmac.new(key, f"stream\0{nonce}\0{number}".encode(), hashlib.sha256).digest()
        number += 1
