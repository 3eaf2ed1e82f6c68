"""The objects of a folder in the store: sent, listed, swept, repaired and erased."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import BoundedSemaphore
from typing import NamedTuple

from citelock_scale.object_home.heads import FolderHead, Heads, Lease, Seen
from citelock_scale.object_home.objects import PART_BYTES, MissingError, StoreAwayError
from citelock_scale.object_home.shared_folder import (
    OBJECT,
    Files,
    SharedFolder,
    Tree,
    blob_name,
    content_of,
    run_parallel,
    tree_name,
    tree_of,
    unchanged_blocks,
)
from rag_serving.shared_home import Erased, HeldError, ObjectHomeError

_AT_ONCE = 8


class Repaired(NamedTuple):
    """The lost or altered contents of a folder, and the outcome."""

    objects: int
    """That were compared with their digests."""
    parts: tuple[str, ...]
    """`head` and `tree`, where they are put back."""
    healed: tuple[str, ...]
    """Files whose content this machine has."""
    lost: tuple[str, ...]
    """Files whose content it has not."""


@dataclass(frozen=True)
class _Survey:
    tree: Tree
    damaged: frozenset[str]
    """Digests of contents whose objects are missing or altered."""
    local: Mapping[str, str]
    """A file of this machine for each content that it has: {digest: path}."""
    is_tree_lost: bool

    def damaged_files(self, is_here: bool) -> tuple[str, ...]:
        """Return the files with damaged objects whose content this machine has, or lacks."""
        files = self.tree.files.items()
        return tuple(
            sorted(
                path for path, fact in files if fact.digest in self.damaged and (fact.digest in self.local) == is_here
            )
        )

    def repaired(self, is_head_lost: bool) -> Repaired:
        parts = [name for name, is_lost in (("head", is_head_lost), ("tree", self.is_tree_lost)) if is_lost]
        count = len({fact.digest for fact in self.tree.files.values()})
        return Repaired(count, tuple(parts), self.damaged_files(is_here=True), self.damaged_files(is_here=False))


def restored(folder: SharedFolder, seen: Seen | None) -> FolderHead | None:
    """Return the head to go on from where the store has none, or an older one than this machine saw; else None."""
    known = folder.seen
    if not known.number or (seen and (seen.head.erased or seen.head.number >= known.number)):
        return None
    return replace(known, number=known.number + 1)


def looked_over(folder: SharedFolder, seen: Seen | None, without_lost: bool) -> Repaired:
    """Return the effect of a repair; nothing is changed. Raises ObjectHomeError: the store cannot be used, or the tree
    is lost and this machine does not remember it."""
    known = restored(folder, seen)
    head = known or (seen.head if seen else FolderHead(folder.name))
    if head.in_force is None:
        return Repaired(0, ("head",) if known else (), (), ())
    return _surveyed(folder, head.in_force, without_lost).repaired(known is not None)


def repair(folder: SharedFolder, lease: Lease, known: FolderHead | None, without_lost: bool) -> Repaired:
    """Send lost objects, publish them, and end the lease. `known`: the head to continue from. Raises HeldError: another
    machine took over. Raises ObjectHomeError: the store cannot be used, or the tree is lost and this machine does not
    remember it."""
    head, is_head_lost = lease.head, known is not None and lease.head.number == known.number
    repaired, digest = Repaired(0, ("head",) if is_head_lost else (), (), ()), head.tree
    try:
        if head.erasure > folder.seen.number:
            folder.empty(head)
        if head.in_force:
            survey = _surveyed(folder, head.in_force, without_lost)
            repaired = survey.repaired(is_head_lost)
            if survey.damaged or survey.is_tree_lost:
                digest = _sent_again(folder, lease, survey, without_lost)
    except BaseException:
        let_go(lease)
        raise
    folder.moved(lease.release(digest), head)
    return repaired


def _surveyed(folder: SharedFolder, digest: str, without_lost: bool) -> _Survey:
    files = folder.scan()
    local = {fact.digest: path for path, fact in files.items()}
    is_tree_lost = False
    try:
        tree = folder.stored_tree(digest)
    except StoreAwayError:
        raise
    except ObjectHomeError as error:
        is_tree_lost = True
        known = folder.known_tree(digest)
        if known is None and not (without_lost and folder.builds):
            raise ObjectHomeError(
                f"{error}; this machine does not remember it: `citelock home repair --without-lost` on the machine "
                "that builds puts in force what is there"
            ) from None
        tree = known or Tree(files, {})
    return _Survey(tree, _damaged(folder, tree), local, is_tree_lost)


def _damaged(folder: SharedFolder, tree: Tree) -> frozenset[str]:
    def is_damaged(name: str, digest: str, size: int) -> bool:
        made = hashlib.sha256()
        try:
            if folder.objects.size(name) != size:
                return True
            for block in folder.objects.blocks(name, size):
                made.update(block)
        except MissingError:
            return True
        return made.hexdigest() != digest

    needed = [(name, *fact) for name, fact in tree.blobs(folder.name)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = threads.map(lambda each: is_damaged(*each), needed)
        return frozenset(digest for (_, digest, _), is_so in zip(needed, found, strict=True) if is_so)


def _sent_again(folder: SharedFolder, lease: Lease, survey: _Survey, without_lost: bool) -> str:
    """Send this machine's copies of damaged objects, and a tree with them. Return the tree's digest."""
    lost = set(survey.damaged_files(is_here=False)) if without_lost else set[str]()
    send_files(folder, lease, {digest: survey.local[digest] for digest in survey.damaged & survey.local.keys()})
    files = {path: fact for path, fact in survey.tree.files.items() if path not in lost}
    digests = {fact.digest for fact in files.values()}
    there = {
        digest: survey.tree.editions.get(digest, "")
        for digest in digests
        if digest not in survey.damaged or digest not in survey.local
    }
    return send_tree(folder, lease, files, there)


_TRIES = 50
_LOST = 1 << 32
"""Where the head was lost, other machines may have seen any number below."""
_LOOKED_AT_ONCE = 16


class Listed(NamedTuple):
    """The store's objects of a folder: all, and those that the tree in force does not need."""

    objects: int
    size: int
    """Bytes."""
    old: tuple[str, ...]
    old_size: int
    """Bytes."""


