"""The head of a shared folder: the tree in force, and the right to write the next one. One object has both, so that a
writer that lost its lease cannot move the tree: every write names the version that it replaces, and taking the lease is
a write. No clocks are compared: a writer counts as gone when its head did not change for `lease_s` of the waiting
machine's own time. One that only stalled finds the head changed, and writes nothing."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from citelock_scale.object_home.objects import Objects, StoreAwayError, Stored, Version
from rag_serving.artifacts.secret import FIELD, signature_fault, signature_of
from rag_serving.shared_home import HeldError, ObjectHomeError

READ_AT_ONCE = 16
_PURPOSE = "object home"
_FORMAT = 2  # 1: without `erased` and `erasure`
_LARGEST_BYTES = 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FolderHead:
    """The state of a folder in force. `number` grows with every tree, `fencing` with every writer, `beat` as it lives.
    `write` is unique, so that a writer recognizes its own head; `swept` is the number at which objects that no tree
    needed were deleted last. `erased`: nothing is in force, and `tree` is the last one, which lists its objects;
    `erasure` is the number of the last erasure: machines delete older copies."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    folder: str
    tree: str | None = None
    number: int = 0
    fencing: int = 0
    holder: str = ""
    beat: int = 0
    write: str = ""
    swept: int = 0
    erased: bool = False
    erasure: int = 0

    @property
    def in_force(self) -> str | None:
        """The digest of the tree in force, None if there is none."""
        return None if self.erased else self.tree

    def after_erasure(self) -> FolderHead:
        """Return a head that takes the folder from its writer and from every machine."""
        number = self.number + 1
        return replace(
            self, holder="", beat=0, fencing=self.fencing + 1, number=number, swept=number, erased=True, erasure=number
        )

    def released(self, tree: str | None) -> FolderHead:
        """Return the head after its writer has ended; an unchanged tree keeps its number."""
        if tree == self.tree:
            return replace(self, holder="", beat=0)
        return replace(self, holder="", beat=0, tree=tree, number=self.number + 1, erased=False)


_HEAD = TypeAdapter(FolderHead)


class Seen(NamedTuple):
    """A head, and the version of its object."""

    head: FolderHead
    version: Version


class Heads:
    """The heads of a shared home, each signed by the installation. Safe to use from several threads."""

    def __init__(self, objects: Objects, home: Path) -> None:
        self._objects, self._home = objects, home
        self._known: dict[str, tuple[Stored, FolderHead]] = {}

    def read(self, folder: str) -> Seen | None:
        """Return the head of a folder, None if there is none. One that did not change is not sent again. Raises
        ObjectHomeError: it is not one that this installation signed, or the store does not answer."""
        known = self._known.get(folder)
        stored = self._objects.read(_name(folder), _LARGEST_BYTES, known[0] if known else None)
        if stored is None:
            return None
        if known is None or stored.content != known[0].content:
            known = (stored, self._authentic(folder, stored.content))
            self._known[folder] = known
        return Seen(known[1], stored.version)

    def read_all(self, folders: Sequence[str]) -> Iterator[tuple[str, Seen | ObjectHomeError | None]]:
        """Yield folders with their heads, or with the fault, several requests at once, in the given order. If the store
        does not answer for one, later ones may be left out."""
        is_away = Event()

        def read(folder: str) -> tuple[Seen | ObjectHomeError | None, bool]:
            if is_away.is_set():
                return None, False
            try:
                return self.read(folder), True
            except ObjectHomeError as error:
                if isinstance(error, StoreAwayError):
                    is_away.set()
                return error, True

        with ThreadPoolExecutor(max(1, min(READ_AT_ONCE, len(folders)))) as threads:
            for folder, (seen, was_read) in zip(folders, threads.map(read, folders), strict=True):
                if was_read:
                    yield folder, seen

    def write(self, head: FolderHead, before: Seen | None) -> Seen | None:
        """Replace a head. Return it as it is stored, or None if somebody else wrote meanwhile."""
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

    def _signed(self, head: FolderHead) -> bytes:
        content: dict[str, Any] = {"format": _FORMAT, **vars(head)}
        return json.dumps({**content, FIELD: signature_of(content, self._home, _PURPOSE)}).encode()

    def _authentic(self, folder: str, content: bytes) -> FolderHead:
        where = f"{self._objects.url}/{_name(folder)}"
        try:
            found = json.loads(content)
            fault = signature_fault(found, self._home, _PURPOSE) if isinstance(found, dict) else "is no head"
        except (ValueError, RecursionError):
            fault = "is no head"
        if fault:
            raise ObjectHomeError(
                f"{where} {fault.partition(';')[0]}; CITELOCK_SECRET must be the same on all machines: if it is, "
                f"delete this object, and run `citelock home repair` on the machine that builds {folder}"
            )
        given = {name: value for name, value in found.items() if name not in (FIELD, "format")}
        try:
            head = _HEAD.validate_json(json.dumps(given)) if found.get("format") in (1, _FORMAT) else None
        except ValidationError:
            head = None
        if head is None or head.folder != folder:
            raise ObjectHomeError(
                f"{where} is another folder's, or of another version of this program; let all machines run the same, "
                f"or delete this object, and run `citelock home repair` on the machine that builds {folder}"
            )
        return head


