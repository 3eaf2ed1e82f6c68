"""A folder as a tree: the digest and size of each of its files, and their objects.

Belongs here: a tree's contents, the names of its objects, this machine's shared files, reading them. Does not belong
here: the tree in force (`heads`), the order in which files are moved (`shared_folder`), sending (`writing`).

The name of an object has the digest of its content and the edition of the writer that sent it: a number that no other
writer ever has. A writer reuses the names in the tree in force, and sends all else under its own edition. So no
latecomer, such as a sweeper that stalled before it deleted, can touch objects published after it lost its lease.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rag_serving.artifacts.contents import Stamp
from rag_serving.artifacts.secret import canonical
from rag_serving.shared_home import ObjectHomeError

OBJECT = re.compile(r"(?:trees/[0-9a-f]{64}|blobs/[0-9a-f]{2}/[0-9a-f]{64}(?:-[0-9a-f]{16})?)")
"""The names of our objects below a folder."""
_FORMAT = 2  # 1: without editions
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EDITION = re.compile(r"(?:[0-9a-f]{16})?")
_LARGEST_BYTES = 1 << 50
_LONGEST_NAME = 255  # of files, in bytes
OWN_FOLDERS = frozenset({"chroma"})
"""Of a tenant; every machine has its own."""
OWN_FILES = frozenset({"cache/digests.json"})
_BLOCK_BYTES = 1 << 20
Known = Mapping[str, tuple[Stamp, str]]


class FileFact(NamedTuple):
    """A file's SHA-256 and size [bytes]."""

    digest: str
    size: int


Files = Mapping[str, FileFact]
"""Files by their path below the folder, with slashes."""


@dataclass(frozen=True)
class Tree:
    """The files of a folder, the edition of each content, of this tree itself, and the tree that it replaced."""

    files: Files
    editions: Mapping[str, str]
    """By digest."""
    edition: str = ""
    before: str | None = None

    def blob(self, folder: str, digest: str) -> str:
        """Return the name of the object with a content."""
        return blob_name(folder, digest, self.editions.get(digest, ""))

    def blobs(self, folder: str) -> Iterator[tuple[str, FileFact]]:
        """Yield the objects that the tree needs, each once, with their facts."""
        for fact in {fact.digest: fact for fact in self.files.values()}.values():
            yield self.blob(folder, fact.digest), fact


def blob_name(folder: str, digest: str, edition: str) -> str:
    """Return the name of the object with a file's content; folders share none, so that tenants share nothing."""
    return f"{folder}/blobs/{digest[:2]}/{digest}" + (f"-{edition}" if edition else "")


def tree_name(folder: str, digest: str) -> str:
    return f"{folder}/trees/{digest}"


def content_of(tree: Tree) -> bytes:
    """Return a tree as it is stored."""
    by_edition = dict[str, list[str]]()
    for digest in sorted({fact.digest for fact in tree.files.values()}):
        by_edition.setdefault(tree.editions.get(digest, ""), []).append(digest)
    content = {"format": _FORMAT, "edition": tree.edition, "before": tree.before, "editions": by_edition}
    return canonical({**content, "files": {path: list(fact) for path, fact in tree.files.items()}})


def tree_of(content: bytes, digest: str) -> Tree:
    """Return a stored tree.

    Raises:
        ObjectHomeError: it differs from its name's digest, or names a file outside of its folder.
    """
    if hashlib.sha256(content).hexdigest() != digest:
        raise ObjectHomeError(
            f"tree {digest} was altered; `citelock home repair` on a machine that has it puts it in force again"
        )
    try:
        found = json.loads(content)
        version = found["format"]
        if version not in (1, _FORMAT):
            raise ObjectHomeError(f"tree {digest} is of version {version!r}, and this program reads {_FORMAT}")
        tree = _parsed(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ObjectHomeError(
            f"tree {digest} is no tree of ours; `citelock home repair` says what can be done"
        ) from None
    if (path := next((path for path in tree.files if not _is_within(path)), None)) is not None:
        raise ObjectHomeError(f"tree {digest} names {path!r}, which no folder of ours has")
    if path := _nested(tree.files):
        raise ObjectHomeError(f"tree {digest} names {path!r} as a file and as a folder")
    return tree


def _parsed(found: Any) -> Tree:
    """Raises ValueError, KeyError, TypeError or AttributeError if it is no tree."""
    files = {path: FileFact(*fact) for path, fact in found["files"].items()}
    editions = {digest: edition for edition, digests in found.get("editions", {}).items() for digest in digests}
    edition, before = found.get("edition", ""), found.get("before")
    if not all(_is_fact(fact) for fact in files.values()) or not all(
        map(_EDITION.fullmatch, (*editions.values(), edition))
    ):
        raise ValueError
    if before is not None and not _DIGEST.fullmatch(before):
        raise ValueError
    return Tree(files, editions, edition, before)


def _is_fact(fact: FileFact) -> bool:
    return type(fact.size) is int and 0 <= fact.size < _LARGEST_BYTES and bool(_DIGEST.fullmatch(fact.digest))


def _is_within(path: str) -> bool:
    parts = path.split("/")
    try:
        is_short = all(len(os.fsencode(part)) <= _LONGEST_NAME for part in parts)
    except UnicodeEncodeError:
        return False
    return is_short and all(
        part and not part.startswith(".") and "\\" not in part and "\0" not in part for part in parts
    )


def _nested(files: Files) -> str | None:
    """Return a path that is a file and has files below it."""
    folders = {"/".join(parts[:end]) for path in files for parts in (path.split("/"),) for end in range(1, len(parts))}
    return next((path for path in files if path in folders), None)


def shared_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and facts of each shared file of a folder; names that begin with a dot are this machine's."""
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
    """Return the files of a folder, and the facts to remember; one with a known stamp is not read.

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
        ObjectHomeError: at the end, if it differs from the digest.
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
