"""One folder of a machine that does not build: what is published of it is fetched, and nothing that only a build needs.

Belongs here: which files are fetched, what is evicted. Does not belong here: when, and of which folders (`follower`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from rag_serving.object_home.heads import Head, Seen
from rag_serving.object_home.objects import ObjectHomeError
from rag_serving.object_home.shared_folder import SharedFolder
from rag_serving.object_home.shared_home import SharedHome, unless_written

KEPT_GENERATIONS = 2
"""Of a tenant, the newest that were fetched; one that was replaced may still be answering."""
_BUILDS_ONLY = ("cache/", "candidate/")
_TRIES = 3

Needs = Callable[[str], bool]
"""Whether a file of the tenant, or of the published generation, by its path there, is needed."""


def to_answer(_: str) -> bool:
    """All files are needed to answer from what is published."""
    return True


def to_decide(path: str) -> bool:
    """Small files say what was published, and what it was made from."""
    return "/" not in path and (path.endswith(".json") or path == "current")


class FollowedFolder:
    """Keeps a folder of this machine what was published last. `problem`: why it is not; None where it is."""

    def __init__(self, home: SharedHome, name: str, needs: Needs = to_answer) -> None:
        self.name = name
        self.problem: str | None = None
        self._home, self._needs, self._number = home, needs, -1

    def is_behind(self, seen: Seen | None) -> bool:
        """Return whether a head is another one than that which was fetched."""
        return seen is not None and seen.head.number != self._number

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
            if head.tree and self.name.startswith("tenants/"):
                self._fetch_tenant(folder, head)
            elif head.tree:
                folder.fetch(head, _is_told_of)
        self._number = head.number

    def _fetch_tenant(self, folder: SharedFolder, head: Head) -> None:
        tree = folder.tree(head)
        current = _published(folder, head)
        prefix = f"generations/{current}/"

        def is_wanted(path: str) -> bool:
            if path.startswith(prefix):
                return folder.builds or self._needs(path.removeprefix(prefix))
            return self._needs(path) and not path.startswith(("generations/", *_BUILDS_ONLY))

        if current and not any(path.startswith(prefix) for path in tree):
            raise ObjectHomeError(f"{folder.name} names generation {current}, and the store has none of its files")
        folder.fetch(head, is_wanted)
        if not folder.builds:
            _evict(folder.folder, current)


def _published(folder: SharedFolder, head: Head) -> str:
    content = folder.content(head, "published.json")
    if content is None:
        return ""
    try:
        return str(json.loads(content)["current"])
    except (ValueError, KeyError, TypeError):
        raise ObjectHomeError(f"what is published of {folder.name} cannot be read; build again") from None


def _evict(folder: Path, current: str) -> None:
    """Delete the oldest generations of this machine, beyond those that are kept."""
    there = [place for place in (folder / "generations").glob("*") if place.is_dir() and place.name != current]
    there.sort(key=lambda place: place.stat().st_mtime, reverse=True)
    for place in there[KEPT_GENERATIONS - 1 :]:
        shutil.rmtree(place, ignore_errors=True)


def _is_told_of(path: str) -> bool:
    """Return whether a file of a source tells of its last sync, or of its groups' members."""
    return path.endswith(".json") or path.startswith("group_members")
