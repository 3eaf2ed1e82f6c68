"""One folder of a machine that does not build: what is published of it is fetched, and nothing that only a build needs.

Belongs here: which files are fetched, what is evicted. Does not belong here: when, and of which folders (`follower`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from citelock_scale.object_home.eviction import make_room
from citelock_scale.object_home.heads import Head, Seen
from citelock_scale.object_home.shared_folder import SharedFolder, unless_written
from rag_serving.shared_home import Needs, ObjectHomeError

if TYPE_CHECKING:
    from citelock_scale.object_home.home import ObjectHome

_BUILDS_ONLY = ("cache/", "candidate/")
_TRIES = 3


def to_answer(_path: str, _is_generation: bool) -> bool:
    """All files are needed to answer from what is published."""
    return True


def to_answer_from_a_database(_path: str, is_generation: bool) -> bool:
    """No file of a generation is needed where the pages are in the database of `index`."""
    return not is_generation


class Look(NamedTuple):
    """What the store said last: when [s of the monotonic clock], and whether this machine has an older state."""

    at: float
    is_older: bool


class FollowedFolder:
    """Keeps a folder of this machine what was published last. `problem`: why it is not; None where it is. `look`: what
    the store said last, None where it has said nothing yet."""

    def __init__(self, home: ObjectHome, name: str, needs: Needs = to_answer) -> None:
        self.name = name
        self.problem: str | None = None
        self.look: Look | None = None
        self._home, self._needs, self._number = home, needs, -1

    def is_behind(self, seen: Seen) -> bool:
        """Return whether a head is another one than that which this process fetched, or found fetched."""
        return seen.head.number != self._number

    def is_older(self, seen: Seen | None) -> bool:
        """Return whether this machine has another state than the one of a head, whichever process fetched it.

        Raises:
            ObjectHomeError: the store lost the head.
        """
        if seen is not None and not self.is_behind(seen):
            return False
        folder = self._home.folder(self.name)
        if seen is None:
            folder.refuse_older(None)
            return False
        return folder.number != seen.head.number

    def fetch(self, seen: Seen) -> None:
        """Fetch what a head names; where that was replaced, and its objects deleted meanwhile, what does now.

        Raises:
            ObjectHomeError: the store cannot be used, or what it has is not what it should be.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._fetch(seen.head)
                return
            except ObjectHomeError:
                newer = self._home.heads.read(self.name)
                if not left or newer is None or newer.head.number == seen.head.number:
                    raise
                seen = newer

    def _fetch(self, head: Head) -> None:
        with unless_written(self._home.home / self.name) as is_free:
            if not is_free:
                return  # a build of this machine has it, and what it publishes is here
            folder = self._home.folder(self.name)  # read anew: another process may have fetched since
            if head.in_force and self.name.startswith("tenants/"):
                self._fetch_tenant(folder, head)
            elif head.in_force or head.erased:
                folder.fetch(head, _is_told_of)
        self._number = head.number

    def _fetch_tenant(self, folder: SharedFolder, head: Head) -> None:
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


def _published(folder: SharedFolder, head: Head) -> str:
    content = folder.content(head, "published.json")
    if content is None:
        return ""
    try:
        return str(json.loads(content)["current"])
    except (ValueError, KeyError, TypeError):
        raise ObjectHomeError(f"what is published of {folder.name} cannot be read; build again") from None


def _is_told_of(path: str) -> bool:
    """Return whether a file of a source tells of its last sync, or of its groups' members."""
    return path.endswith(".json") or path.startswith("group_members")
