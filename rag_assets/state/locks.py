"""One writer at a time: a lock file for each source and each tenant.

Belongs here: taking and holding a lock between processes, alone or with other steps of the same run; the kernel lets
go of it when a process dies.
Does not belong here: what is written under it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rag_serving.config.loading import Config
from rag_serving.object_home.leases import HeldError
from rag_serving.object_home.shared_home import written_with

_POLL_S = 0.2
_RUN_WAIT_S = 3600.0
"""For steps of the same run, which end."""


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
        holder = path.read_text(encoding="utf-8").partition(" ")[0] or "unknown"
        raise LockedError(_refusal(holder, folder)) from None
    try:
        path.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        lock.release()


@contextmanager
def shared_by_run(folder: Path, run: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the folder's lock together with other steps of the same run, in whatever process, that write other files.

    Anybody else waits for all of them. A process that holds the lock exclusively already simply goes on.

    Raises:
        LockedError: somebody else still holds it after `wait_s` seconds.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    if FileLock(path, thread_local=False, is_singleton=True, fallback_to_soft=False).is_locked:
        yield
        return
    until = time.monotonic() + wait_s
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _joined(number, run):
            if time.monotonic() >= until:
                holder = path.read_text(encoding="utf-8").partition(" ")[0] or "unknown"
                raise LockedError(_refusal(holder, folder))
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(number)


@contextmanager
def locked(config: Config, folder: Path, wait_s: float = 0.0, run: str | None = None) -> Iterator[None]:
    """Hold a folder of the home, against other processes of this machine and, where the home is shared, other machines.

    `run`: its other steps may write other files there meanwhile; those on other machines wait for each other.

    Raises:
        LockedError: somebody else still holds it after `wait_s` seconds.
        ObjectHomeError: the store of a shared home cannot be used.
    """
    is_shared_by_run = run is not None and not config.object_store.url
    patient_s = _RUN_WAIT_S if run is not None and config.object_store.url else wait_s
    lock = shared_by_run(folder, str(run), wait_s) if is_shared_by_run else exclusive(folder, patient_s)
    with lock, ExitStack() as stack:
        try:
            stack.enter_context(written_with(config, folder, patient_s))
        except HeldError as error:
            raise LockedError(str(error)) from None
        yield


def _joined(number: int, run: str) -> bool:
    """Return whether an open lock file is now held as one of a run's steps.

    The first step takes it alone, writes the run's name and lets others in. Between these another run may take it
    (flock(2) gives up a lock before it changes it), so the name is read again.
    """
    if _locked(number, fcntl.LOCK_EX):
        os.ftruncate(number, 0)
        os.pwrite(number, f"{os.getpid()} {run}".encode(), 0)
    if not _locked(number, fcntl.LOCK_SH):
        return False
    if os.pread(number, 200, 0).decode(errors="replace").partition(" ")[2] == run:
        return True
    fcntl.flock(number, fcntl.LOCK_UN)
    return False


def _locked(number: int, kind: int) -> bool:
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _refusal(holder: str, folder: Path) -> str:
    return f"another build (process {holder}) writes to {folder}; wait until it has ended, or stop it"
