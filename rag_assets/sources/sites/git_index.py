"""Files that a git working tree lacks though its index has them: a checkout under way or not whole, or `rm` alone.

Which of these it is no look at the tree can tell: git writes a file's absence into its index when it was told to take
it away (`git rm`, `git pull`), and only then the list of files is complete without it.

Belongs here: finding the index of a folder, the names in it, what is said of a missing file. Does not belong here:
what becomes of such files (`source`). No program is run and nothing is written.

The format is git's own (Documentation/gitformat-index.txt), versions 2 to 4.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from pathlib import Path

TRACKED = "its file is missing, though git tracks it: `git rm` takes its page away, `git checkout` brings it back"
LOCKED = "its file is missing while git writes its index: remove .git/index.lock if no git runs"
UNREADABLE = "its file is missing, and git's index cannot be read to tell whether it is deleted: run `git status`"
INDEX_MAX = 512 * 1024**2
_HEAD = struct.Struct("!4sII")
_STAT_SIZE = 40  # times, device, inode, mode, owner, group, size
_EXTENDED, _SKIP_WORKTREE = 0x4000, 0x4000


class _BrokenIndexError(Exception):
    """An index that cannot be read."""


def missing_files(folder: Path, gone: Collection[str]) -> dict[str, str] | None:
    """Return those of the files that are gone from a folder which git says should be there, each with the reason why
    it does not count as deleted; None where git tracks no file of the folder.

    While git writes its index, none that is gone counts as deleted. Files that a sparse checkout leaves out are gone.

    Args:
        folder: any folder.
        gone: names below the folder, with `/`.
    """
    found = _git_folder(folder.absolute()) if gone else None
    if found is None:
        return None
    git, prefix = found
    if (git / "index.lock").exists():
        return dict.fromkeys(gone, LOCKED)
    try:
        tracked = _tracked(git)
    except FileNotFoundError:
        return None
    except (OSError, _BrokenIndexError):
        return dict.fromkeys(gone, UNREADABLE)
    if not any(name.startswith(prefix) for name in tracked):
        return None
    folders = tuple(name for name in tracked if name.endswith("/"))  # of a sparse index
    kept = (name for name in gone if f"{prefix}{name}" in tracked or f"{prefix}{name}".startswith(folders))
    return dict.fromkeys(kept, TRACKED)


def _git_folder(folder: Path) -> tuple[Path, str] | None:
    """Return where git keeps its index of a folder, and what stands before the folder's names in it."""
    for above in (folder, *folder.parents):
        git = above / ".git"
        prefix = "".join(f"{part}/" for part in folder.relative_to(above).parts)
        if git.is_dir():
            return git, prefix
        if git.is_file():
            try:
                told = git.read_text(encoding="utf-8", errors="replace")[:4096]
            except OSError:
                return None
            return above / told.partition("gitdir:")[2].strip(), prefix
    return None


def _tracked(git: Path) -> set[str]:
    """Return the names in an index.

    Raises:
        OSError: it cannot be read.
        _BrokenIndexError: it is none.
    """
    path = git / "index"
    if path.stat().st_size > INDEX_MAX:
        raise _BrokenIndexError
    try:
        return set(_names(path.read_bytes(), _digest_size(git)))
    except (struct.error, ValueError, IndexError):
        raise _BrokenIndexError from None


def _digest_size(git: Path) -> int:
    config = git / "config"
    is_sha256 = config.is_file() and b"objectformat = sha256" in config.read_bytes()[:100_000].lower()
    return 32 if is_sha256 else 20


def _names(content: bytes, digest_size: int) -> Iterator[str]:
    """Yield the names of the entries that should be in the working tree.

    Raises:
        ValueError, IndexError, struct.error: it is no index.
    """
    magic, version, count = _HEAD.unpack_from(content)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError
    at, name = _HEAD.size, b""
    for _ in range(count):
        begin = at
        at += _STAT_SIZE + digest_size
        (flags,) = struct.unpack_from("!H", content, at)
        at += 2
        further = 0
        if flags & _EXTENDED and version > 2:
            (further,) = struct.unpack_from("!H", content, at)
            at += 2
        if version == 4:
            cut, at = _varint(content, at)
            name = name[: len(name) - cut] if cut else name
        else:
            name = b""
        end = content.index(b"\0", at)
        name += content[at:end]
        at = end + 1 if version == 4 else begin + (end - begin) // 8 * 8 + 8
        if not further & _SKIP_WORKTREE:
            yield name.decode("utf-8", "surrogateescape")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number as git's packs write it, and where what follows begins."""
    value = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (content[at] & 0x7F)
    return value, at + 1
