"""A machine that only reads: it looks at the heads of all its folders, and fetches those that moved.

Belongs here: rounds, threads, what the store's failures are called. Does not belong here: what is fetched of a folder
(`followed_folder`), opening a generation (`indexes.current`), which looks at the folder of this machine.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from citelock_scale.object_home.followed_folder import FollowedFolder, Look, to_answer
from citelock_scale.object_home.heads import Seen
from citelock_scale.object_home.objects import StoreAwayError
from citelock_scale.object_home.shared_folder import NOTES
from rag_serving.config.loading import Config
from rag_serving.shared_home import Needs, ObjectHomeError

FETCHED_AT_ONCE = 4
"""Folders, so that a restriction of one tenant does not wait for the gigabytes of another."""
SILENT_S = 10.0
"""Seconds after which a look that is due and has no answer counts as one that failed."""
_SOON_S = 0.5

if TYPE_CHECKING:
    from citelock_scale.object_home.home import ObjectHome

_log = logging.getLogger(__name__)


class StoreFollower:
    """Keeps this machine's folders of some tenants what was published last. Safe to use from several threads."""

    def __init__(self, home: ObjectHome, config: Config, tenants: Iterable[str], needs: Needs = to_answer) -> None:
        chosen = set(tenants)
        owners = {f"tenants/{tenant}": tenant for tenant in sorted(chosen)}
        owners |= {f"sources/{key}": source.tenant for key, source in config.sources.items() if source.tenant in chosen}
        self._home, self._owners = home, owners
        self._folders = {name: FollowedFolder(home, name, needs) for name in owners}
        self._order = list(owners)
        self._every_s, self._next, self._began = config.object_store.poll_s, 0.0, time.monotonic()
        self._start_wait_s = config.object_store.start_wait_s
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
        """Return the same of a tenant and its sources, also where the store says nothing at all."""
        for folder in self._of(tenant):
            if folder.problem:
                return folder.problem
            if folder.look is None:
                return "the object store has not said yet what is published"
            if (silent_s := time.monotonic() - folder.look.at) > self._every_s + SILENT_S:
                return f"the object store has said nothing of {folder.name} for {silent_s:.0f} seconds"
        return None

    def staleness(self, tenant: str) -> str | None:
        """Return why what this machine has of a tenant may be older than what is published; None where it is not."""
        return self.problem_of(tenant) or self._being_fetched(tenant)

    def awaited(self, tenant: str, has_older: bool) -> str | None:
        """Return what a server that starts waits for before it is sent questions of a tenant; None where it is there,
        or is not to be waited for. `has_older`: a generation from before could answer."""
        waits = not has_older or time.monotonic() - self._began < self._start_wait_s
        for folder in self._of(tenant):
            if folder.problem:
                return None
            if folder.look is None and waits:
                return "what is published is being fetched: the object store has not answered yet"
        return self._being_fetched(tenant)

    def follow(self) -> None:
        """Begin to look, in a thread, unless that was done a moment ago or is being done; returns at once."""
        if time.monotonic() < self._next or not self._looks.acquire(blocking=False):
            return
        threading.Thread(target=self._look_and_let_go, name="object home", daemon=True).start()

    def fetch(self) -> None:
        """Fetch what is new of every folder before returning; where the store fails, what is there stays in force."""
        with self._looks:
            self._look(self._home.settings.timeout_s)
        for thread in list(self._fetched.values()):
            thread.join()

    def fetch_if_due(self) -> None:
        """The same, unless it was done `object_store.poll_s` ago or less."""
        if time.monotonic() >= self._next:
            self.fetch()

    def _of(self, tenant: str) -> Iterator[FollowedFolder]:
        return (folder for name, folder in self._folders.items() if self._owners[name] == tenant)

    def _being_fetched(self, tenant: str) -> str | None:
        older = next((folder.name for folder in self._of(tenant) if folder.look and folder.look.is_older), None)
        return f"what is published is being fetched: {older}" if older else None

    def _look_and_let_go(self) -> None:
        try:
            self._look()
        finally:
            self._looks.release()

    def _look(self, wait_s: float = 0.0) -> None:
        """Look at each head; where the store is away, the next round begins with the next folder."""
        chosen = [name for name in self._order if name not in self._fetched]
        try:
            for name, seen in self._home.heads.read_all(chosen):
                if isinstance(seen, ObjectHomeError):
                    is_away = isinstance(seen, StoreAwayError)
                    self._tell(self._folders.values() if is_away else [self._folders[name]], str(seen))
                    if is_away:
                        done = self._order.index(name) + 1
                        self._order = [*self._order[done:], *self._order[:done]]
                        break
                else:
                    self._begin(self._folders[name], seen, wait_s)
        except Exception as error:  # whatever it is, the next look may go well
            self._tell((self._folders[name] for name in chosen), _said(error))
        is_behind = any(folder.look and folder.look.is_older for folder in self._folders.values())
        self._next = time.monotonic() + (min(_SOON_S, self._every_s) if is_behind else self._every_s)

    def _begin(self, folder: FollowedFolder, seen: Seen | None, wait_s: float) -> None:
        """Note what the store says of a folder, and begin to fetch it where that is new to this process."""
        try:
            folder.look = Look(time.monotonic(), folder.is_older(seen))
        except Exception as error:
            self._tell([folder], _said(error))
            return
        if seen is None or not folder.is_behind(seen):
            self._tell([folder], None)
            return
        thread = threading.Thread(
            target=self._fetch, args=(folder, seen, wait_s), name=f"fetch {folder.name}", daemon=True
        )
        self._fetched[folder.name] = thread
        thread.start()

    def _fetch(self, folder: FollowedFolder, seen: Seen, wait_s: float) -> None:
        notes = self._home.home / NOTES
        lock = FileLock(notes / f"{folder.name.replace('/', '~')}.lock", fallback_to_soft=False)
        try:
            with self._fetches:
                notes.mkdir(parents=True, exist_ok=True)
                with lock.acquire(timeout=wait_s):  # one process of this machine fetches for all
                    folder.fetch(seen)
            folder.look = Look(time.monotonic(), folder.is_behind(seen))
            self._tell([folder], None)
        except Timeout:
            if wait_s:
                self._tell([folder], f"another process of this machine is still fetching {folder.name}")
        except Exception as error:  # a store may have anything: what was fetched before answers, and the next try comes
            self._tell([folder], _said(error))
        finally:
            self._fetched.pop(folder.name, None)

    def _tell(self, folders: Iterable[FollowedFolder], problem: str | None) -> None:
        """Note a problem of folders, and log one that is new."""
        changed = [folder for folder in folders if folder.problem != problem]
        if changed and problem:
            _log.error("what was fetched before goes on answering: %s", problem)
        for folder in changed:
            if not problem:
                _log.warning("%s: the object store answers again", folder.name)
            folder.problem = problem


def _said(error: Exception) -> str:
    """Return an error as a problem, in one line."""
    if isinstance(error, ObjectHomeError | OSError):
        return str(error)
    return f"what the object store has cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
