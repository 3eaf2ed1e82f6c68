"""The installation's secret, and the keys derived from it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FIELD = "signature"
SEAL_BYTES = 16


def canonical(value: object) -> bytes:
    """Return the one form of a JSON value that digests are made of."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode(errors="surrogatepass")


def signature_of(content: Mapping[str, Any], home: Path, purpose: str) -> str:
    """Return the HMAC-SHA256 (RFC 2104) of all fields but the signature. Raises SecretError: the secret is unusable."""
    signed_part = {name: value for name, value in content.items() if name != FIELD}
    return hmac.new(derived_key(home, purpose), canonical(signed_part), hashlib.sha256).hexdigest()


def signature_fault(content: Mapping[str, Any], home: Path, purpose: str) -> str | None:
    """Return why a document is not one that this installation signed, with the mend, or None."""
    noted = content.get(FIELD)
    if not noted:
        return "is not signed: an older program built it, or it was made up; `citelock build` makes it again"
    try:
        if not has_secret(home):
            return f"cannot be authenticated: {home} has no secret; {RESTORE}"
        expected = signature_of(content, home, purpose)
    except SecretError as error:
        return f"cannot be authenticated: {error}"
    if not hmac.compare_digest(expected.encode(), str(noted).encode(errors="replace")):
        return "was altered: its signature does not hold, or the secret is another one; `citelock build` makes it again"
    return None


class Seal:
    """Short signatures of a cache's entries: who cannot make one cannot put an entry there unnoticed."""

    def __init__(self, home: Path, purpose: str) -> None:
        """Raises SecretError if the installation's secret cannot be used."""
        self._key = derived_key(home, purpose)

    def of(self, *parts: bytes) -> bytes:
        """Return the seal [16 bytes] of an entry's parts, in their order."""
        lengths = b"".join(len(part).to_bytes(8, "little") for part in parts)
        return hmac.digest(self._key, b"".join((lengths, *parts)), "sha256")[:SEAL_BYTES]

    def holds(self, seal: bytes | None, *parts: bytes) -> bool:
        """Return whether this is the seal of these parts."""
        return isinstance(seal, bytes) and hmac.compare_digest(seal, self.of(*parts))


PREFIX = "v1:"
_KEY_NAME_BYTES, _NONCE_BYTES, _KEY_BYTES = 8, 12, 32


class SealError(Exception):
    """A sealed text cannot be opened; the message says why."""


def seal(secret: bytes, text: str, beside: bytes) -> str:
    """Return the text sealed with a key of the secret [32 bytes]; it opens only `beside` the same bytes."""
    return seal_bytes(secret, text.encode("utf-8", "surrogatepass"), beside)


def unseal(secret: bytes, sealed: str, beside: bytes) -> str:
    """Return a sealed text. Raises SealError: it is of another secret, altered, or belongs beside something else."""
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

    try:
        content = b64decode(sealed.removeprefix(PREFIX), validate=True)
    except ValueError as error:
        raise SealError("it is damaged: no base64") from error
    if not sealed.startswith(PREFIX) or b64encode(content).decode() != sealed.removeprefix(PREFIX):
        raise SealError("it is in a form that this program does not know")
    name, key = _keys(secret)
    if not hmac.compare_digest(content[:_KEY_NAME_BYTES], name):
        raise SealError("it cannot be read, because the installation's secret is another one")
    nonce, ciphertext = content[_KEY_NAME_BYTES:][:_NONCE_BYTES], content[_KEY_NAME_BYTES + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, _bound(name, beside))
    except (InvalidTag, ValueError) as error:
        raise SealError("it was altered, or belongs elsewhere") from error


def _keys(secret: bytes) -> tuple[bytes, bytes]:
    """Return a public name of the key [8 bytes] and the key [32 bytes], both by HKDF (RFC 5869)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    length = _KEY_NAME_BYTES + _KEY_BYTES
    derived = HKDF(SHA256(), length, salt=None, info=b"citelock sealed text, AES-256-GCM, v1").derive(secret)
    return derived[:_KEY_NAME_BYTES], derived[_KEY_NAME_BYTES:]


def _bound(name: bytes, beside: bytes) -> bytes:
    return PREFIX.encode() + name + beside


SECRET_ENV = "CITELOCK_SECRET"
FILE = "secret"
_BYTES = 32
_FEWEST_CHARS = 16
RESTORE = f"restore the file `{FILE}` of the home folder, or set {SECRET_ENV} to what it was"
"""Say what mends an installation whose secret is missing."""


class SecretError(Exception):
    """The secret cannot be used; the message says how to mend it."""


def derived_key(home: Path, purpose: str) -> bytes:
    """Return the key [32 bytes] of one purpose, such as `receipts`: HMAC-SHA256 of the purpose under the secret. The
    secret is the environment variable `CITELOCK_SECRET`; without it, random bytes in the home folder's `secret`, made
    when first needed and readable by the owner alone. Servers that share receipts must share the secret. None is made
    where generations were published before: they, receipts and stored questions need the one that they were signed and
    encrypted with. Raises SecretError: the secret is too short to be one, was lost, or its file cannot be read or
    made."""
    return hmac.new(_secret(home), purpose.encode(), hashlib.sha256).digest()


def has_secret(home: Path) -> bool:
    """Return whether there is a secret already: a mere comparison must not create one."""
    return bool(os.environ.get(SECRET_ENV)) or (home / FILE).exists()


def _secret(home: Path) -> bytes:
    if given := os.environ.get(SECRET_ENV):
        if len(given) < _FEWEST_CHARS:
            raise SecretError(
                f"{SECRET_ENV} has fewer than {_FEWEST_CHARS} characters; `openssl rand -hex 32` makes one"
            )
        return given.encode()
    path = home / FILE
    try:
        if not path.exists():
            _refuse_lost(home)
            _make(path)
        secret = path.read_bytes()
    except OSError as error:
        raise SecretError(f"{path} cannot be used ({error.strerror}); mend its rights or set {SECRET_ENV}") from error
    if len(secret) != _BYTES:
        raise SecretError(f"{path} is damaged: {len(secret)} bytes instead of {_BYTES}; restore it")
    return secret


def _refuse_lost(home: Path) -> None:
    manifests = home.glob("tenants/*/generations/*/manifest.json")
    had_one = any(b'"signature"' in path.read_bytes() for path in manifests)
    if had_one and not (home / FILE).exists():  # another process may just have made one
        raise SecretError(
            f"{home} has generations but no secret; {RESTORE} "
            '("Changing the secret" in docs/operations.md if it is lost for good)'
        )


def _make(path: Path) -> None:
    """Write a new secret so that of two processes at once both read the same afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(_BYTES))
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        path.hardlink_to(temporary)
    temporary.unlink()
