"""The head of a shared folder: which tree is in force, and who may write the next one.

Belongs here: what a head says, its signature, moving it. Does not belong here: files (`shared_folder`), how long one
waits for another writer (`leases`).

One object holds both, so that a writer that lost its lease cannot move the tree: every write names the version that it
replaces, and whoever takes the lease writes first.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rag_serving.artifacts.signatures import FIELD, signature_fault, signature_of
from rag_serving.object_home.objects import ObjectHomeError, Objects, Version

_PURPOSE = "object home"
_FORMAT = 1


@dataclass(frozen=True)
class Head:
    """What is in force of a folder. `number` grows with every tree, `fencing` with every writer, `beat` as it lives.

    `write` is another one each time, so that a writer knows its own head again; `swept` is the number at which objects
    that no tree needed were deleted last.
    """

    folder: str
    tree: str | None = None
    number: int = 0
    fencing: int = 0
    holder: str = ""
    beat: int = 0
    write: str = ""
    swept: int = 0

    def taken_by(self, holder: str) -> Head:
        return replace(self, holder=holder, fencing=self.fencing + 1, beat=0)

    def after_beat(self) -> Head:
        return replace(self, beat=self.beat + 1)

    def after_sweep(self) -> Head:
        return replace(self, swept=self.number)

    def released(self, tree: str | None) -> Head:
        """Return what is in force once its writer has ended; a tree that is the same has the same number."""
        number = self.number + (tree != self.tree)
        return replace(self, holder="", beat=0, tree=tree, number=number)


class Seen(NamedTuple):
    """A head, and the version of its object."""

    head: Head
    version: Version


class Heads:
    """The heads of a shared home, each signed by the installation."""

    def __init__(self, objects: Objects, home: Path) -> None:
        self._objects, self._home = objects, home

    def read(self, folder: str) -> Seen | None:
        """Return the head of a folder, None where nothing was ever shared.

        Raises:
            ObjectHomeError: it is not one that this installation signed, or the store does not answer.
        """
        stored = self._objects.read(_name(folder))
        return Seen(self._authentic(folder, stored.content), stored.version) if stored else None

    def write(self, head: Head, before: Seen | None) -> Seen | None:
        """Replace a head. Return it as it is stored, or None where somebody else wrote meanwhile."""
        head = replace(head, write=secrets.token_hex(8))
        content = self._signed(head)
        try:
            if before is None:
                version = self._objects.create(_name(head.folder), content)
            else:
                version = self._objects.replace(_name(head.folder), content, before.version)
        except ObjectHomeError:
            if (found := self.read(head.folder)) and found.head == head:
                return found  # it was written, and the answer was lost
            raise
        if before is None and version is not None:
            self._objects.check_conditions(_name(head.folder), content)
        if version is None:  # so it may be, too, where a request was sent twice
            found = self.read(head.folder)
            return found if found and found.head == head else None
        return Seen(head, version)

    def _signed(self, head: Head) -> bytes:
        content: dict[str, Any] = {"format": _FORMAT, **vars(head)}
        return json.dumps({**content, FIELD: signature_of(content, self._home, _PURPOSE)}).encode()

    def _authentic(self, folder: str, content: bytes) -> Head:
        where = f"{self._objects.url}/{_name(folder)}"
        try:
            found = json.loads(content)
        except ValueError:
            raise ObjectHomeError(f"{where} is no head; restore it") from None
        fault = signature_fault(found, self._home, _PURPOSE) if isinstance(found, dict) else "is no head"
        if fault:
            raise ObjectHomeError(
                f"{where} {fault.partition(';')[0]}; CITELOCK_SECRET must be the same on all machines"
            )
        if (found.pop(FIELD), found.pop("format"))[1] != _FORMAT or found["folder"] != folder:
            raise ObjectHomeError(f"{where} is another folder's, or of another version; restore it")
        return Head(**found)


def _name(folder: str) -> str:
    return f"{folder}/head"
