"""The installation's secret, and the keys derived from it.

Belongs here: one secret by environment or in the home folder, a key for each purpose.
Does not belong here: what is signed or hashed with a key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

SECRET_ENV = "CITELOCK_SECRET"
FILE = "secret"
_BYTES = 32
_FEWEST_CHARS = 16
RESTORE = f"restore the file `{FILE}` of the home folder, or set {SECRET_ENV} to what it was"
"""Say what mends an installation whose secret is missing."""


class SecretError(Exception):
    """The secret cannot be used; the message says how to mend it."""


def derived_key(home: Path, purpose: str) -> bytes:
    """Return the key [32 bytes] of one purpose, such as `receipts`: HMAC-SHA256 of the purpose under the secret.

    The secret is the environment variable `CITELOCK_SECRET`; without it, random bytes in the home folder's `secret`,
    made when first needed and readable by the owner alone. Servers that share receipts must share the secret.

    None is made where generations were published before: they, receipts and stored questions need the one that they
    were signed and encrypted with.

    Raises:
        SecretError: the secret is too short to be one, was lost, or its file cannot be read or made.
    """
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
    """Raise SecretError if a home must have had a secret."""
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
