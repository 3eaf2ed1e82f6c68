"""Deletions of a folder in the store: objects that no tree in force needs, and all objects of an erased folder.

Belongs here: listing and deleting them, and verifying that. Does not belong here: when (`home`), the proof
(`citelock_governance.erasing`), the copies of other machines, which delete them when they see the head
(`shared_folder`).

Only the holder of a folder's lease sweeps, and only objects listed before the lease was confirmed. No writer ever uses
such a name again, and the next one takes over only names that the tree in force has, which are not deleted (`trees`).
So a sweeper that stalls before it deletes, and goes on after another machine took over, deletes nothing that is in
force by then. A machine that is fetching a tree which was replaced meanwhile misses an object, rereads the head, and
fetches the newer one.

The head of an erased folder stays, with a higher number and without a tree in force: it takes the folder from its
writer, and tells every machine to delete its copy. It names the last tree until no object is left, and each tree names
the one before, so that a store that lists nothing still loses all that any tree named since the last sweep.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from citelock_scale.object_home.heads import FolderHead, Heads, Lease
from citelock_scale.object_home.shared_folder import SharedFolder
from citelock_scale.object_home.trees import OBJECT, Tree, tree_name, tree_of
from rag_serving.shared_home import Erased, HeldError, ObjectHomeError

_TRIES = 50
_LOST = 1 << 32
"""Where the head was lost, other machines may have seen any number below."""
_AT_ONCE = 16

_log = logging.getLogger(__name__)


class Listed(NamedTuple):
    """The store's objects of a folder: all, and those that the tree in force does not need."""

    objects: int
    size: int
    """Bytes."""
    old: tuple[str, ...]
    old_size: int
    """Bytes."""


def listed(folder: SharedFolder, head: FolderHead) -> Listed:
    """Return the store's objects of a folder. Foreign names are counted and never old.

    Raises:
        ObjectHomeError: the store cannot be used, or the head's tree is missing or altered.
    """
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
    """Delete the objects that the tree in force does not need, and return the listing before.

    Raises:
        HeldError: another machine took the lease; nothing was deleted.
        ObjectHomeError: the store cannot be used; the next sweep deletes the rest.
    """
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
    """Publish a head that marks the folder as erased, and delete its objects.

    Raises:
        ObjectHomeError: the store cannot be used, or keeps objects; the next try deletes the rest.
    """
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
    """Return how many objects there are of a folder, by the store's list and by the trees that its head leads to.

    Those of a folder that was erased are looked for one by one, since lists may be late; the head is not counted.
    """
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
    """Delete objects, and see that they are gone."""
    folder.objects.delete(names)
    if left := _existing(folder, names):
        raise ObjectHomeError(
            f"{folder.objects.url} keeps {len(left)} objects of {folder.name} that were deleted, such as {left[0]}; "
            "see that its rules allow it, and run the command again"
        )


def _existing(folder: SharedFolder, names: list[str]) -> list[str]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        sizes = threads.map(folder.objects.size, names)
        return [name for name, size in zip(names, sizes, strict=True) if size is not None]
