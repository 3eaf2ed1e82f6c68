"""A home that machines share: writing one of its folders, one machine at a time, with one lease for all threads of a
process that are at it."""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from citelock_scale.object_home.follower import StoreFollower, delete_tenants, to_answer, to_answer_from_a_database
from citelock_scale.object_home.heads import FolderHead, Heads, Lease, take_lease
from citelock_scale.object_home.objects import Objects
from citelock_scale.object_home.shared_folder import SharedFolder, is_followed, unless_written
from citelock_scale.object_home.writing import (
    Listed,
    Repaired,
    erase,
    let_go,
    listed,
    looked_over,
    remaining,
    repair,
    restored,
    send,
    sweep,
    sweep_if_due,
)
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.index import ObjectStore
from rag_serving.config.loading import Config
from rag_serving.shared_home import Erased, HeldError, Needs, ObjectHomeError

_log = logging.getLogger(__name__)


@dataclass
class _Held:
    """The state of one folder: `lock` is taken while its lease is acquired, and while files are sent."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    writers: int = 0
    is_told_to_end: bool = False
    begun: tuple[SharedFolder, Lease] | None = None


class ObjectHome:
    """The home that lies in `home` on this machine and in an object store for all. Safe to use from several threads."""

    def __init__(self, settings: ObjectStore, home: Path) -> None:
        """Raises ObjectHomeError if it cannot be used."""
        if not os.environ.get(SECRET_ENV):
            raise ObjectHomeError(
                f"a home in an object store needs {SECRET_ENV}, the same on all machines; "
                "`openssl rand -hex 32` makes one"
            )
        self.home, self.settings = home.absolute(), settings
        self.objects = Objects(settings)
        self.heads = Heads(self.objects, home)
        self._lock, self._held = threading.Lock(), defaultdict[str, _Held](_Held)

    def folder(self, name: str) -> SharedFolder:
        """Return a folder by its path below the home."""
        return SharedFolder(self.objects, self.home, name, self.settings.parallel)

    def refresh(self, name: str) -> None:
        with unless_written(self.home / name) as is_free:
            if is_free and (seen := self.heads.read(name)):
                self.folder(name).fetch(seen.head)

    def listed(self, name: str) -> Listed:
        """Return the store's objects of a folder. Raises ObjectHomeError: the store cannot be used."""
        seen = self.heads.read(name)
        return listed(self.folder(name), seen.head if seen else FolderHead(name))

    def sweep(self, name: str, wait_s: float = 0.0) -> Listed:
        """Delete the objects of a folder that its tree in force does not need. Return the listing before. Raises
        HeldError: another machine writes there. Raises ObjectHomeError: the store cannot be used."""
        lease = take_lease(self.heads, name, self.settings.lease_s, wait_s)
        try:
            return sweep(self.folder(name), lease)
        finally:
            let_go(lease)

    def repair(self, name: str, dry_run: bool = False, without_lost: bool = False, wait_s: float = 0.0) -> Repaired:
        """Compare the objects of a folder with their digests, and send lost ones again from this machine.
        `without_lost`: publish the folder without lost files that this machine lacks, too. Raises HeldError: another
        machine writes there. Raises ObjectHomeError: the store cannot be used, or nothing can be published."""
        folder = self.folder(name)
        if dry_run:
            return looked_over(folder, self.heads.read(name), without_lost)
        known = restored(folder, self.heads.read(name))
        lease = take_lease(self.heads, name, self.settings.lease_s, wait_s, known)
        return repair(folder, lease, known, without_lost)

    def is_followed(self, name: str) -> bool:
        return is_followed(self.home, name)

    def follower(self, config: Config, tenants: Iterable[str], needs: Needs | None = None) -> StoreFollower:
        return StoreFollower(self, config, tenants, needs or to_answer)

    def server_follower(self, config: Config) -> StoreFollower:
        delete_tenants(self.home, config.tenants)
        on_disk = config.index.kind == "disk"
        return self.follower(config, config.tenants, None if on_disk else to_answer_from_a_database)

    def count(self, name: str) -> int:
        return remaining(self.folder(name), self.heads)

    def erase(self, name: str) -> Erased:
        return erase(self.folder(name), self.heads)

    @contextmanager
    def writing(self, name: str, wait_s: float = 0.0) -> Iterator[None]:
        """Reserve a folder for writing: fetch what was shared last, and share it at the end. Later entrants of this
        process join, and the last one shares. Work done before an error is shared, too, as in a local folder; that of a
        process that is killed, or told to end, stays on this machine. Raises HeldError: another machine writes there,
        or took over. Raises ObjectHomeError: the store cannot be used; nothing is lost on this machine."""
        with self._lock:
            held = self._held[name]
        with held.lock:
            if not held.writers:
                held.begun, held.is_told_to_end = self._begin(name, wait_s), False
            held.writers += 1
        try:
            yield
        except Exception:
            self._end(held, is_failing=True)
            raise
        except BaseException:
            held.is_told_to_end = True
            self._end(held, is_failing=True)
            raise
        self._end(held, is_failing=False)

    def _begin(self, name: str, wait_s: float) -> tuple[SharedFolder, Lease]:
        folder = self.folder(name)
        seen = self.heads.read(name)
        folder.refuse_older(seen.head if seen else None)  # before a lease makes a head of number 0
        lease = take_lease(self.heads, name, self.settings.lease_s, wait_s)
        try:
            folder.fetch(lease.head)
            sweep_if_due(folder, lease, self.settings.sweep_after)
        except BaseException:
            let_go(lease)
            raise
        return folder, lease

    def _end(self, held: _Held, is_failing: bool) -> None:
        with held.lock:
            held.writers -= 1
            if held.writers:
                return
            assert held.begun
            (folder, lease), held.begun = held.begun, None
            if held.is_told_to_end:
                let_go(lease)
                return
            try:
                self._share(folder, lease)
            except ObjectHomeError as error:
                if not is_failing:  # else the first error is the one to tell
                    raise
                _log.error("%s", error)

    def _share(self, folder: SharedFolder, lease: Lease) -> None:
        try:
            tree = send(folder, lease)
        except BaseException as error:
            let_go(lease)
            if isinstance(error, HeldError):
                self._lost(folder, lease)
            raise
        try:
            folder.note(lease.release(tree), is_whole=True)
        except HeldError:
            self._lost(folder, lease)
            raise

    def _lost(self, folder: SharedFolder, lease: Lease) -> None:
        """Delete objects sent under a lease that ended by an erasure; otherwise a sweep does it."""
        with suppress(ObjectHomeError):
            seen = self.heads.read(folder.name)
            if seen and seen.head.erased:
                self.objects.delete(lease.sent)


def object_home(config: Config) -> ObjectHome | None:
    """Return the home that a configuration shares with other machines, None if it is a folder of this one. Raises
    ObjectHomeError: it cannot be used."""
    if not config.object_store.url:
        return None
    return _opened(config.object_store.model_dump_json(), config.home)


@lru_cache(maxsize=16)
def _opened(settings: str, home: Path) -> ObjectHome:
    return ObjectHome(ObjectStore.model_validate_json(settings), home)
