"""The files of a folder, a git working tree, a zip or a prefix of a bucket, read in place and within limits."""

from __future__ import annotations

import os
import posixpath
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from rag_assets.sources.base import SourceError
from rag_assets.sources.sites.site import SourceTree
from rag_assets.steps.files.file_text import MOST_RATIO, RATIO_FROM
from rag_assets.steps.files.records import FileError
from rag_serving.artifacts.store import open_file

SCHEME = "s3:"
MOST_OBJECTS = 200_000
_RETRIES = 6
_TRIES = 3
_TIMEOUT_S = 60
_FOREVER = datetime(1970, 1, 1, tzinfo=UTC)


def is_object_prefix(path: Path) -> bool:
    """Return whether a path is `s3://BUCKET/PREFIX`, as a path has it: with one slash."""
    return len(path.parts) > 1 and path.parts[0] == SCHEME


def object_tree(path: Path, key: str, max_bytes: int) -> ObjectTree:
    """List the objects below `s3://BUCKET/PREFIX`, all of them or none; a larger one than `max_bytes` cannot be read.
    Raises SourceError: they cannot be listed to the end, there is none, or there are too many."""
    try:
        import obstore
    except ImportError:
        raise SourceError(f"sources.{key}.path is an object store; install citelock[s3]") from None
    bucket, prefix = path.parts[1], "/".join(path.parts[2:])
    address = f"s3://{bucket}/{prefix}"
    try:
        from obstore.store import S3Store

        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        store = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={"timeout": f"{_TIMEOUT_S}s", "allow_http": endpoint.startswith("http://")},
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=3 * _TIMEOUT_S)},
        )
        listed = [one for page in obstore.list(store, chunk_size=1000) for one in page]
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        raise SourceError(f"{address} cannot be listed, and nothing was deleted: {_line(error)}") from None
    return ObjectTree(store, address, key, listed, max_bytes)


class ObjectTree:
    """The objects of a prefix by their names below it; those whose names a folder would hide are left aside."""

    def __init__(self, store: Any, address: str, key: str, listed: Sequence[Any], max_bytes: int) -> None:

        if len(listed) > MOST_OBJECTS:
            raise SourceError(f"{address} has more than {MOST_OBJECTS:,} objects; make several sources of it")
        self._store, self._max_bytes = store, max_bytes
        self._objects = {
            str(one["path"]): one for one in listed if not any(map(is_left_aside, str(one["path"]).split("/")))
        }
        if not self._objects:
            raise SourceError(f"{address} holds no object; set sources.{key}.path to a prefix of documents")
        self.names: Sequence[str] = sorted(self._objects)

    def stamp(self, name: str) -> str:
        """Return a value that changes with an object: its size and ETag."""
        one = self._objects[name]
        tag = one.get("e_tag") or one["last_modified"].isoformat()
        return f"{one['size']}.{str(tag).strip(chr(34))}"

    def written_at(self, name: str) -> datetime:
        """Return when an object was written."""
        found = self._objects[name]["last_modified"]
        return found.astimezone(UTC) if isinstance(found, datetime) else _FOREVER

    def touched_at(self, name: str) -> float:
        """Return 0 if the ETag identifies an object's content, else the time of its writing."""
        return 0.0 if self._objects[name].get("e_tag") else self.written_at(name).timestamp()

    def read(self, name: str) -> bytes:
        """Return the content of an object. Raises KeyError: there is none of that name. Raises FileError: it cannot be
        read, is larger than allowed, or changed since it was listed."""
        import obstore

        one = self._objects[name]
        check_size(one["size"], self._max_bytes)
        options: Any = {"if_match": one["e_tag"]} if one.get("e_tag") else {}
        for tried in range(1, _TRIES + 1):
            try:
                return within(bytes(obstore.get(self._store, name, options=options).bytes()), self._max_bytes)
            except obstore.exceptions.PreconditionError:
                raise FileError("it changed while it was read; the next build reads it") from None
            except FileNotFoundError:
                raise FileError("it cannot be fetched: it is not there any more") from None
            except (obstore.exceptions.BaseError, OSError) as error:  # also one that drops within a body
                if tried == _TRIES:
                    raise FileError(f"it cannot be fetched: {_line(error)}") from None
        raise AssertionError


