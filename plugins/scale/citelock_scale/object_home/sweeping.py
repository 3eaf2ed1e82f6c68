"""Objects that no tree in force needs: those of trees that were replaced, and of builds that were killed.

Belongs here: finding and deleting them. Does not belong here: when (`home`), erasing a tenant (`erasing`).

Only whoever holds a folder's lease deletes there, and only what was listed before the lease was confirmed. No writer
ever sends under such a name again, and the next one takes over only names that the tree in force has, which are not
deleted (`trees`). So a sweeper that stalls before it deletes, and goes on after another machine took over, deletes
nothing that is in force by then. A machine that is fetching a tree which was replaced meanwhile misses an object, looks
at the head again, and fetches the newer one.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from citelock_scale.object_home.heads import Head
from citelock_scale.object_home.leases import Lease
from citelock_scale.object_home.shared_folder import SharedFolder
from citelock_scale.object_home.trees import OBJECT, tree_name
from rag_serving.shared_home import HeldError, ObjectHomeError

_log = logging.getLogger(__name__)


class Listed(NamedTuple):
    """What the store lists of a folder: all objects, and those that the tree in force does not need."""

    objects: int
    size: int
    """Bytes."""
    old: tuple[str, ...]
    old_size: int
    """Bytes."""


def listed(folder: SharedFolder, head: Head) -> Listed:
    """Return what the store lists of a folder. Objects with names that are not ours are counted and never old.

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
    """Delete what the tree in force does not need, and return what was listed before.

    Raises:
        HeldError: another machine took the lease; nothing was deleted.
        ObjectHomeError: the store cannot be used; what is left is deleted next time.
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