def listed(folder: SharedFolder, head: FolderHead) -> Listed:
    """Return the store's objects of a folder. Foreign names are counted and never old. Raises ObjectHomeError: the
    store cannot be used, or the head's tree is missing or altered."""
    needed = set[str]()
    if head.in_force:
        needed = {name for name, _ in folder.tree(head).blobs(folder.name)}
        needed.add(tree_name(folder.name, head.in_force))
    count, size, old, old_size = 0, 0, list[str](), 0
    for name, length, _ in folder.objects.names(f"{folder.name}/"):
        count, size = count + 1, size + length
        if name not in needed and OBJECT.fullmatch(name.removeprefix(f"{folder.name}/")):
            old.append(name)
            old_size += length
    return Listed(count, size, tuple(old), old_size)


def sweep(folder: SharedFolder, lease: Lease) -> Listed:
    """Delete the objects that the tree in force does not need, and return the listing before. Raises HeldError: another
    machine took the lease; nothing was deleted. Raises ObjectHomeError: the store cannot be used; the next sweep
    deletes the rest."""
    found = listed(folder, lease.head)
    if not lease.note_sweep():
        raise HeldError(f"another machine took over {folder.name}; nothing was deleted")
    trees = f"{folder.name}/trees/"  # they name the others, so they go last
    folder.objects.delete(sorted(found.old, key=lambda name: name.startswith(trees)))
    return found


def sweep_if_due(folder: SharedFolder, lease: Lease, after: int) -> None:
    """Sweep where `after` trees were put in force since the last time; 0: never. A sweep that fails stops no build."""
    if not after or lease.head.number - lease.head.swept < after:
        return
    try:
        found = sweep(folder, lease)
    except ObjectHomeError as error:
        _log.warning("old objects are deleted next time: %s", error)
    else:
        _log.info("%s: %d old objects deleted, %.1f MB", folder.name, len(found.old), found.old_size / 1e6)


class _NamedObject(NamedTuple):
    objects: list[str]
    """Those of contents first, then trees, the newest last: a try that ends early finds them again."""
    unread: str | None


def erase(folder: SharedFolder, heads: Heads) -> Erased:
    """Publish a head that marks the folder as erased, and delete its objects. Raises ObjectHomeError: the store cannot
    be used, or keeps objects; the next try deletes the rest."""
    seen = heads.read(folder.name)
    if seen is None and not folder.seen.number and not _listed(folder):
        return Erased(0, 0, 0, None)
    head = _say_so(folder, heads)
    found, named = _listed(folder), _named(folder, head)
    _delete(folder, [name for name in found if name not in set(named.objects)])
    _delete(folder, named.objects)
    folder.empty(head)
    return Erased(head.number, len(found), len(named.objects), named.unread)


def remaining(folder: SharedFolder, heads: Heads) -> int:
    """Return how many objects there are of a folder, by the store's list and by the trees that its head leads to. Those
    of a folder that was erased are looked for one by one, since lists may be late; the head is not counted."""
    seen = heads.read(folder.name)
    names = set(_listed(folder))
    if seen is None:
        return len(names)
    names.update(_named(folder, seen.head).objects)
    if not seen.head.erased:
        return len(names) + 1
    return len(_existing(folder, sorted(names)))


