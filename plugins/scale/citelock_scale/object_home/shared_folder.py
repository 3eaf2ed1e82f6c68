"""One folder of this machine and its tree in the store: fetching changes, and this machine's records of both. A file
that was compared with its digest waits below `.fetched` until all are there, and then all are moved in. So a process
killed on the way leaves files that the next one reuses, and an unchanged folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from citelock_scale.object_home.heads import FolderHead
from citelock_scale.object_home.objects import MissingError, Objects
from rag_serving.artifacts.contents import Stamp
from rag_serving.artifacts.secret import canonical
from rag_serving.artifacts.store import write_bytes, write_json
from rag_serving.shared_home import ObjectHomeError

OBJECT = re.compile(r"(?:trees/[0-9a-f]{64}|blobs/[0-9a-f]{2}/[0-9a-f]{64}(?:-[0-9a-f]{16})?)")
"""The names of our objects below a folder."""
_FORMAT = 2  # 1: without editions
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EDITION = re.compile(r"(?:[0-9a-f]{16})?")
_LARGEST_BYTES = 1 << 50
_LONGEST_NAME = 255  # of files, in bytes
OWN_FOLDERS = frozenset({"chroma"})
"""Of a tenant; every machine has its own."""
OWN_FILES = frozenset({"cache/digests.json"})
Known = Mapping[str, tuple[Stamp, str]]


class FileFact(NamedTuple):
    """A file's SHA-256 and size [bytes]."""

    digest: str
    size: int


Files = Mapping[str, FileFact]
"""Files by their path below the folder, with slashes."""


@dataclass(frozen=True)
class Tree:
    """The files of a folder, the edition of each content, of this tree itself, and the tree that it replaced."""

    files: Files
    editions: Mapping[str, str]
    """By digest."""
    edition: str = ""
    before: str | None = None

    def blob(self, folder: str, digest: str) -> str:
        """Return the name of the object with a content."""
        return blob_name(folder, digest, self.editions.get(digest, ""))

    def blobs(self, folder: str) -> Iterator[tuple[str, FileFact]]:
        """Yield the objects that the tree needs, each once, with their facts."""
        for fact in {fact.digest: fact for fact in self.files.values()}.values():
            yield self.blob(folder, fact.digest), fact


def blob_name(folder: str, digest: str, edition: str) -> str:
    """Return the name of the object with a file's content; folders share none, so that tenants share nothing."""
    return f"{folder}/blobs/{digest[:2]}/{digest}" + (f"-{edition}" if edition else "")


def tree_name(folder: str, digest: str) -> str:
    return f"{folder}/trees/{digest}"


def content_of(tree: Tree) -> bytes:
    """Return a tree as it is stored."""
    by_edition = dict[str, list[str]]()
    for digest in sorted({fact.digest for fact in tree.files.values()}):
        by_edition.setdefault(tree.editions.get(digest, ""), []).append(digest)
    content = {"format": _FORMAT, "edition": tree.edition, "before": tree.before, "editions": by_edition}
    return canonical({**content, "files": {path: list(fact) for path, fact in tree.files.items()}})


def tree_of(content: bytes, digest: str) -> Tree:
    """Return a stored tree. Raises ObjectHomeError: it differs from its name's digest, or names a file outside of its
    folder."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise ObjectHomeError(
            f"tree {digest} was altered; `citelock home repair` on a machine that has it puts it in force again"
        )
    try:
        found = json.loads(content)
        version = found["format"]
        if version not in (1, _FORMAT):
            raise ObjectHomeError(f"tree {digest} is of version {version!r}, and this program reads {_FORMAT}")
        tree = _parsed(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ObjectHomeError(
            f"tree {digest} is no tree of ours; `citelock home repair` says what can be done"
        ) from None
    if (path := next((path for path in tree.files if not _is_within(path)), None)) is not None:
        raise ObjectHomeError(f"tree {digest} names {path!r}, which no folder of ours has")
    if path := _nested(tree.files):
        raise ObjectHomeError(f"tree {digest} names {path!r} as a file and as a folder")
    return tree


def _parsed(found: Any) -> Tree:
    """Raises ValueError, KeyError, TypeError or AttributeError if it is no tree."""
    files = {path: FileFact(*fact) for path, fact in found["files"].items()}
    editions = {digest: edition for edition, digests in found.get("editions", {}).items() for digest in digests}
    edition, before = found.get("edition", ""), found.get("before")
    if not all(_is_fact(fact) for fact in files.values()) or not all(
        map(_EDITION.fullmatch, (*editions.values(), edition))
    ):
        raise ValueError
    if before is not None and not _DIGEST.fullmatch(before):
        raise ValueError
    return Tree(files, editions, edition, before)


def _is_fact(fact: FileFact) -> bool:
    return type(fact.size) is int and 0 <= fact.size < _LARGEST_BYTES and bool(_DIGEST.fullmatch(fact.digest))


def _is_within(path: str) -> bool:
    parts = path.split("/")
    try:
        is_short = all(len(os.fsencode(part)) <= _LONGEST_NAME for part in parts)
    except UnicodeEncodeError:
        return False
    return is_short and all(
        part and not part.startswith(".") and "\\" not in part and "\0" not in part for part in parts
    )


def _nested(files: Files) -> str | None:
    """Return a path that is a file and has files below it."""
    folders = {"/".join(parts[:end]) for path in files for parts in (path.split("/"),) for end in range(1, len(parts))}
    return next((path for path in files if path in folders), None)


def shared_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and facts of each shared file of a folder; names that begin with a dot are this machine's."""
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        folders[:] = [
            name for name in folders if not name.startswith(".") and (below / name).as_posix() not in OWN_FOLDERS
        ]
        for name in files:
            path = (below / name).as_posix()
            if name.startswith(".") or name.endswith("-shm") or path in OWN_FILES:
                continue
            status = os.lstat(Path(place, name))
            if stat.S_ISREG(status.st_mode):
                yield path, status


