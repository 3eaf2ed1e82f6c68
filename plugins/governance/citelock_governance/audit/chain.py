"""Rows as a chain: the hash of a row, and the signature. The hash of a row is the SHA-256 of the canonical JSON of its
columns, the previous row's hash among them, so that the chain can be followed in an export. The signature is the
HMAC-SHA256 (RFC 2104) of that hash under a key of the installation: without it no row, and no head, can be made. A
chain that an attacker shortens to an earlier state of both is detected by heads stored elsewhere (`anchor`). J. Kelsey,
B. Schneier, Secure Audit Logs (1999)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_serving.artifacts.secret import canonical, derived_key
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError

FOLDER = "audit"


@dataclass(frozen=True)
class Anchor:
    """A row that was the newest one: its place and hash."""

    sequence: int
    hash: str
    since: int = 1
    """The first row that this home has seen."""


IsOnChain = Callable[[Anchor], bool]  # rows that retention cut off count as they were


class AnchorFile:
    """The anchor of one tenant's chain. Safe to use from several processes."""

    def __init__(self, home: Path, tenant: str) -> None:
        self._store = Store(home)
        self.path = home / FOLDER / f"{tenant}.json"

    def read(self) -> Anchor | None:
        """Return the anchor; None if there is no file. Raises StoreError: it cannot be read, or was altered."""
        if not self.path.exists():
            return None
        content = read_signed(self._store, self.path)
        try:
            return Anchor(int(content["sequence"]), str(content["hash"]), int(content["since"]))
        except (KeyError, TypeError, ValueError):
            raise StoreError(f"{self.path} does not name a row of the audit log") from None

    def advance(self, newest: Anchor, is_on_chain: IsOnChain) -> bool:
        """Move the anchor to a newer row, if the one that it names is on the same chain; return whether it is. Raises
        StoreError: the file was altered. OSError: it cannot be written."""
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock"), fallback_to_soft=False):
            before = self.read()
            if before is None:
                self._write(newest)
                return True
            if before.sequence > newest.sequence:  # another process has moved it on
                return True
            if not is_on_chain(before):
                return False
            self._write(Anchor(newest.sequence, newest.hash, before.since))
            return True

    def remove(self) -> None:
        """Delete the file, with its lock."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def _write(self, anchor: Anchor) -> None:
        write_signed(self._store, self.path, vars(anchor))


KEY_PURPOSE = "audit chain"
GENESIS = "0" * 64
"""What stands for the hash before the first row."""
CONTENT = (
    "tenant", "sequence", "at", "kind", "actor", "subject", "status", "query_hash", "query", "retrieved", "model",
    "tokens_in", "tokens_out", "cost", "latency_ms", "generation", "details", "previous",
)  # fmt: skip
"""The columns that a row's hash covers, in their order."""


@dataclass(frozen=True)
class Head:
    """The ends of a chain."""

    tenant: str
    first_sequence: int = 1  # of the oldest stored row
    first_previous: str = GENESIS  # hash of the row before that one
    sequence: int = 0  # of the newest row; 0 if none was written yet
    hash: str = GENESIS  # of the newest row

    def payload(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))


class Signer:
    """Hashes and signatures under the installation's key."""

    def __init__(self, home: Path) -> None:
        """Raises SecretError if the installation's secret cannot be used."""
        self._key = derived_key(home, KEY_PURPOSE)

    def linked(self, row: Mapping[str, Any], head: Head) -> dict[str, Any]:
        """Return a row of all columns as the next one after a head."""
        placed = {**row, "tenant": head.tenant, "sequence": head.sequence + 1, "previous": head.hash}
        digest = row_hash(placed)
        return {**placed, "hash": digest, "signature": self.of_row(digest)}

    def of_row(self, digest: str) -> str:
        """Return the signature of a row's hash."""
        return self._sign(b"row", digest.encode())

    def of_head(self, head: Head) -> str:
        """Return the signature of a head."""
        return self._sign(b"head", canonical(head.payload()))

    def holds(self, expected: str, signature: object) -> bool:
        """Return whether a stored signature is the expected one."""
        return hmac.compare_digest(expected.encode(), str(signature).encode(errors="replace"))

    def _sign(self, what: bytes, content: bytes) -> str:
        return hmac.new(self._key, what + b"\0" + content, hashlib.sha256).hexdigest()


def row_hash(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 that a row should have as its hash, in hexadecimal digits."""
    return hashlib.sha256(canonical([row[name] for name in CONTENT])).hexdigest()


def head_of(stored: Mapping[str, Any]) -> Head:
    """Return the head in a stored row or JSON object."""
    tenant, previous, digest = (str(stored[name]) for name in ("tenant", "first_previous", "hash"))
    return Head(tenant, int(stored["first_sequence"]), previous, int(stored["sequence"]), digest)