def _say_so(folder: SharedFolder, heads: Heads) -> FolderHead:
    for _ in range(_TRIES):
        seen = heads.read(folder.name)
        head = seen.head if seen else replace(folder.seen, number=folder.seen.number + _LOST)
        if seen and head.erased and not head.holder:
            return head
        if written := heads.write(head.after_erasure(), seen):
            return written.head
    raise ObjectHomeError(f"the head of {folder.name} changes all the time; stop its builds, and run the command again")


def _listed(folder: SharedFolder) -> list[str]:
    head = f"{folder.name}/head"
    return [name for name, _, _ in folder.objects.names(f"{folder.name}/") if name != head]


def _named(folder: SharedFolder, head: FolderHead) -> _NamedObject:
    """Return the objects named by the trees of a folder, from the newest back as far as there are any."""
    contents, trees, unread = dict[str, None](), list[str](), None
    for digest, tree in _trees(folder, head.tree):
        trees.append(tree_name(folder.name, digest))
        if tree:
            contents.update(dict.fromkeys(name for name, _ in tree.blobs(folder.name)))
        else:
            unread = digest
    return _NamedObject([*contents, *reversed(trees)], unread)


def _trees(folder: SharedFolder, digest: str | None) -> Iterator[tuple[str, Tree | None]]:
    """Yield trees from one back; the last is None if it was altered, and this machine does not know it."""
    while digest:
        stored = folder.objects.read(tree_name(folder.name, digest))
        tree = folder.known_tree(digest)
        with suppress(ObjectHomeError):
            tree = tree_of(stored.content, digest) if stored else tree
        if stored or tree:
            yield digest, tree
        digest = tree.before if tree else None


def _delete(folder: SharedFolder, names: list[str]) -> None:
    folder.objects.delete(names)
    if left := _existing(folder, names):
        raise ObjectHomeError(
            f"{folder.objects.url} keeps {len(left)} objects of {folder.name} that were deleted, such as {left[0]}; "
            "see that its rules allow it, and run the command again"
        )


def _existing(folder: SharedFolder, names: list[str]) -> list[str]:
    with ThreadPoolExecutor(_LOOKED_AT_ONCE) as threads:
        sizes = threads.map(folder.objects.size, names)
        return [name for name, size in zip(names, sizes, strict=True) if size is not None]


_LARGE_AT_ONCE = BoundedSemaphore(4)
"""Files in parts, of a process: two parts of each are under way, 64 MB in all."""

_log = logging.getLogger(__name__)


def send(folder: SharedFolder, lease: Lease) -> str | None:
    """Store the files that the tree in force lacks. Return the digest of the folder's tree, which is that of the head
    if nothing changed. Raises HeldError: somebody else took the lease. Raises ObjectHomeError: the store cannot be
    used, or a file changes while it is sent."""
    before = folder.tree(lease.head) if lease.head.in_force else None
    files = folder.scan()
    if files == (before.files if before else {}):
        return lease.head.tree
    there = {fact.digest: before.editions.get(fact.digest, "") for fact in before.files.values()} if before else {}
    send_files(folder, lease, {fact.digest: path for path, fact in files.items() if fact.digest not in there})
    return send_tree(folder, lease, files, there)


def send_files(folder: SharedFolder, lease: Lease, paths: Mapping[str, str]) -> None:
    """Store contents from files of the folder, {digest: path}, under the lease's edition."""
    facts = folder.local_facts()

    def send_file(path: str) -> None:
        lease.check()
        fact = facts[path]
        name, blocks = blob_name(folder.name, fact.digest, lease.edition), unchanged_blocks(folder.folder / path, fact)
        lease.sent.add(name)
        if fact.size < PART_BYTES:
            folder.objects.create(name, b"".join(blocks))
            return
        with _LARGE_AT_ONCE:
            folder.objects.upload(name, blocks, fact.size)

    run_parallel((partial(send_file, path) for path in paths.values()), folder.parallel)


def send_tree(folder: SharedFolder, lease: Lease, files: Files, there: Mapping[str, str]) -> str:
    """Store a tree, and return its digest. `there`: the editions of contents that were stored before."""
    digests = {fact.digest for fact in files.values()}
    editions = {digest: there.get(digest, lease.edition) for digest in digests}
    content = content_of(Tree(files, editions, lease.edition, lease.head.tree))
    digest = hashlib.sha256(content).hexdigest()
    lease.check()
    lease.sent.add(tree_name(folder.name, digest))
    folder.objects.create(tree_name(folder.name, digest), content)
    folder.cache_tree(content)
    return digest


def let_go(lease: Lease) -> None:
    """End a lease with the tree as it was; where the store does not answer it ends by itself."""
    try:
        lease.release(lease.head.tree)
    except ObjectHomeError as error:
        _log.warning("%s", error)
