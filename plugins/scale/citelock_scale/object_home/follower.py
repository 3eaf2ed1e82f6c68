"""A machine that only reads: it looks at the heads of all its folders, and fetches what is published of what moved."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock, Timeout

from citelock_scale.object_home.heads import FolderHead, Seen
from citelock_scale.object_home.objects import StoreAwayError
from citelock_scale.object_home.shared_folder import FOLDER as DOWNLOADS
from citelock_scale.object_home.shared_folder import NOTES, SharedFolder, is_followed, notes_of, unless_written
from rag_serving.config.loading import Config
from rag_serving.shared_home import Needs, ObjectHomeError

if TYPE_CHECKING:
    from citelock_scale.object_home.home import ObjectHome

KEPT_GENERATIONS = 2
"""Of a tenant, the newest that were fetched; one that was replaced may still be answering."""
_BUILDS_ONLY = ("cache/", "candidate/")
_TRIES = 3
FETCHED_AT_ONCE = 4
"""Folders, so that a restriction of one tenant does not wait for the gigabytes of another."""
SILENT_S = 10.0
"""Seconds after which a look that is due and has no answer counts as one that failed."""
_SOON_S = 0.5

_log = logging.getLogger(__name__)


def make_room(home: Path, most_bytes: int) -> None:
    """Delete generations beyond those that are kept of each tenant, then, the oldest first, those that are not
    published, until all take `most_bytes` at most; 0: any number."""
    replaced = list[Path]()
    for folder in _followed_tenants(home):
        beside = _beside_the_published(folder)
        for place in beside[KEPT_GENERATIONS - 1 :]:
            shutil.rmtree(place, ignore_errors=True)
        if not (folder / DOWNLOADS).exists():  # else the newest may be one that is just moved in
            replaced += beside[: KEPT_GENERATIONS - 1]
    if not most_bytes:
        return
    used = sum(map(_bytes_of, home.glob("tenants/*/generations/*")))
    for place in sorted(replaced, key=_changed):
        if used <= most_bytes:
            return
        used -= _bytes_of(place)
        shutil.rmtree(place, ignore_errors=True)


def delete_tenants(home: Path, configured: Collection[str]) -> None:
    """Delete the files of tenants that are no longer configured."""
    for folder in _followed_tenants(home):
        if folder.name not in configured:
            _log.warning("tenant %s is not configured any more: what was fetched of it is deleted", folder.name)
            shutil.rmtree(folder, ignore_errors=True)
            notes = notes_of(home, f"tenants/{folder.name}")
            notes.unlink(missing_ok=True)
            notes.with_suffix(".tree").unlink(missing_ok=True)


def _followed_tenants(home: Path) -> Iterator[Path]:
    """Yield the folders of tenants that this machine never built."""
    for notes in sorted((home / NOTES).glob("tenants~*.json")):
        name = notes.stem.replace("~", "/")
        if is_followed(home, name):
            yield home / name


def _beside_the_published(folder: Path) -> list[Path]:
    """Return the generations of a tenant on this machine that are not published, the newest first."""
    named = set[str]()  # by the record of the tenant, or by the pointer beside it
    with suppress(OSError, ValueError, KeyError, TypeError):
        named.add(str(json.loads((folder / "published.json").read_bytes())["current"]))
    with suppress(OSError, ValueError):
        named.add((folder / "current").read_text(encoding="utf-8").strip())
    there = [place for place in (folder / "generations").glob("*") if place.is_dir() and place.name not in named]
    return sorted(there, key=_changed, reverse=True)


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _bytes_of(folder: Path) -> int:
    """Return a folder's size on the disk."""
    size = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                size += os.lstat(Path(place, name)).st_size
    return size


def to_answer(_path: str, _is_generation: bool) -> bool:
    """Return whether a file is needed: all are, to answer from the publication."""
    return True


def to_answer_from_a_database(_path: str, is_generation: bool) -> bool:
    """No file of a generation is needed where the pages are in the database of `index`."""
    return not is_generation


class Look(NamedTuple):
    """The last answer of the store: its time [s of the monotonic clock], and whether this machine's state is older."""

    at: float
    is_older: bool