def _line(error: Exception) -> str:
    """Return an error on one line, without the request's contents."""
    return " ".join(str(error).split())[:200]


MOST_FILES = 200_000
MAX_ARCHIVE_BYTES = 8 * 1024**3
"""Unpacked."""
_LEFT_ASIDE = frozenset({"__MACOSX", "node_modules", "__pycache__"})


class FileTree(SourceTree, Protocol):
    """A `SourceTree` that also knows when its files were written."""

    def written_at(self, name: str) -> datetime:
        """Return when a file's content was written. Raises KeyError: there is none of that name."""
        ...

    def touched_at(self, name: str, /) -> float:
        """Return the time of a file's last writing, in seconds since 1970; 0 if the stamp identifies its content."""
        ...


class LargeFileError(FileError):
    """A file is larger than allowed."""


@contextmanager
def opened_tree(path: Path, key: str, max_bytes: int) -> Iterator[FileTree]:
    """Yield the files of a folder, zip or `s3://BUCKET/PREFIX`; a zip's only folder is left out of the names, and a
    larger file than `max_bytes` cannot be read. Raises SourceError: it does not exist, is unreadable, has no file, or
    has too many."""
    if is_object_prefix(path):
        yield object_tree(path, key, max_bytes)
        return
    if path.is_dir():
        yield FolderTree(path, key, max_bytes)
        return
    with _opened_zip(path, key) as archive:
        tree = ZipTree(archive, path, key, max_bytes)
        tops = {name.partition("/")[0] for name in tree.names if "/" in name}
        is_wrapped = len(tops) == 1 and all("/" in name for name in tree.names)
        yield SubTree(tree, tops.pop()) if is_wrapped else tree


def _opened_zip(path: Path, key: str) -> zipfile.ZipFile:
    """Return a zip file. Raises SourceError if it is none."""
    mend = f"set sources.{key}.path to a folder or zip of documents, or to s3://BUCKET/PREFIX"
    if not path.is_file():
        raise SourceError(f"{path} does not exist; {mend}")
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SourceError(f"{path} is not a readable zip file ({error}); {mend}") from None