def scanned(folder: Path, known: Known) -> tuple[Files, Known]:
    """Return the files of a folder, and the facts to remember; one with a known stamp is not read. Raises
    ObjectHomeError: a file changes while it is read."""
    files, seen = dict[str, FileFact](), dict[str, tuple[Stamp, str]]()
    for path, status in shared_files(folder):
        stamp = Stamp.of(status)
        before = known.get(path)
        digest = before[1] if before and before[0] == stamp else _digest_of(folder / path, stamp)
        files[path], seen[path] = FileFact(digest, status.st_size), (stamp, digest)
    return files, seen


def unchanged_blocks(path: Path, fact: FileFact) -> Iterator[bytes]:
    """Yield a file's content in blocks of a megabyte. Raises ObjectHomeError: at the end, if it differs from the
    digest."""
    made, size = hashlib.sha256(), 0
    for block in _blocks_of(path):
        made.update(block)
        size += len(block)
        if size > fact.size:
            break
        yield block
    if (made.hexdigest(), size) != fact:
        raise _changes(path)


def _digest_of(path: Path, stamp: Stamp) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        after = Stamp.of(os.fstat(file.fileno()))
    if after != stamp:
        raise _changes(path)
    return digest


def _changes(path: Path) -> ObjectHomeError:
    return ObjectHomeError(f"{path} changes while it is shared; let the other program end, and try again")


FOLDER = ".fetched"
"""Of a shared folder; what begins with a dot is this machine's own."""
_LAST = ("published.json", "current")
_BLOCK_BYTES = 1 << 20
NOTES = ".object-home"
"""Folder of the home for what this machine knows of the store."""
_KEPT = "cache/"
"""What was paid for and is named by its content stays, though the store does not have it yet."""
_LOCKS = ".lock"
Wanted = Callable[[str], bool]


