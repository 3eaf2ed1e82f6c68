"""A machine that only reads: it fetches what was published, and nothing that only a build needs.

Belongs here: what is fetched and when, what the store's failures are called. Does not belong here: opening a generation
(`indexes.current`), which looks at the folder of this machine.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from pathlib import Path

from filelock import FileLock, Timeout

from rag_serving.config.loading import Config
from rag_serving.object_home.heads import Head
from rag_serving.object_home.objects import ObjectHomeError
from rag_serving.object_home.shared_folder import NOTES, SharedFolder
from rag_serving.object_home.shared_home import SharedHome, shared_home, unless_written

KEPT_GENERATIONS = 2
"""Of a tenant, the newest that were fetched; one that was replaced may still be answering."""
_BUILDS_ONLY = ("cache/", "candidate/")

_log = logging.getLogger(__name__)


class Follower:
    """Keeps this machine's folders of some tenants what was published last. Safe to use from several threads."""

    def __init__(self, home: SharedHome, config: Config, tenants: list[str]) -> None:
        self._home = home
        self._names = [f"tenants/{tenant}" for tenant in tenants]
        self._names += [f"sources/{key}" for key, source in config.sources.items() if source.tenant in tenants]
        self._seen: dict[str, int] = {}
        self._every_s, self._next = config.object_store.poll_s, 0.0
        self._busy = threading.Lock()
        self.problem: str | None = None

    def follow(self) -> None:
        """Begin to look, in a thread, unless that was done a moment ago or is being done; returns at once."""
        if time.monotonic() < self._next or not self._busy.acquire(blocking=False):
            return
        threading.Thread(target=self._follow, name="object home", daemon=True).start()

    def fetch(self) -> None:
        """Fetch what is new of every folder before returning; where the store fails, what is there stays in force."""
        with self._busy:
            self._fetch()

    def _follow(self) -> None:
        try:
            self._fetch()
        finally:
            self._busy.release()

    def _fetch(self) -> None:
        lock = FileLock(self._home.home / NOTES / ".lock", fallback_to_soft=False)
        try:
            self._home.home.joinpath(NOTES).mkdir(parents=True, exist_ok=True)
            with lock.acquire(timeout=self._home.settings.timeout_s):  # one process of this machine fetches for all
                for name in self._names:
                    self._fetch_folder(name)
            self._tell(None)
        except Timeout:
            self._tell("another process of this machine is still fetching")
        except (ObjectHomeError, OSError) as error:
            self._tell(str(error))
        self._next = time.monotonic() + self._every_s

    def _fetch_folder(self, name: str) -> None:
        seen = self._home.heads.read(name)
        if seen is None or self._seen.get(name) == seen.head.number:
            return
        with unless_written(self._home.home / name) as is_free:
            if not is_free:
                return  # a build of this machine has it, and what it publishes is here
            folder = self._home.folder(name)  # read anew: another process may have fetched since
            if seen.head.tree and name.startswith("tenants/"):
                self._fetch_tenant(folder, seen.head)
            elif seen.head.tree:
                folder.fetch(seen.head, _is_told_of)
        self._seen[name] = seen.head.number

    def _fetch_tenant(self, folder: SharedFolder, head: Head) -> None:
        tree = folder.tree(head)
        current = self._published(folder, head)
        prefix = f"generations/{current}/"

        def is_wanted(path: str) -> bool:
            return path.startswith(prefix) or not path.startswith(("generations/", *_BUILDS_ONLY))

        if current and not any(path.startswith(prefix) for path in tree):
            raise ObjectHomeError(f"{folder.name} names generation {current}, and the store has none of its files")
        folder.fetch(head, is_wanted)
        self._evict(folder.folder, current)

    def _published(self, folder: SharedFolder, head: Head) -> str:
        content = folder.content(head, "published.json")
        if content is None:
            return ""
        try:
            return str(json.loads(content)["current"])
        except (ValueError, KeyError, TypeError):
            raise ObjectHomeError(f"what is published of {folder.name} cannot be read; build again") from None

    def _evict(self, folder: Path, current: str) -> None:
        """Delete the oldest generations of this machine, beyond those that are kept."""
        there = [place for place in (folder / "generations").glob("*") if place.is_dir() and place.name != current]
        there.sort(key=lambda place: place.stat().st_mtime, reverse=True)
        for place in there[KEPT_GENERATIONS - 1 :]:
            shutil.rmtree(place, ignore_errors=True)

    def _tell(self, problem: str | None) -> None:
        if problem and problem != self.problem:
            _log.error("what was fetched before goes on answering: %s", problem)
        elif self.problem and not problem:
            _log.warning("the object store answers again")
        self.problem = problem


def _is_told_of(path: str) -> bool:
    """Return whether a file of a source tells of its last sync, or of its groups' members."""
    return path.endswith(".json") or path.startswith("group_members")


def open_follower(config: Config, tenants: list[str]) -> Follower | None:
    """Return what keeps a reading machine up to date; None where its home is not shared."""
    home = shared_home(config)
    return Follower(home, config, tenants) if home else None
