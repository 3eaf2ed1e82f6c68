"""Signatures of JSON documents: a keyed digest under the installation's secret, one key for each purpose.

Belongs here: making and comparing them. Does not belong here: what a document says, where it lies.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_serving.artifacts.secret import RESTORE, SecretError, derived_key, has_secret

FIELD = "signature"
SEAL_BYTES = 16


def canonical(value: object) -> bytes:
    """Return the one form of a JSON value that digests are made of."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode(errors="surrogatepass")


def signature_of(content: Mapping[str, Any], home: Path, purpose: str) -> str:
    """Return the HMAC-SHA256 (RFC 2104) of all fields but the signature itself.

    Raises:
        SecretError: the installation's secret cannot be used.
    """
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