def _name(folder: str) -> str:
    return f"{folder}/head"


class Lease:
    """The right to write one folder, kept alive by a thread until `release`. `edition` is in the names of all contents
    that are sent under this lease, and of no others; `sent` are the names of all objects that were."""

    def __init__(self, heads: Heads, seen: Seen, lease_s: float) -> None:
        self._heads, self._seen, self._every_s = heads, seen, lease_s / 3
        self.edition, self.sent = secrets.token_hex(8), set[str]()
        self._is_lost = False
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"lease {seen.head.folder}", daemon=True)
        self._thread.start()

    @property
    def head(self) -> FolderHead:
        return self._seen.head

    def release(self, tree: str | None) -> FolderHead:
        """Put a tree in force and let go, both at once. Raises HeldError: somebody else took the lease; nothing was put
        in force. Raises ObjectHomeError: the store does not answer."""
        self.stop()
        wanted = self._seen.head.released(tree)
        with self._lock:
            written = self._heads.write(wanted, self._seen)
        if written is None and tree != self._seen.head.tree:  # no other writer makes this tree
            newer = self._heads.read(wanted.folder)
            written = newer if newer and newer.head.in_force == tree else None
        if written is None:
            raise self._taken()
        return written.head

    def check(self) -> None:
        """See that nobody took the lease, as far as this machine has heard. Raises HeldError: somebody did."""
        if self._is_lost:
            raise self._taken()

    def _taken(self) -> HeldError:
        return HeldError(
            f"another machine took over {self._seen.head.folder}, because this one gave no sign of life for "
            "half a minute, or erased it; nothing of this run was shared: run it again"
        )

    def note_sweep(self) -> bool:
        """Record the start of a sweep. Return whether the lease is still valid. Raises ObjectHomeError: the store does
        not answer."""
        return self._is_written(swept=self._seen.head.number)

    def stop(self) -> None:
        """Give no more signs of life."""
        self._ended.set()
        self._thread.join()

    def _live(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                if not self._is_written(beat=self._seen.head.beat + 1):
                    return
            except ObjectHomeError as error:  # the next sign may be taken
                _log.warning("%s", error)

    def _is_written(self, **changes: Any) -> bool:
        with self._lock:
            written = self._heads.write(replace(self._seen.head, **changes), self._seen)
            self._seen, self._is_lost = written or self._seen, written is None
        return written is not None


def take_lease(heads: Heads, folder: str, lease_s: float, wait_s: float, known: FolderHead | None = None) -> Lease:
    """Wait until nobody writes a folder, and take the right to. `known`: the head to go on from, unless the store has
    one that is as new. Raises HeldError: somebody still writes there after `wait_s`, and lives. Raises ObjectHomeError:
    the store does not answer."""
    me = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    began = changed = time.monotonic()
    last: Seen | None = None
    while True:
        seen, now = heads.read(folder), time.monotonic()
        lives = last is not None and seen is not None and seen.version != last.version
        if last is None or lives:
            last, changed = seen, now
        is_free = seen is None or not seen.head.holder or now - changed >= lease_s
        if is_free:
            head = seen.head if seen else FolderHead(folder)
            if known and not head.erased and head.number < known.number:
                head = known
            taken = heads.write(replace(head, holder=me, fencing=head.fencing + 1, beat=0), seen)
            if taken:
                return Lease(heads, taken, lease_s)
        elif lives and now - began >= wait_s:
            assert seen
            who = seen.head.holder.rpartition(":")[0]
            raise HeldError(f"another build ({who}) writes to {folder}; wait until it has ended, or stop it")
        time.sleep(min(0.2, lease_s / 10))