def run_parallel(calls: Iterable[Callable[[], object]], threads: int) -> None:
    """Make calls in this many threads; raise the first error, and skip calls not begun by then."""
    with ThreadPoolExecutor(threads) as pool:
        begun = [pool.submit(call) for call in calls]
        try:
            for done in begun:
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _is_written(target: Path, fact: FileFact, blocks: Iterable[bytes]) -> bool:
    """Write a file beside its name, and rename it if it matches its digest."""
    part = target.with_name(f"{secrets.token_hex(4)}.part")
    try:
        made, size = hashlib.sha256(), 0
        with part.open("wb") as file:
            for block in blocks:
                made.update(block)
                size += len(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if (made.hexdigest(), size) != fact:
            return False
        part.replace(target)
        return True
    finally:
        part.unlink(missing_ok=True)


def _blocks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def notes_of(home: Path, name: str) -> Path:
    """Return the file of this machine's notes on a folder."""
    return home / NOTES / f"{name.replace('/', '~')}.json"


def is_followed(home: Path, name: str) -> bool:
    """Return whether this machine knows a folder from the store, and never had the whole of it."""
    try:
        return not json.loads(notes_of(home, name).read_bytes())["builds"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def unless_written(folder: Path) -> Iterator[bool]:
    """Keep builds of this machine out of a folder meanwhile; false if one is at it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


class SharedFolder:
    """One folder below the home, by its path such as `tenants/acme`. `builds`: whether this machine ever had the whole
    of it, as builds do; then nothing that the store still has is deleted here. `seen`: the newest head that this
    machine saw, of number 0 if it saw none."""

    def __init__(self, objects: Objects, home: Path, name: str, parallel: int) -> None:
        self.name, self.folder = name, home / name
        self.objects, self.parallel = objects, parallel
        self._notes, self._waiting = notes_of(home, name), self.folder / FOLDER
        self._trees = self._notes.with_suffix(".tree")
        self._cached: tuple[str, Tree] | None = None
        self.seen, self._tree, self._known, self.builds = self._noted()

    def fetch(self, head: FolderHead, wanted: Wanted | None = None) -> None:
        """Update the folder to the head. A machine that only reads names the `wanted` files, and deletes none. Files of
        a killed build are kept while the head is the last one seen by this machine. Raises ObjectHomeError: the head is
        older than one that was seen, a file is missing or damaged; the folder is then unchanged, or has newer files
        beside those that answer."""
        self.refuse_older(head)
        if head.erasure > self.seen.number:
            self.empty(head)
        if head.in_force is None:
            return
        files = self.tree(head).files
        chosen = {path: fact for path, fact in files.items() if wanted is None or wanted(path)}
        if head.tree == self._tree:
            missing = {path: fact for path, fact in chosen.items() if not (self.folder / path).exists()}
            self._fetch_files(head, missing)
        else:
            local = self.scan()
            self._fetch_files(head, {path: fact for path, fact in chosen.items() if local.get(path) != fact})
            if wanted is None:
                self._delete(path for path in local if path not in files and not path.startswith(_KEPT))
        self.note(head, is_whole=wanted is None)

    def refuse_older(self, head: FolderHead | None) -> None:
        """Raise ObjectHomeError if this machine saw a newer head than the one that the store has."""
        if head is None and self.seen.number:
            raise ObjectHomeError(
                f"the head of {self.name} is missing, and this machine saw number {self.seen.number}: if it was lost, "
                "`citelock home repair` on the machine that builds puts it back"
            )
        if head is not None and head.number < self.seen.number:
            raise ObjectHomeError(
                f"the head of {self.name} is number {head.number}, and this machine saw {self.seen.number}: somebody "
                f"put an older state back; if that is right, delete {self._notes}; if not, `citelock home repair` on "
                "the machine that builds puts the newer one back"
            )

    def empty(self, head: FolderHead) -> None:
        """Delete all that this machine has of a folder from before its last erasure, and note that it was erased."""
        if self.folder.is_dir():
            for place in self.folder.iterdir():
                if place.name.startswith(_LOCKS):
                    continue
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place)
                else:
                    place.unlink(missing_ok=True)
        self._trees.unlink(missing_ok=True)
        self._cached, self._known = None, {}
        self._write_notes(FolderHead(self.name, number=head.erasure, erased=True, erasure=head.erasure), None)

    def scan(self) -> Files:
        """Return the files of the folder as they are now, and remember their digests."""
        files, self._known = scanned(self.folder, self._known)
        return files

    def local_facts(self) -> Files:
        """Return digests and sizes of the files as they were scanned last."""
        return {path: FileFact(digest, stamp.size) for path, (stamp, digest) in self._known.items()}

    def tree(self, head: FolderHead) -> Tree:
        """Return a head's tree, from this machine's copy if it has one. Raises MissingError: the store has no such
        object. Raises ObjectHomeError: it differs from its name's digest, or the store cannot be used."""
        assert head.tree
        return self.known_tree(head.tree) or self.stored_tree(head.tree)

    def known_tree(self, digest: str) -> Tree | None:
        """Return a tree that this machine remembers, None if it does not."""
        if self._cached and self._cached[0] == digest:
            return self._cached[1]
        with suppress(OSError, ObjectHomeError):
            self._cached = (digest, tree_of(self._trees.read_bytes(), digest))
            return self._cached[1]
        return None

    def stored_tree(self, digest: str) -> Tree:
        """Return a tree as the store has it; raises as `tree` does."""
        stored = self.objects.read(tree_name(self.name, digest))
        if stored is None:
            raise MissingError(
                f"{self.objects.url}/{tree_name(self.name, digest)} is missing; `citelock home repair` on the machine "
                "that builds puts it back"
            )
        tree = tree_of(stored.content, digest)
        self.cache_tree(stored.content)
        self._cached = (digest, tree)
        return tree

    def cache_tree(self, content: bytes) -> None:
        """Remember a tree on this machine."""
        write_bytes(self._trees, content)

    def content(self, head: FolderHead, path: str) -> bytes | None:
        """Return the content of one file of a head's tree, None if the tree has none of that name."""
        tree = self.tree(head)
        fact = tree.files.get(path)
        if fact is None:
            return None
        content = b"".join(self._blocks(tree, fact))
        if hashlib.sha256(content).hexdigest() != fact.digest:
            raise self._altered(tree, fact)
        return content

    def moved(self, head: FolderHead, before: FolderHead) -> None:
        """Record a head whose tree has the files of the one before, or fewer, if this machine has that one."""
        if self.seen.tree == before.tree:
            self.note(head, is_whole=self._tree is not None and self._tree == before.tree)

    def _fetch_files(self, head: FolderHead, files: Files) -> None:
        """Fetch files, and move them in once all are there, those that name others last. Raises ObjectHomeError: one
        cannot be fetched, or differs from its digest; the folder is unchanged. Raises OSError: the disk does not take
        it."""
        tree, facts = self.tree(head), {fact.digest: fact for fact in files.values()}
        local = {digest: self.folder / path for path, (_, digest) in self._known.items()}
        self._clear(facts)
        if not files:
            return
        self._waiting.mkdir(parents=True, exist_ok=True)
        try:
            calls = (partial(self._download, tree, fact, local.get(fact.digest)) for fact in facts.values())
            run_parallel(calls, self.parallel)
            self._move_in(files)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._clear(())  # whatever else writes to this disk needs it more
            raise
        self._clear(())
        known = dict(self._known)
        for path, fact in files.items():
            with suppress(OSError):
                known[path] = (Stamp.of(os.lstat(self.folder / path)), fact.digest)
        self._known = known

    def _move_in(self, files: Mapping[str, FileFact]) -> None:
        uses = Counter(fact.digest for fact in files.values())
        for path in sorted(files, key=lambda path: _LAST.index(path) if path in _LAST else -1):
            digest, target = files[path].digest, self.folder / path
            source = self._waiting / digest
            uses[digest] -= 1
            if uses[digest]:
                source = Path(shutil.copyfile(source, source.with_suffix(".copy")))
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)

    def _download(self, tree: Tree, fact: FileFact, local: Path | None) -> None:
        target = self._waiting / fact.digest
        with suppress(OSError):
            if target.stat().st_size == fact.size:
                return  # compared before it was given this name
        if local is not None:
            with suppress(OSError):
                if _is_written(target, fact, _blocks_of(local)):
                    return
        if not _is_written(target, fact, self._blocks(tree, fact)):
            raise self._altered(tree, fact)

    def _clear(self, kept: Collection[str]) -> None:
        """Delete waiting files that are no longer needed, and the remains of killed processes."""
        for place in self._waiting.glob("*"):
            if place.name not in kept:
                place.unlink(missing_ok=True)
        with suppress(OSError):
            self._waiting.rmdir()

    def _blocks(self, tree: Tree, fact: FileFact) -> Iterator[bytes]:
        return self.objects.blocks(tree.blob(self.name, fact.digest), fact.size)

    def _altered(self, tree: Tree, fact: FileFact) -> ObjectHomeError:
        return ObjectHomeError(
            f"{self.objects.url}/{tree.blob(self.name, fact.digest)} is not what its name says; `citelock home repair` "
            "on a machine that has the file sends it again"
        )

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self.folder / path).unlink(missing_ok=True)
        for place, _, _ in os.walk(self.folder, topdown=False):
            if Path(place) != self.folder:
                with suppress(OSError):
                    Path(place).rmdir()  # if it is empty now

    def _noted(self) -> tuple[FolderHead, str | None, Known, bool]:
        try:
            found = json.loads(self._notes.read_bytes())
            known = {path: (Stamp(*stamp), digest) for path, (stamp, digest) in found["known"].items()}
            erased, erasure = found["erased"], found["erasure"]
            seen = FolderHead(self.name, tree=found["head"], number=found["number"], erased=erased, erasure=erasure)
            return seen, found["tree"], known, found["builds"]
        except (OSError, ValueError, KeyError, TypeError):
            return FolderHead(self.name), None, {}, False

    def note(self, head: FolderHead, is_whole: bool) -> None:
        """Record the folder's present state; a part of a tree is no basis for a build."""
        is_whole = is_whole or head.tree == self._tree
        self.builds = self.builds or is_whole
        there = {path for path, _ in shared_files(self.folder)}
        self._known = {path: fact for path, fact in self._known.items() if path in there}
        self._write_notes(head, head.tree if is_whole else None)

    def _write_notes(self, head: FolderHead, whole: str | None) -> None:
        self.seen = replace(
            FolderHead(self.name), tree=head.tree, number=head.number, erased=head.erased, erasure=head.erasure
        )
        self._tree = whole
        seen = {"number": head.number, "head": head.tree, "erased": head.erased, "erasure": head.erasure}
        write_json(self._notes, {**seen, "tree": whole, "known": self._known, "builds": self.builds})
