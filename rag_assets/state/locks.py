"""One writer at a time: a lock file for each source and each tenant.

Belongs here: taking and holding a lock between processes; the kernel lets go of it when a process dies.
Does not belong here: what is written under it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_POLL_S = 0.2


class LockedError(Exception):
    """Another process writes there; the message names it."""


def is_held(folder: Path) -> bool:
    """Return whether a process, this one included, holds the folder's lock."""
    lock = FileLock(folder.resolve() / ".lock", thread_local=False, fallback_to_soft=False)
    if not folder.is_dir():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def exclusive(folder: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the folder's lock; a process that holds it already simply goes on.

    Raises:
        LockedError: another process still holds it after `wait_s` seconds.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    lock = FileLock(path, thread_local=False, is_singleton=True, fallback_to_soft=False)
    try:
        lock.acquire(timeout=wait_s, poll_interval=_POLL_S)
    except Timeout:
        holder = path.read_text(encoding="utf-8") or "unknown"
        raise LockedError(
            f"another build (process {holder}) writes to {folder}; wait until it has ended, or stop it"
        ) from None
    try:
        path.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        lock.release()
