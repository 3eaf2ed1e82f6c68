"""The files of an upload inbox: what was uploaded, by content, and a JSON record for each document. A file is whole
under its final name or not there: bytes are spooled beside, flushed to the disk and renamed, then the record that names
them is written. A process killed in between leaves a spooled file that `sweep` removes."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any

from rag_serving.artifacts.store import StoreError, move_file, open_file, read_json, write_json

HEAD_BYTES = 4096
"""Bytes from a file's beginning by which its kind is told."""
ABANDONED_S = 24 * 3600.0
"""Seconds after which a spooled file is one that nobody goes on writing."""

Stamp = tuple[int, int, int]

_NAME = re.compile(r"[a-z0-9]{1,64}\Z")


class Spool:
    """A file that is being received: written piece by piece, and hashed on the way."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{secrets.token_hex(16)}.part"
        self.size = 0
        self.head = b""
        self._hasher = sha256()
        self._file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb")

    def write(self, data: bytes) -> None:
        """Append to the file. Raises OSError: the disk does not take it."""
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        self._hasher.update(data)
        self._file.write(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        """The digest of the bytes written so far, in hexadecimal."""
        return self._hasher.hexdigest()

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """Remove the file; nothing happens where it got its final name."""
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)


class DocumentFiles:
    """The folder of one inbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folder_of_documents, self._states_path = folder / "documents", folder / "states.json"
        self._documents: dict[str, tuple[Stamp, Any]] = {}
        self._states: tuple[Stamp, Any] | None = None

    def spool(self) -> Spool:
        """Return a new file to receive into."""
        return Spool(self.folder / "incoming")

    def keep(self, spool: Spool) -> None:
        """Give the received file its final name, safely on the disk; an existing one stays."""
        spool.close()
        target = self.content_path(spool.sha256)
        if target.is_file() and target.stat().st_size == spool.size:
            spool.discard()
        else:
            move_file(spool.path, target)

    def content_path(self, digest: str) -> Path:
        """Return the path of the bytes with this SHA-256."""
        return self.folder / "contents" / _checked(digest)

    def open_content(self, digest: str) -> BufferedReader:
        """Open the bytes of this SHA-256. Raises OSError: they are not there."""
        return open_file(self.content_path(digest))

    def write_document(self, name: str, value: dict[str, Any]) -> None:
        """Write the record of a document atomically; under the lock."""
        write_json(self._folder_of_documents / f"{_checked(name)}.json", value)

    def remove_document(self, name: str) -> None:
        (self._folder_of_documents / f"{_checked(name)}.json").unlink(missing_ok=True)

    def read_documents(self, parse: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the records of all documents by name; unchanged ones are not read again. A record that cannot be read,
        or for which `parse` gives None, is left out: one damaged file hides one document. `parse` has to be the same
        function each time."""
        before, after = self._documents, dict[str, tuple[Stamp, Any]]()
        for name, path, stamp in self._listed():
            known = before.get(name)
            if known is None or known[0] != stamp:
                try:
                    known = (stamp, parse(read_json(Path(path))))
                except StoreError:
                    continue
            after[name] = known
        self._documents = after
        return {name: record for name, (_, record) in after.items() if record is not None}

    def write_states(self, states: dict[str, Any]) -> None:
        """Write atomically how far the build is with each document; by the build alone."""
        write_json(self._states_path, states)

    def read_states(self) -> dict[str, Any]:
        """Return how far the build is; of nothing if that cannot be read."""
        known = self._states
        try:
            stamp = _stamp(self._states_path.stat())
            if known is None or known[0] != stamp:
                known = self._states = (stamp, read_json(self._states_path))
        except (OSError, StoreError):
            return {}
        return dict(known[1]) if isinstance(known[1], dict) else {}

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes whenever a record or the states are written: a `stat` of a folder and a file."""
        return (*self.records_stamp(), *_times(self._states_path))

    def records_stamp(self) -> tuple[int, ...]:
        """Return a value that changes whenever a record is written or removed."""
        return _times(self._folder_of_documents)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of writers of document records; a killed holder loses it."""
        from filelock import FileLock  # a process that only reads locks nothing

        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".lock", fallback_to_soft=False):
            yield

    def sweep(self, wanted: Collection[str], now: float | None = None) -> int:
        """Remove bytes that no record names, and incomplete uploads. Return how many; under the lock."""
        doomed = [path for path in _files(self.folder / "contents") if path.name not in wanted]
        before = (time.time() if now is None else now) - ABANDONED_S
        for path in _files(self.folder / "incoming"):
            with suppress(OSError):
                doomed += [path] if path.stat().st_mtime < before else []
        for path in doomed:
            path.unlink(missing_ok=True)
        return len(doomed)

    def _listed(self) -> Iterator[tuple[str, str, Stamp]]:
        with suppress(FileNotFoundError), os.scandir(self._folder_of_documents) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".json")
                if name != entry.name and _NAME.match(name) and entry.is_file(follow_symlinks=False):
                    with suppress(OSError):
                        yield name, entry.path, _stamp(entry.stat(follow_symlinks=False))


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _times(path: Path) -> Stamp:
    try:
        return _stamp(path.stat())
    except OSError:
        return 0, 0, 0


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is no name of a file in an inbox")
    return name
