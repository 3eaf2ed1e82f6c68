"""Objects that no tree in force needs: those of trees that were replaced, and of builds that were killed.

Belongs here: finding and deleting them. Does not belong here: when (`shared_home`), erasing a tenant (`erasure`).

Only whoever holds a folder's lease deletes there, since a writer does not send what is stored already. A machine that
is fetching a tree which was replaced meanwhile misses an object, looks at the head again, and fetches the newer one.
"""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from rag_serving.object_home.heads import Head
from rag_serving.object_home.leases import Lease
from rag_serving.object_home.objects import ObjectHomeError
from rag_serving.object_home.shared_folder import SharedFolder
from rag_serving.object_home.trees import blob_name, tree_name

_OURS = re.compile(r"(?:trees|blobs/[0-9a-f]{2})/[0-9a-f]{64}")
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
        ObjectHomeError: the store cannot be used, or what its head names is missing or altered.
    """
    needed = set[str]()
    if head.tree:
        needed = {blob_name(folder.name, fact.digest) for fact in folder.tree(head).values()}
        needed.add(tree_name(folder.name, head.tree))
    count, size, old, old_size = 0, 0, list[str](), 0
    for name, length, _ in folder.objects.names(f"{folder.name}/"):
        count, size = count + 1, size + length
        if name not in needed and _OURS.fullmatch(name.removeprefix(f"{folder.name}/")):
            old.append(name)
            old_size += length
    return Listed(count, size, tuple(old), old_size)


def sweep(folder: SharedFolder, lease: Lease) -> Listed:
    """Delete what the tree in force does not need, and return what was listed before.

    Raises:
        ObjectHomeError: the store cannot be used, or another machine took the lease; what is left is deleted next time.
    """
    found = listed(folder, lease.head)
    if not lease.note_sweep():
        raise ObjectHomeError(f"another machine took over {folder.name}; nothing was deleted")
    folder.objects.delete(found.old)
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
