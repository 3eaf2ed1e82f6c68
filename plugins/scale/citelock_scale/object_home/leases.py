"""The right to write a folder: taken from the head, kept alive, lost when somebody else took it.

Belongs here: waiting for another writer, signs of life. Does not belong here: what is written (`shared_folder`).

No clocks are compared: a writer counts as gone when its head did not change for `lease_s` of the waiting machine's own
time. One that only stalled finds the head changed, and writes nothing.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time

from citelock_scale.object_home.heads import Head, Heads, Seen
from rag_serving.shared_home import HeldError, ObjectHomeError

_log = logging.getLogger(__name__)


class Lease:
    """The right to write one folder, kept alive by a thread until `release`.

    `edition` is in the names of all contents that are sent under this lease, and of no others; `sent` are the names of
    all objects that were.
    """

    def __init__(self, heads: Heads, seen: Seen, lease_s: float) -> None:
        self._heads, self._seen, self._every_s = heads, seen, lease_s / 3
        self.edition, self.sent = secrets.token_hex(8), set[str]()
        self._is_lost = False
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"lease {seen.head.folder}", daemon=True)
        self._thread.start()

    @property
    def head(self) -> Head:
        return self._seen.head

    def release(self, tree: str | None) -> Head:
        """Put a tree in force and let go, both at once.

        Raises:
            HeldError: somebody else took the lease; nothing was put in force.
            ObjectHomeError: the store does not answer.
        """
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
        """See that nobody took the lease, as far as this machine has heard.

        Raises:
            HeldError: somebody did.
        """
        if self._is_lost:
            raise self._taken()

    def _taken(self) -> HeldError:
        return HeldError(
            f"another machine took over {self._seen.head.folder}, because this one gave no sign of life for "
            "object_store.lease_s, or erased it; nothing of this run was shared: run it again"
        )

    def note_sweep(self) -> bool:
        """Note that a sweep begins. Return whether the lease is still held.

        Raises:
            ObjectHomeError: the store does not answer.
        """
        with self._lock:
            written = self._heads.write(self._seen.head.after_sweep(), self._seen)
            self._seen = written or self._seen
            self._is_lost = written is None
        return written is not None

    def stop(self) -> None:
        """Give no more signs of life."""
        self._ended.set()
        self._thread.join()

    def _live(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                with self._lock:
                    written = self._heads.write(self._seen.head.after_beat(), self._seen)
                    if written is None:
                        self._is_lost = True
                        return
                    self._seen = written
            except ObjectHomeError as error:  # the next sign may be taken
                _log.warning("%s", error)


def take_lease(heads: Heads, folder: str, lease_s: float, wait_s: float, known: Head | None = None) -> Lease:
    """Wait until nobody writes a folder, and take the right to. `known`: the head to go on from, unless the store has
    one that is as new.

    Raises:
        HeldError: somebody still writes there after `wait_s`, and lives.
        ObjectHomeError: the store does not answer.
    """
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
            head = seen.head if seen else Head(folder)
            if known and not head.erased and head.number < known.number:
                head = known
            taken = heads.write(head.taken_by(me), seen)
            if taken:
                return Lease(heads, taken, lease_s)
        elif lives and now - began >= wait_s:
            assert seen
            who = seen.head.holder.rpartition(":")[0]
            raise HeldError(f"another build ({who}) writes to {folder}; wait until it has ended, or stop it")
        time.sleep(min(0.2, lease_s / 10))
