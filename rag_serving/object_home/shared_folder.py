"""One folder of this machine and its tree in the store: fetching what changed, sending what changed.

Belongs here: files and objects, in an order in which a killed process leaves nothing half.
Does not belong here: who may write (`leases`), when (`shared_home`, `follower`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from rag_serving.artifacts.digests import Stamp
from rag_serving.artifacts.store import write_json
from rag_serving.object_home.heads import Head
from rag_serving.object_home.objects import ObjectHomeError, Objects
from rag_serving.object_home.trees import (
    FileFact,
    Known,
    Tree,
    blob_name,
    content_of,
    scanned,
    shared_files,
    tree_name,
    tree_of,
)

NOTES = ".object-home"
"""Folder of the home for what this machine knows of the store."""
_LARGE_BYTES = 64 << 20
_LAST = ("published.json", "current")
_KEPT = "cache/"
"""What was paid for and is named by its content stays, though the store does not have it yet."""

Wanted = Callable[[str], bool]


def notes_of(home: Path, name: str) -> Path:
    """Return the file in which this machine notes what it knows of a folder."""
    return home / NOTES / f"{name.replace('/', '~')}.json"


def is_followed(home: Path, name: str) -> bool:
    """Return whether this machine knows a folder from the store, and never had the whole of it."""
    try:
        return not json.loads(notes_of(home, name).read_bytes())["builds"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


class SharedFolder:
    """One folder below the home, by its path such as `tenants/acme`.

    `builds`: whether this machine ever had the whole of it, as builds do, so that nothing of it is to be deleted here
    which the store still has.
    """

    def __init__(self, objects: Objects, home: Path, name: str, parallel: int) -> None:
        self.name, self.folder = name, home / name
        self.objects, self._parallel = objects, parallel
        self._notes = notes_of(home, name)
        self._number, self._tree, self._known, self.builds = self._noted()

    def fetch(self, head: Head, wanted: Wanted | None = None) -> None:
        """Make the folder what the head says. A machine that only reads names the `wanted` files, and deletes none.

        Files that a killed build left are kept while the head is the one that this machine saw last.

        Raises:
            ObjectHomeError: the head is older than one that was seen, a file is missing or not what it should be; the
                folder is then as it was, or has newer files beside those that answer.
        """
        if head.number < self._number:
            raise ObjectHomeError(
                f"the head of {self.name} is number {head.number}, and this machine saw {self._number}: somebody put "
                f"an older state back; if that is right, delete {self._notes}"
            )
        if head.tree is None:
            return
        tree = self.tree(head)
        chosen = {path: fact for path, fact in tree.items() if wanted is None or wanted(path)}
        if head.tree == self._tree:
            missing = {path: fact for path, fact in chosen.items() if not (self.folder / path).exists()}
            self._fetch_files(missing)
        else:
            local, self._known = scanned(self.folder, self._known)
            self._fetch_files({path: fact for path, fact in chosen.items() if local.get(path) != fact})
            if wanted is None:
                self._delete(path for path in local if path not in tree and not path.startswith(_KEPT))
        self._note(head, is_whole=wanted is None)

    def send(self, head: Head) -> str:
        """Store what the folder has and the head's tree has not. Return the digest of the folder's tree."""
        before = self.tree(head) if head.tree else {}
        tree, self._known = scanned(self.folder, self._known)
        there = {fact.digest for fact in before.values()}
        new = {fact.digest: path for path, fact in tree.items() if fact.digest not in there}
        self._together([(self._send_file, self.folder / path, tree[path]) for path in new.values()])
        content = content_of(tree)
        digest = hashlib.sha256(content).hexdigest()
        if digest != head.tree:
            self.objects.create(tree_name(self.name, digest), content)
        return digest

    def tree(self, head: Head) -> Tree:
        """Return the tree that a head names."""
        assert head.tree
        stored = self.objects.read(tree_name(self.name, head.tree))
        if stored is None:
            raise ObjectHomeError(f"{self.objects.url}/{tree_name(self.name, head.tree)} is missing; restore it")
        return tree_of(stored.content, head.tree)

    def content(self, head: Head, path: str) -> bytes | None:
        """Return the content of one file of a head's tree, None where the tree has none of that name."""
        fact = self.tree(head).get(path)
        if fact is None:
            return None
        content = b"".join(self.objects.blocks(blob_name(self.name, fact.digest), fact.size))
        if hashlib.sha256(content).hexdigest() != fact.digest:
            raise self._altered(fact)
        return content

    def sent(self, head: Head) -> None:
        """Remember that the folder is what this head says."""
        self._note(head, is_whole=True)

    def forget(self) -> None:
        """Delete what this machine noted of the store."""
        self._notes.unlink(missing_ok=True)

    @property
    def number(self) -> int:
        """The number of the newest head that this machine saw."""
        return self._number

    def _send_file(self, path: Path, fact: FileFact) -> None:
        name = blob_name(self.name, fact.digest)
        if fact.size <= _LARGE_BYTES:
            self.objects.create(name, _content(path, fact))
        elif not self.objects.has(name, fact.size):
            self.objects.upload(name, path)

    def _fetch_files(self, files: Tree) -> None:
        """Fetch files beside their places, then move all of them in, those that name others last."""
        if not files:
            return
        mark = f".fetched-{secrets.token_hex(4)}-"
        places = {path: (self.folder / path).with_name(mark + Path(path).name) for path in files}
        try:
            self._together([(self._fetch_file, places[path], fact) for path, fact in files.items()])
            for path in sorted(files, key=lambda path: _LAST.index(path) if path in _LAST else -1):
                places[path].replace(self.folder / path)
        finally:
            for place in places.values():
                place.unlink(missing_ok=True)
        for path, fact in files.items():
            with suppress(OSError):
                self._known = {**self._known, path: (Stamp.of(os.lstat(self.folder / path)), fact.digest)}

    def _fetch_file(self, place: Path, fact: FileFact) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        made, size = hashlib.sha256(), 0
        with place.open("wb") as file:
            for block in self.objects.blocks(blob_name(self.name, fact.digest), fact.size):
                made.update(block)
                size += len(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if (made.hexdigest(), size) != fact:
            raise self._altered(fact)

    def _altered(self, fact: FileFact) -> ObjectHomeError:
        return ObjectHomeError(
            f"{self.objects.url}/{blob_name(self.name, fact.digest)} is not what its name says; restore it, or delete "
            "it and build again where the folder is whole"
        )

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self.folder / path).unlink(missing_ok=True)
        for place, _, _ in os.walk(self.folder, topdown=False):
            if Path(place) != self.folder:
                with suppress(OSError):
                    Path(place).rmdir()  # where it is empty now

    def _together(self, calls: list[tuple[Callable[[Path, FileFact], None], Path, FileFact]]) -> None:
        with ThreadPoolExecutor(self._parallel) as threads:
            for done in [threads.submit(call, path, fact) for call, path, fact in calls]:
                done.result()

    def _noted(self) -> tuple[int, str | None, Known, bool]:
        try:
            found = json.loads(self._notes.read_bytes())
            known = {path: (Stamp(*stamp), digest) for path, (stamp, digest) in found["known"].items()}
            return found["number"], found["tree"], known, found["builds"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0, None, {}, False

    def _note(self, head: Head, is_whole: bool) -> None:
        """Remember what the folder is now; a part of a tree is no ground to build upon."""
        is_whole = is_whole or head.tree == self._tree
        self._number, self._tree = head.number, head.tree if is_whole else None
        self.builds = self.builds or is_whole
        there = {path for path, _ in shared_files(self.folder)}
        self._known = {path: fact for path, fact in self._known.items() if path in there}
        self._notes.parent.mkdir(parents=True, exist_ok=True)
        noted = {"number": self._number, "tree": self._tree, "known": self._known, "builds": self.builds}
        write_json(self._notes, noted)


def _content(path: Path, fact: FileFact) -> bytes:
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != fact.digest:
        raise ObjectHomeError(f"{path} changes while it is shared; let the other program end, and try again")
    return content
