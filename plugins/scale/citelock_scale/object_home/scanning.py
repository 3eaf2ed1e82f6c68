"""The files of this machine that belong to a shared folder, and their digests.

Belongs here: which files are shared, reading them. Does not belong here: objects (`trees`), sending (`sending`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from citelock_scale.object_home.trees import FileFact, Files
from rag_serving.artifacts.digests import Stamp
from rag_serving.shared_home import ObjectHomeError

OWN_FOLDERS = frozenset({"chroma"})
"""Of a tenant; every machine has its own."""
OWN_FILES = frozenset({"cache/digests.json"})
_BLOCK_BYTES = 1 << 20

Known = Mapping[str, tuple[Stamp, str]]


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


def scanned(folder: Path, known: Known) -> tuple[Files, Known]:
    """Return the files of a folder as they are, and what of them to remember; one with a known stamp is not read.

    Raises:
        ObjectHomeError: a file changes while it is read.
    """
    files, seen = dict[str, FileFact](), dict[str, tuple[Stamp, str]]()
    for path, status in shared_files(folder):
        stamp = Stamp.of(status)
        before = known.get(path)
        digest = before[1] if before and before[0] == stamp else _digest_of(folder / path, stamp)
        files[path], seen[path] = FileFact(digest, status.st_size), (stamp, digest)
    return files, seen


def unchanged_blocks(path: Path, fact: FileFact) -> Iterator[bytes]:
    """Yield a file's content in blocks of a megabyte.

    Raises:
        ObjectHomeError: at the end, where it was not what the digest says.
    """
    made, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            made.update(block)
            size += len(block)
            if size > fact.size:
                break
            yield block
    if (made.hexdigest(), size) != fact:
        raise _changes(path)


def _digest_of(path: Path, stamp: Stamp) -> str:
    made = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            made.update(block)
        after = Stamp.of(os.fstat(file.fileno()))
    if after != stamp:
        raise _changes(path)
    return made.hexdigest()


def _changes(path: Path) -> ObjectHomeError:
    return ObjectHomeError(f"{path} changes while it is shared; let the other program end, and try again")
