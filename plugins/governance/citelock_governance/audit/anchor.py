"""The newest head of a chain, stored in the home folder: it detects a database that was set back to an earlier state.

Belongs here: the file, and its progress. Does not belong here: the chain (`chain`), comparing it with the rows
(`verification`).

It moves only forward, and only along the chain: if its row is missing, or has changed, it stays, and `citelock audit
verify` reports that whatever is appended afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


IsOnChain = Callable[[Anchor], bool]
"""Whether a row is still on the chain; rows that retention cut off count as they were."""


class AnchorFile:
    """The anchor of one tenant's chain. Safe to use from several processes."""

    def __init__(self, home: Path, tenant: str) -> None:
        self._store = Store(home)
        self.path = home / FOLDER / f"{tenant}.json"

    def read(self) -> Anchor | None:
        """Return the anchor; None if there is no file.

        Raises:
            StoreError: it cannot be read, or was altered.
        """
        if not self.path.exists():
            return None
        content = read_signed(self._store, self.path)
        try:
            return Anchor(int(content["sequence"]), str(content["hash"]), int(content["since"]))
        except (KeyError, TypeError, ValueError):
            raise StoreError(f"{self.path} does not name a row of the audit log") from None

    def advance(self, newest: Anchor, is_on_chain: IsOnChain) -> bool:
        """Move the anchor to a newer row, if the one that it names is on the same chain; return whether it is.

        Raises:
            StoreError: the file was altered. OSError: it cannot be written.
        """
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
