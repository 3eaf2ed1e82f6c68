"""A folder as a tree: the digest and size of each of its files, and the objects that hold them.

Belongs here: which files of a folder are shared, their digests, what a tree may say. Does not belong here: the one that
is in force (`heads`), the order in which files are moved (`shared_folder`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rag_serving.artifacts.digests import Stamp
from rag_serving.artifacts.signatures import canonical
from rag_serving.object_home.objects import ObjectHomeError

OWN_FOLDERS = frozenset({"chroma"})
"""Of a tenant; every machine has its own."""
OWN_FILES = frozenset({"cache/digests.json"})
_FORMAT = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOCK_BYTES = 8 << 20

Known = Mapping[str, tuple[Stamp, str]]


class FileFact(NamedTuple):
    """A file's SHA-256 and size [bytes]."""

    digest: str
    size: int


Tree = Mapping[str, FileFact]
"""Files by their path below the folder, with slashes."""


def blob_name(folder: str, digest: str) -> str:
    """Return the name of the object with a file's content; folders share none, so that tenants share nothing."""
    return f"{folder}/blobs/{digest[:2]}/{digest}"


def tree_name(folder: str, digest: str) -> str:
    return f"{folder}/trees/{digest}"


def content_of(tree: Tree) -> bytes:
    """Return a tree as it is stored."""
    return canonical({"format": _FORMAT, "files": {path: list(fact) for path, fact in tree.items()}})


def tree_of(content: bytes, digest: str) -> Tree:
    """Return a stored tree.

    Raises:
        ObjectHomeError: it is not what its name says, or names a file outside of its folder.
    """
    if hashlib.sha256(content).hexdigest() != digest:
        raise ObjectHomeError(f"tree {digest} was altered; restore it, or delete the head that names it and build")
    found = json.loads(content)
    if found["format"] != _FORMAT:
        raise ObjectHomeError(f"tree {digest} is of version {found['format']}, and this program reads {_FORMAT}")
    tree = {path: FileFact(*fact) for path, fact in found["files"].items()}
    for path, fact in tree.items():
        if not _is_within(path) or not _DIGEST.fullmatch(fact.digest):
            raise ObjectHomeError(f"tree {digest} names {path!r}, which no folder of ours has")
    return tree


def _is_within(path: str) -> bool:
    parts = path.split("/")
    return all(part and not part.startswith(".") and "\\" not in part and "\0" not in part for part in parts)


def shared_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and facts of each file of a folder that machines share; what begins with a dot is this machine's."""
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


def scanned(folder: Path, known: Known) -> tuple[Tree, Known]:
    """Return the tree of a folder as it is, and what of it to remember; files with a known stamp are not read.

    Raises:
        ObjectHomeError: a file changes while it is read.
    """
    tree, seen = dict[str, FileFact](), dict[str, tuple[Stamp, str]]()
    for path, status in shared_files(folder):
        stamp = Stamp.of(status)
        before = known.get(path)
        digest = before[1] if before and before[0] == stamp else _digest_of(folder / path, stamp)
        tree[path], seen[path] = FileFact(digest, status.st_size), (stamp, digest)
    return tree, seen


def _digest_of(path: Path, stamp: Stamp) -> str:
    made = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            made.update(block)
        after = Stamp.of(os.fstat(file.fileno()))
    if after != stamp:
        raise ObjectHomeError(f"{path} changes while it is shared; let the other program end, and try again")
    return made.hexdigest()
