"""Texts encrypted for one place: AES-256-GCM, bound to their context.

Belongs here: the sealed form and opening it.
Does not belong here: keys (`secret`), sealed texts and their context (`receipts.secrecy`, `access.sessions`).

A sealed text is `v1:` and, in base64, 8 bytes that name the key, a random nonce [12 bytes] and the ciphertext with its
tag [16 bytes]. For one key a nonce repeats with a chance below 2^-32 in 2^32 texts (NIST SP 800-38D, 8.3).
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode

PREFIX = "v1:"
_KEY_NAME_BYTES, _NONCE_BYTES, _KEY_BYTES = 8, 12, 32


class SealError(Exception):
    """A sealed text cannot be opened; the message says why."""


def seal(secret: bytes, text: str, beside: bytes) -> str:
    """Return the text sealed with a key of the secret [32 bytes]; it opens only `beside` the same bytes."""
    return seal_bytes(secret, text.encode("utf-8", "surrogatepass"), beside)


def unseal(secret: bytes, sealed: str, beside: bytes) -> str:
    """Return a sealed text.

    Raises:
        SealError: it was sealed with another secret, altered, or belongs beside something else.
    """
    try:
        return unseal_bytes(secret, sealed, beside).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise SealError("it is no text") from error


def seal_bytes(secret: bytes, content: bytes, beside: bytes) -> str:
    """Return bytes sealed as `seal` does a text."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    name, key = _keys(secret)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = AESGCM(key).encrypt(nonce, content, _bound(name, beside))
    return PREFIX + b64encode(name + nonce + ciphertext).decode()


def unseal_bytes(secret: bytes, sealed: str, beside: bytes) -> bytes:
    """Return sealed bytes; errors as `unseal`."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    content = _content(sealed)
    name, key = _keys(secret)
    if not hmac.compare_digest(content[:_KEY_NAME_BYTES], name):
        raise SealError("it cannot be read, because the installation's secret is another one")
    nonce, ciphertext = content[_KEY_NAME_BYTES:][:_NONCE_BYTES], content[_KEY_NAME_BYTES + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, _bound(name, beside))
    except (InvalidTag, ValueError) as error:
        raise SealError("it was altered, or belongs elsewhere") from error


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