class FollowedFolder:
    """Keeps a folder of this machine what was published last. `problem`: why it is not; None if it is. `look`: what the
    store said last, None if it has said nothing yet."""

    def __init__(self, home: ObjectHome, name: str, needs: Needs = to_answer) -> None:
        self.name = name
        self.problem: str | None = None
        self.look: Look | None = None
        self._home, self._needs, self._number = home, needs, -1

    def is_behind(self, seen: Seen) -> bool:
        """Return whether a head differs from the one fetched last by this process."""
        return seen.head.number != self._number

    def is_older(self, seen: Seen | None) -> bool:
        """Return whether this machine has another state than the one of a head, whichever process fetched it. Raises
        ObjectHomeError: the store lost the head."""
        if seen is not None and not self.is_behind(seen):
            return False
        folder = self._home.folder(self.name)
        if seen is None:
            folder.refuse_older(None)
            return False
        return folder.seen.number != seen.head.number

    def fetch(self, seen: Seen) -> None:
        """Fetch a head's files; if it was replaced, and its objects deleted meanwhile, those of the new head. Raises
        ObjectHomeError: the store cannot be used, or its objects are damaged."""
        for left in reversed(range(_TRIES)):
            try:
                self._fetch(seen.head)
                return
            except ObjectHomeError:
                newer = self._home.heads.read(self.name)
                if not left or newer is None or newer.head.number == seen.head.number:
                    raise
                seen = newer

    def _fetch(self, head: FolderHead) -> None:
        with unless_written(self._home.home / self.name) as is_free:
            if not is_free:
                return  # a build of this machine has it, and what it publishes is here
            folder = self._home.folder(self.name)  # read anew: another process may have fetched since
            if head.in_force and self.name.startswith("tenants/"):
                self._fetch_tenant(folder, head)
            elif head.in_force or head.erased:
                folder.fetch(head, _is_told_of)
        self._number = head.number

    def _fetch_tenant(self, folder: SharedFolder, head: FolderHead) -> None:
        files = folder.tree(head).files
        current = _published(folder, head)
        prefix = f"generations/{current}/"

        def is_wanted(path: str) -> bool:
            if path.startswith(prefix):
                return folder.builds or self._needs(path.removeprefix(prefix), True)
            return self._needs(path, False) and not path.startswith(("generations/", *_BUILDS_ONLY))

        if current and not any(path.startswith(prefix) for path in files):
            raise ObjectHomeError(f"{folder.name} names generation {current}, and the store has none of its files")
        limit = self._home.settings.cache_bytes
        if limit:
            new = (fact.size for path, fact in files.items() if is_wanted(path) and not (folder.folder / path).exists())
            make_room(self._home.home, max(1, limit - sum(new)))
        folder.fetch(head, is_wanted)
        make_room(self._home.home, limit)


def _published(folder: SharedFolder, head: FolderHead) -> str:
    content = folder.content(head, "published.json")
    if content is None:
        return ""
    try:
        return str(json.loads(content)["current"])
    except (ValueError, KeyError, TypeError):
        raise ObjectHomeError(f"what is published of {folder.name} cannot be read; build again") from None


def _is_told_of(path: str) -> bool:
    """Return whether a file of a source records its last sync, or its groups' members."""
    return path.endswith(".json") or path.startswith("group_members")


class StoreFollower:
    """Follows the store for some tenants; a `HomeFollower`. Safe to use from several threads."""

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
        return next((folder.problem for folder in self._folders.values() if folder.problem), None)

    @property
    def is_away(self) -> bool:
        return bool(self._folders) and all(folder.problem for folder in self._folders.values())

    def problem_of(self, tenant: str) -> str | None:
        for folder in self._of(tenant):
            if folder.problem:
                return folder.problem
            if folder.look is None:
                return "the object store has not said yet what is published"
            if (silent_s := time.monotonic() - folder.look.at) > self._every_s + SILENT_S:
                return f"the object store has said nothing of {folder.name} for {silent_s:.0f} seconds"
        return None

    def staleness(self, tenant: str) -> str | None:
        return self.problem_of(tenant) or self._being_fetched(tenant)

    def awaited(self, tenant: str, has_older: bool) -> str | None:
        waits = not has_older or time.monotonic() - self._began < self._start_wait_s
        for folder in self._of(tenant):
            if folder.problem:
                return None
            if folder.look is None and waits:
                return "what is published is being fetched: the object store has not answered yet"
        return self._being_fetched(tenant)

    def follow(self) -> None:
        if time.monotonic() < self._next or not self._looks.acquire(blocking=False):
            return

        def look() -> None:
            try:
                self._look()
            finally:
                self._looks.release()

        threading.Thread(target=look, name="object home", daemon=True).start()

    def fetch(self) -> None:
        with self._looks:
            self._look(self._home.settings.timeout_s)
        for thread in list(self._fetched.values()):
            thread.join()

    def fetch_if_due(self) -> None:
        if time.monotonic() >= self._next:
            self.fetch()

    def _of(self, tenant: str) -> Iterator[FollowedFolder]:
        return (folder for name, folder in self._folders.items() if self._owners[name] == tenant)

    def _being_fetched(self, tenant: str) -> str | None:
        older = next((folder.name for folder in self._of(tenant) if folder.look and folder.look.is_older), None)
        return f"what is published is being fetched: {older}" if older else None

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
        """Note the store's state of a folder, and begin to fetch it if that is new to this process."""
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
    if isinstance(error, ObjectHomeError | OSError):
        return str(error)
    return f"what the object store has cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
