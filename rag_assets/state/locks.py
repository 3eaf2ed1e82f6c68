"""One writer at a time: a lock file for each source and each tenant.

Belongs here: taking and holding a lock between processes; the kernel lets go of it when a process dies.
Does not belong here: what is written under it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedError(Exception):
    """Another process writes there; the message names it."""


_held: set[Path] = set()


@contextmanager
def exclusive(folder: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the folder's lock; a process that holds it already simply goes on.

    Raises:
        LockedError: another process still holds it after `wait_s` seconds.
    """
    folder = folder.resolve()
    if folder in _held:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+", encoding="utf-8") as file:
        _acquire(file.fileno(), folder, time.monotonic() + wait_s)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.add(folder)
        try:
            yield
        finally:
            _held.discard(folder)


def _acquire(handle: int, folder: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = (folder / ".lock").read_text(encoding="utf-8") or "unknown"
                raise LockedError(
                    f"another build (process {holder}) writes to {folder}; wait until it has ended, or stop it"
                ) from None
            time.sleep(0.2)
