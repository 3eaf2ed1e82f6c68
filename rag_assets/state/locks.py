"""One writer at a time: a lock file for each source and each tenant, and a home that machines share.

An executor may start a second attempt of a step while the first one still runs, because it cannot reach the first
worker. The second attempt waits for as long as the first one lives: both would write the same files.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

from rag_serving.config.loading import Config
from rag_serving.shared_home import HeldError, HomeFollower, shared_home, written_with


def refresh_sources(config: Config, sources: Iterable[str]) -> None:
    """Fetch other machines' work on sources and their tenants, so that only news are processed. Raises ConfigError,
    ObjectHomeError: the store of a shared home cannot be used."""
    if home := shared_home(config):
        chosen = sorted(sources)
        for key in chosen:
            home.refresh(f"sources/{key}")
        for tenant in sorted({config.sources[key].tenant for key in chosen}):
            home.refresh(f"tenants/{tenant}")


def refresh_decisions(config: Config) -> str | None:
    """Fetch the small files that record syncs and publications, unless that was done a moment ago. Return why
    everything here may be older than other machines' work, None if only part of it: a problem with one tenant is
    logged, and delays no other."""
    if not config.object_store.url:
        return None
    follower = _follower(config.model_dump_json())
    follower.fetch_if_due()
    return follower.problem if follower.is_away else None


@lru_cache(maxsize=4)
def _follower(config: str) -> HomeFollower:
    settings = Config.model_validate_json(config)
    home = shared_home(settings)
    assert home
    return home.follower(settings, settings.tenants, to_decide)


def to_decide(path: str, _is_generation: bool) -> bool:
    """Return whether a file is needed for decisions: small files record publications and their inputs."""
    return "/" not in path and (path.endswith(".json") or path == "current")


def is_only_followed(config: Config, folder: Path) -> bool:
    """Return whether a folder of the home has but the small files of one that other machines write."""
    home = shared_home(config)
    return home is not None and home.is_followed(folder.absolute().relative_to(home.home).as_posix())


_POLL_S = 0.2
_LOOK_S = 2.0
RUN_WAIT_S = 86_400.0
"""How long a step waits for another attempt of itself, or for another step of its run."""
_log = logging.getLogger(__name__)


class LockedError(Exception):
    """Another process writes there; the message names it."""


def is_held(folder: Path) -> bool:
    """Return whether a process, this one included, has the folder's lock."""
    lock = FileLock(folder.resolve() / ".lock", thread_local=False, fallback_to_soft=False)
    if not folder.is_dir():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def exclusive(folder: Path, wait_s: float = 0.0, run: str = "") -> Iterator[None]:
    """Lock the folder; a process that already has the lock simply goes on. `run`: its steps, and other attempts of this
    one, are waited for until they end. Raises LockedError: another process still has it after `wait_s` seconds."""
    path = _lock_file(folder)
    lock = FileLock(path, thread_local=False, is_singleton=True, fallback_to_soft=False)
    patience = _LockPatience(path, run, wait_s)
    while True:
        try:
            lock.acquire(timeout=min(wait_s, _LOOK_S), poll_interval=_POLL_S)
            break
        except Timeout:
            patience.refuse_at_end()
            time.sleep(_POLL_S)
    try:
        path.write_text(f"{os.getpid()} {run}".rstrip(), encoding="utf-8")
        yield
    finally:
        lock.release()


@contextmanager
def shared_by_run(folder: Path, run: str, step: str, wait_s: float = 0.0) -> Iterator[None]:
    """Share the folder's lock with other steps of the same run, in any process, that write other files. Another attempt
    of the same step is waited for until it ends. Anybody else waits for all of them. A process that has the lock
    exclusively already simply goes on. Raises LockedError: somebody else still has it after `wait_s` seconds."""
    path = _lock_file(folder)
    if FileLock(path, thread_local=False, is_singleton=True, fallback_to_soft=False).is_locked:
        yield
        return
    with _held_by_run(path.with_name(f".lock.{step}"), run, wait_s, alone=True), _held_by_run(path, run, wait_s):
        yield


@contextmanager
def locked(
    config: Config, folder: Path, wait_s: float = 0.0, run: str | None = None, shared_as: str | None = None
) -> Iterator[None]:
    """Lock a folder of the home, against other processes of this machine and, if the home is shared, other machines.
    `run`: the id of the run whose step this is; `shared_as`: the step's name, if other steps of its run may write other
    files there meanwhile. On other machines they wait for each other. Raises LockedError: somebody else still has it
    after `wait_s` seconds. Raises ObjectHomeError: the store of a shared home cannot be used."""
    is_remote = bool(config.object_store.url)
    patient_s = RUN_WAIT_S if run and is_remote else wait_s  # a lease does not say whose run has it
    if run and shared_as and not is_remote:
        lock = shared_by_run(folder, run, shared_as, wait_s)
    else:
        lock = exclusive(folder, wait_s, run or "")
    with lock, ExitStack() as stack:
        try:
            stack.enter_context(written_with(config, folder, patient_s))
        except HeldError as error:
            raise LockedError(str(error)) from None
        yield


class _LockPatience:
    """The time limit for a lock: `wait_s`, but `RUN_WAIT_S` while the own run has it."""

    def __init__(self, path: Path, run: str, wait_s: float) -> None:
        self._path, self._run, self._wait_s = path, run, wait_s
        self._began, self._has_told = time.monotonic(), False

    def refuse_at_end(self) -> None:
        """Raise LockedError if the holder was waited for long enough."""
        try:
            content = self._path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            content = ""
        holder, _, run = content.partition(" ")
        is_own_run = bool(self._run) and run == self._run
        if is_own_run and not self._has_told:
            self._has_told = True
            _log.warning("waits until process %s, of the same run, has written %s", holder, self._path.parent)
        if time.monotonic() - self._began >= (RUN_WAIT_S if is_own_run else self._wait_s):
            raise LockedError(
                f"another build (process {holder or 'unknown'}) writes to {self._path.parent}; "
                "wait until it has ended, or stop it"
            )


@contextmanager
def _held_by_run(path: Path, run: str, wait_s: float, alone: bool = False) -> Iterator[None]:
    """Hold a lock file for a run, with its other steps unless `alone`."""
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    patience = _LockPatience(path, run, wait_s)
    try:
        while not _joined(number, run, alone):
            patience.refuse_at_end()
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(number)


def _lock_file(folder: Path) -> Path:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / ".lock"


def _joined(number: int, run: str, alone: bool) -> bool:
    """Return whether an open lock file is now locked for one of a run's steps, or for this one alone. The first step
    locks it alone, writes the run's name and admits others. In between another run may lock it (flock(2) releases a
    lock before it converts it), so the name is read again."""
    if _locked(number, fcntl.LOCK_EX):
        os.ftruncate(number, 0)
        os.pwrite(number, f"{os.getpid()} {run}".encode(), 0)
        if alone:
            return True
    if alone:
        return False
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
