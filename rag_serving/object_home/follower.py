"""A machine that only reads: it looks at the heads of all its folders, and fetches those that moved.

Belongs here: rounds, threads, what the store's failures are called. Does not belong here: what is fetched of a folder
(`followed_folder`), opening a generation (`indexes.current`), which looks at the folder of this machine.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

from filelock import FileLock, Timeout

from rag_serving.config.loading import Config
from rag_serving.object_home.followed_folder import FollowedFolder, Needs, to_answer
from rag_serving.object_home.heads import Seen
from rag_serving.object_home.objects import ObjectHomeError, StoreAwayError
from rag_serving.object_home.shared_folder import NOTES
from rag_serving.object_home.shared_home import SharedHome, shared_home

FETCHED_AT_ONCE = 4
"""Folders, so that a restriction of one tenant does not wait for the gigabytes of another."""

_log = logging.getLogger(__name__)


class Follower:
    """Keeps this machine's folders of some tenants what was published last. Safe to use from several threads."""

    def __init__(self, home: SharedHome, config: Config, tenants: Iterable[str], needs: Needs = to_answer) -> None:
        chosen = set(tenants)
        owners = {f"tenants/{tenant}": tenant for tenant in sorted(chosen)}
        owners |= {f"sources/{key}": source.tenant for key, source in config.sources.items() if source.tenant in chosen}
        self._home, self._owners = home, owners
        self._folders = {name: FollowedFolder(home, name, needs) for name in owners}
        self._order = list(owners)
        self._every_s, self._next = config.object_store.poll_s, 0.0
        self._looks, self._fetches = threading.Lock(), threading.Semaphore(FETCHED_AT_ONCE)
        self._fetched: dict[str, threading.Thread] = {}

    @property
    def problem(self) -> str | None:
        """What keeps a folder from being what was published last, None where nothing does."""
        return next((folder.problem for folder in self._folders.values() if folder.problem), None)

    @property
    def is_away(self) -> bool:
        """Return whether nothing that is followed can be read, as where the store does not answer."""
        return bool(self._folders) and all(folder.problem for folder in self._folders.values())

    def problem_of(self, tenant: str) -> str | None:
        """Return the same of a tenant and its sources."""
        mine = (folder for name, folder in self._folders.items() if self._owners[name] == tenant)
        return next((folder.problem for folder in mine if folder.problem), None)

    def follow(self) -> None:
        """Begin to look, in a thread, unless that was done a moment ago or is being done; returns at once."""
        if time.monotonic() < self._next or not self._looks.acquire(blocking=False):
            return
        threading.Thread(target=self._look_and_let_go, name="object home", daemon=True).start()

    def fetch(self) -> None:
        """Fetch what is new of every folder before returning; where the store fails, what is there stays in force."""
        with self._looks:
            self._look()
        for thread in list(self._fetched.values()):
            thread.join()

    def fetch_if_due(self) -> None:
        """The same, unless it was done `object_store.poll_s` ago or less."""
        if time.monotonic() >= self._next:
            self.fetch()

    def _look_and_let_go(self) -> None:
        try:
            self._look()
        finally:
            self._looks.release()

    def _look(self) -> None:
        """Look at each head; where the store is away, the next round begins with the next folder."""
        for done, name in enumerate(self._order):
            folder = self._folders[name]
            if name in self._fetched:
                continue
            try:
                self._begin(folder, self._home.heads.read(name))
            except StoreAwayError as error:
                self._order = [*self._order[done + 1 :], *self._order[: done + 1]]
                self._tell(self._folders.values(), str(error))
                break
            except (ObjectHomeError, OSError) as error:
                self._tell([folder], str(error))
        self._next = time.monotonic() + self._every_s

    def _begin(self, folder: FollowedFolder, seen: Seen | None) -> None:
        if seen is None or not folder.is_behind(seen):
            self._tell([folder], None)
            return
        thread = threading.Thread(target=self._fetch, args=(folder, seen), name=f"fetch {folder.name}", daemon=True)
        self._fetched[folder.name] = thread
        thread.start()

    def _fetch(self, folder: FollowedFolder, seen: Seen) -> None:
        notes = self._home.home / NOTES
        lock = FileLock(notes / f"{folder.name.replace('/', '~')}.lock", fallback_to_soft=False)
        try:
            with self._fetches:
                notes.mkdir(parents=True, exist_ok=True)
                with lock.acquire(timeout=self._home.settings.timeout_s):  # one process of this machine fetches for all
                    folder.fetch(seen)
            self._tell([folder], None)
        except Timeout:
            self._tell([folder], f"another process of this machine is still fetching {folder.name}")
        except (ObjectHomeError, OSError) as error:
            self._tell([folder], str(error))
        finally:
            del self._fetched[folder.name]

    def _tell(self, folders: Iterable[FollowedFolder], problem: str | None) -> None:
        """Note a problem of folders, and log one that is new."""
        changed = [folder for folder in folders if folder.problem != problem]
        if changed and problem:
            _log.error("what was fetched before goes on answering: %s", problem)
        for folder in changed:
            if not problem:
                _log.warning("%s: the object store answers again", folder.name)
            folder.problem = problem


def open_follower(config: Config, tenants: Iterable[str], needs: Needs = to_answer) -> Follower | None:
    """Return what keeps a reading machine up to date; None where its home is not shared."""
    home = shared_home(config)
    return Follower(home, config, tenants, needs) if home else None