class FolderTree:
    """The files of a folder and of those below it; hidden ones, links and installed packages are left aside."""

    def __init__(self, folder: Path, key: str, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._files: dict[str, os.stat_result] = {}
        try:
            for name, found in _walked(folder, ""):
                self._files[name] = found
                if len(self._files) > MOST_FILES:
                    raise SourceError(f"folder {folder} has more than {MOST_FILES:,} files; make several sources of it")
        except OSError as error:
            raise SourceError(f"folder {folder} cannot be read ({error.strerror}); check its permissions") from None
        if not self._files:
            raise SourceError(f"folder {folder} holds no file; set sources.{key}.path to a folder of documents")
        self.names: Sequence[str] = sorted(self._files)

    def stamp(self, name: str) -> str:
        found = self._files[name]
        return f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_ino}"

    def written_at(self, name: str) -> datetime:
        return datetime.fromtimestamp(self._files[name].st_mtime_ns // 1_000_000 / 1000, UTC)

    def touched_at(self, name: str) -> float:
        found = self._files[name]
        return max(found.st_mtime_ns, found.st_ctime_ns) / 1e9

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise KeyError(name)
        check_size(self._files[name].st_size, self._max_bytes)
        try:
            with open_file(self._folder / name) as stream:
                return within(stream.read(self._max_bytes + 1), self._max_bytes)
        except OSError as error:
            raise FileError(f"it cannot be opened: {error.strerror}") from None


class ZipTree:
    """The files of a zip. Names are labels: nothing is unpacked to disk; one that leads elsewhere does not count."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, key: str, max_bytes: int) -> None:
        self._archive, self._max_bytes = archive, max_bytes
        entries = archive.infolist()
        if len(entries) > MOST_FILES:
            raise SourceError(f"{path} has more than {MOST_FILES:,} files; make several sources of it")
        self._entries = {one.filename: one for one in entries if _counts(one)}
        if sum(one.file_size for one in self._entries.values()) > MAX_ARCHIVE_BYTES:
            raise SourceError(f"{path} unpacks to more than {MAX_ARCHIVE_BYTES} bytes; make several sources of it")
        if not self._entries:
            raise SourceError(f"{path} holds no file; set sources.{key}.path to a folder or zip of documents")
        self.names: Sequence[str] = sorted(self._entries)

    def stamp(self, name: str) -> str:
        entry = self._entries[name]
        return f"{entry.file_size}.{entry.CRC:08x}"

    def written_at(self, name: str) -> datetime:
        try:
            return datetime(*self._entries[name].date_time, tzinfo=UTC)
        except ValueError:
            return datetime(1980, 1, 1, tzinfo=UTC)

    def touched_at(self, _name: str) -> float:
        return 0.0

    def read(self, name: str) -> bytes:
        entry = self._entries[name]
        check_size(entry.file_size, self._max_bytes)
        if entry.file_size > max(RATIO_FROM, MOST_RATIO * entry.compress_size):
            raise FileError(f"it unpacks to more than {MOST_RATIO} times its size")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(f"it is packed by a method that is not read ({entry.compress_type})")
        try:
            with self._archive.open(entry) as stream:
                return within(stream.read(self._max_bytes + 1), self._max_bytes)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise FileError(f"it cannot be unpacked: {error}") from None


class SubTree:
    """The files below one folder of a tree, by their names below it."""

    def __init__(self, tree: FileTree, folder: str) -> None:
        self._tree, self._prefix = tree, f"{folder.rstrip('/')}/"
        at = len(self._prefix)
        self.names: Sequence[str] = [name[at:] for name in tree.names if name.startswith(self._prefix)]
        self._known = frozenset(self.names)

    def stamp(self, name: str) -> str:
        return self._tree.stamp(self._whole(name))

    def written_at(self, name: str) -> datetime:
        return self._tree.written_at(self._whole(name))

    def touched_at(self, name: str) -> float:
        return self._tree.touched_at(self._whole(name))

    def read(self, name: str) -> bytes:
        return self._tree.read(self._whole(name))

    def _whole(self, name: str) -> str:
        if name not in self._known:
            raise KeyError(name)
        return self._prefix + name


def resolved(name: str, target: str) -> str | None:
    """Return the name of the file that a relative path in a file leads to; None if it leads out of the tree."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return None if joined.startswith(("../", "/")) or joined == ".." else joined


def within(content: bytes, max_bytes: int) -> bytes:
    """Return a content that is no larger than allowed. Raises LargeFileError if it is."""
    check_size(len(content), max_bytes)
    return content


def check_size(size: int, max_bytes: int) -> None:
    """Raise LargeFileError if a file of so many bytes is too large."""
    if size > max_bytes:
        raise LargeFileError(f"it is larger than {max_bytes} bytes (max_file_bytes)")


def _walked(folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [(folder, prefix)]
    while waiting:
        below, before = waiting.pop()
        with os.scandir(below) as entries:
            for entry in entries:
                if is_left_aside(entry.name) or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), f"{before}{entry.name}/"))
                elif entry.is_file(follow_symlinks=False):
                    yield f"{before}{entry.name}", entry.stat(follow_symlinks=False)


def is_left_aside(part: str) -> bool:
    """Return whether a file or folder of this name is no document: hidden, or installed packages."""
    return (part.startswith(".") and not part.startswith(".eleventy.")) or part in _LEFT_ASIDE


def _counts(entry: zipfile.ZipInfo) -> bool:
    parts = entry.filename.split("/")
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    return not (entry.is_dir() or is_link or "\\" in entry.filename or any(not p or is_left_aside(p) for p in parts))


def by_folder(names: Sequence[str]) -> Mapping[str, list[str]]:
    """Return the names of a tree by folder; "" is its root."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(posixpath.dirname(name), []).append(name)
    return folders
