"""Erasing a folder of the store: a head that says so, then its objects, whatever the store lists.

Belongs here: what is deleted there, and that it is gone. Does not belong here: the proof
(`citelock_governance.erasing`), the copies of other machines, which delete them when they see the head
(`shared_folder`).

The head stays, with a higher number and without a tree in force: it takes the folder from its writer, and tells every
machine to delete its copy. It names the last tree until no object is left, and each tree names the one before, so that
a store that lists nothing still loses all that any tree named since the last sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from citelock_scale.object_home.heads import Head, Heads
from citelock_scale.object_home.shared_folder import SharedFolder
from citelock_scale.object_home.trees import Tree, tree_name, tree_of
from rag_serving.shared_home import Erased, ObjectHomeError

_TRIES = 50
_LOST = 1 << 32
"""Where the head was lost, other machines may have seen any number below."""
_AT_ONCE = 16


class _Named(NamedTuple):
    objects: list[str]
    """Those of contents first, then trees, the newest last: a try that ends early finds them again."""
    unread: str | None


def erase(folder: SharedFolder, heads: Heads) -> Erased:
    """Put a head in force that says the folder is erased, and delete its objects.

    Raises:
        ObjectHomeError: the store cannot be used, or keeps objects; what is left is deleted by the next try.
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


def _say_so(folder: SharedFolder, heads: Heads) -> Head:
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


def _named(folder: SharedFolder, head: Head) -> _Named:
    """Return what the trees of a folder name, from the newest back as far as there are any."""
    contents, trees, unread = dict[str, None](), list[str](), None
    for digest, tree in _trees(folder, head.tree):
        trees.append(tree_name(folder.name, digest))
        if tree:
            contents.update(dict.fromkeys(name for name, _ in tree.blobs(folder.name)))
        else:
            unread = digest
    return _Named([*contents, *reversed(trees)], unread)


def _trees(folder: SharedFolder, digest: str | None) -> Iterator[tuple[str, Tree | None]]:
    """Yield trees from one back; the last is None where it was altered, and this machine does not know it."""
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
