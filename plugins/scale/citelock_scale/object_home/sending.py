"""What a writer sends of a folder: the contents that the tree in force has not, then a tree of its own.

Belongs here: what is sent, and that it is what its name says. Does not belong here: putting it in force (`leases`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from threading import BoundedSemaphore

from citelock_scale.object_home.leases import Lease
from citelock_scale.object_home.objects import PART_BYTES
from citelock_scale.object_home.scanning import unchanged_blocks
from citelock_scale.object_home.shared_folder import SharedFolder
from citelock_scale.object_home.trees import FileFact, Files, Tree, blob_name, content_of, tree_name

_LARGE_AT_ONCE = BoundedSemaphore(4)
"""Files in parts, of a process: two parts of each are under way, 64 MB in all."""


def send(folder: SharedFolder, lease: Lease) -> str | None:
    """Store what this machine has and the tree in force has not. Return the digest of the folder's tree, which is that
    of the head where nothing changed.

    Raises:
        HeldError: somebody else took the lease.
        ObjectHomeError: the store cannot be used, or a file changes while it is sent.
    """
    before = folder.tree(lease.head) if lease.head.in_force else None
    files = folder.scan()
    if files == (before.files if before else {}):
        return lease.head.tree
    there = {fact.digest: before.editions.get(fact.digest, "") for fact in before.files.values()} if before else {}
    send_files(folder, lease, {fact.digest: path for path, fact in files.items() if fact.digest not in there})
    return send_tree(folder, lease, files, there)


def send_files(folder: SharedFolder, lease: Lease, paths: Mapping[str, str]) -> None:
    """Store contents from files of the folder, {digest: path}, under the lease's edition."""

    def send_file(path: Path, fact: FileFact) -> None:
        lease.check()
        name = blob_name(folder.name, fact.digest, lease.edition)
        lease.sent.add(name)
        _send_file(folder, name, path, fact)

    facts = folder.local_facts()
    folder.together([(send_file, folder.folder / path, facts[path]) for path in paths.values()])


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


def _send_file(folder: SharedFolder, name: str, path: Path, fact: FileFact) -> None:
    blocks = unchanged_blocks(path, fact)
    if fact.size < PART_BYTES:
        folder.objects.create(name, b"".join(blocks))
        return
    with _LARGE_AT_ONCE:
        folder.objects.upload(name, blocks, fact.size)
