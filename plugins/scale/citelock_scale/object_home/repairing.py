"""Objects of the tree in force that are lost or altered, and a head that is lost: put back from this machine's files.

Belongs here: comparing with digests, what is sent again. Does not belong here: damaged generations, whose files a build
makes again (`citelock build`).

Nothing is overwritten: what is sent again has a new name, and a new tree names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

from citelock_scale.object_home.heads import FolderHead, Lease, Seen
from citelock_scale.object_home.objects import MissingError, StoreAwayError
from citelock_scale.object_home.shared_folder import SharedFolder
from citelock_scale.object_home.trees import Tree
from citelock_scale.object_home.writing import let_go, send_files, send_tree
from rag_serving.shared_home import ObjectHomeError

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
    """Return the effect of a repair; nothing is changed.

    Raises:
        ObjectHomeError: the store cannot be used, or the tree is lost and this machine does not remember it.
    """
    known = restored(folder, seen)
    head = known or (seen.head if seen else FolderHead(folder.name))
    if head.in_force is None:
        return Repaired(0, ("head",) if known else (), (), ())
    return _surveyed(folder, head.in_force, without_lost).repaired(known is not None)


def repair(folder: SharedFolder, lease: Lease, known: FolderHead | None, without_lost: bool) -> Repaired:
    """Send lost objects, publish them, and end the lease. `known`: the head to continue from.

    Raises:
        HeldError: another machine took over.
        ObjectHomeError: the store cannot be used, or the tree is lost and this machine does not remember it.
    """
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
