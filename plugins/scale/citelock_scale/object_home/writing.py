"""The folders that a process writes: one lease for each, whichever of its threads are at it; what it sends of them.

Belongs here: who of a process takes and ends a lease; the contents that the tree in force has not, then a tree of its
own. Does not belong here: other machines, putting a tree in force (`heads`).
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore

from citelock_scale.object_home.heads import Lease
from citelock_scale.object_home.objects import PART_BYTES
from citelock_scale.object_home.shared_folder import SharedFolder
from citelock_scale.object_home.trees import FileFact, Files, Tree, blob_name, content_of, tree_name, unchanged_blocks
from rag_serving.shared_home import HeldError, ObjectHomeError

_LARGE_AT_ONCE = BoundedSemaphore(4)
"""Files in parts, of a process: two parts of each are under way, 64 MB in all."""
Begin = Callable[[str, float], tuple[SharedFolder, Lease]]
"""Takes the lease of a folder within so many seconds, and makes the folder what was shared last."""
Ended = Callable[[SharedFolder, Lease], None]
"""Called where somebody else took the lease, so that nothing was shared."""

_log = logging.getLogger(__name__)


def send(folder: SharedFolder, lease: Lease) -> str | None:
    """Store the files that the tree in force lacks. Return the digest of the folder's tree, which is that of the head
    if nothing changed.

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


@dataclass
class _Held:
    """The state of one folder: `lock` is taken while its lease is acquired, and while files are sent."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    writers: int = 0
    is_told_to_end: bool = False
    begun: tuple[SharedFolder, Lease] | None = None


class WritingRight:
    """The right of this process to write folders. Safe to use from several threads."""

    def __init__(self, begin: Begin, lost: Ended) -> None:
        self._begin, self._lost = begin, lost
        self._lock, self._held = threading.Lock(), defaultdict[str, _Held](_Held)

    @contextmanager
    def of(self, name: str, wait_s: float) -> Iterator[None]:
        """Reserve a folder for writing; later entrants join, and the last one shares.

        Work done before an error is shared, too; that of a process that is told to end stays on this machine.

        Raises:
            HeldError: another machine writes there, or took over.
            ObjectHomeError: the store cannot be used; nothing is lost on this machine.
        """
        with self._lock:
            held = self._held[name]
        with held.lock:
            if not held.writers:
                held.begun, held.is_told_to_end = self._begin(name, wait_s), False
            held.writers += 1
        try:
            yield
        except Exception:
            self._end(held, is_failing=True)
            raise
        except BaseException:
            held.is_told_to_end = True
            self._end(held, is_failing=True)
            raise
        self._end(held, is_failing=False)

    def _end(self, held: _Held, is_failing: bool) -> None:
        with held.lock:
            held.writers -= 1
            if held.writers:
                return
            assert held.begun
            (folder, lease), held.begun = held.begun, None
            if held.is_told_to_end:
                let_go(lease)
                return
            try:
                self._share(folder, lease)
            except ObjectHomeError as error:
                if not is_failing:  # else the first error is the one to tell
                    raise
                _log.error("%s", error)

    def _share(self, folder: SharedFolder, lease: Lease) -> None:
        try:
            tree = send(folder, lease)
        except HeldError:
            let_go(lease)
            self._lost(folder, lease)
            raise
        except BaseException:
            let_go(lease)
            raise
        try:
            folder.sent(lease.release(tree))
        except HeldError:
            self._lost(folder, lease)
            raise


def let_go(lease: Lease) -> None:
    """End a lease with the tree as it was; where the store does not answer it ends by itself."""
    try:
        lease.release(lease.head.tree)
    except ObjectHomeError as error:
        _log.warning("%s", error)
