"""Whether files are what a manifest says, to the last bit, without reading twice what did not change.

Belongs here: opening files that are files, their digests, remembering which were compared.
Does not belong here: what a manifest says (`manifest`), what becomes of a generation that is altered (`published`).

A digest is remembered by inode, size and both times of its file, in memory and in a file that is authenticated by the
installation's secret. The time of the last change of an inode cannot be set back as that of its content can.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rag_serving.artifacts.manifest import FileFacts, mend
from rag_serving.artifacts.secret import SecretError, derived_key
from rag_serving.artifacts.store import Store, StoreError, open_file, read_json, write_json

KEY_PURPOSE = "digests"
FILE = "digests.json"  # in the tenant's cache
_SETTLED_NS = 100_000_000  # times of files are no finer than a tick: what changed just now may change unnoticed
_FEW_BYTES = 1 << 20  # are hashed sooner than a thread starts
_THREADS = 4


class ChangedError(StoreError):
    """A file changed while it was looked at: written to, replaced, or linked once more or less."""


class Stamp(NamedTuple):
    """What tells a file from every other and from what it was before."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def stamp_of(path: Path | str) -> Stamp | None:
    """Return the stamp of a regular file, None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return Stamp.of(found) if stat.S_ISREG(found.st_mode) else None


def check_digests(store: Store, tenant: str, folder: Path, files: Mapping[str, FileFacts]) -> dict[str, Stamp]:
    """Compare every file of a folder with its size and digest; return what each was when it was compared.

    Raises:
        StoreError: a file is missing, is no regular file, cannot be read, or was altered; the first is named.
        ChangedError: a file changed meanwhile.
    """
    try:
        return _compared(store, tenant, folder, files)
    except ChangedError:
        raise
    except StoreError as error:
        raise StoreError(f"{error}; {mend(tenant)}") from error


def _compared(store: Store, tenant: str, folder: Path, files: Mapping[str, FileFacts]) -> dict[str, Stamp]:
    known = _Known(store, tenant)
    stamps = {name: _sized(folder / name, facts) for name, facts in files.items()}
    where = folder.relative_to(store.tenant(tenant)).as_posix()
    fresh = [name for name, stamp in stamps.items() if not known.holds(f"{where}/{name}", stamp, files[name].sha256)]
    for name, read in _hashed(folder, fresh, {name: files[name].bytes for name in fresh}):
        digest, stamp = read
        if digest != files[name].sha256:
            raise StoreError(f"{folder / name} was altered: its SHA-256 is another than when it was written")
        if stamp != stamps[name]:
            raise ChangedError(f"{folder / name} changed while it was read")
        known.add(f"{where}/{name}", stamp, digest)
    known.save()
    return stamps


def check_unchanged(folder: Path, stamps: Mapping[str, Stamp]) -> None:
    """Compare files with what they were when their digests were compared.

    Raises:
        ChangedError: one of them changed meanwhile.
    """
    for name, stamp in stamps.items():
        if stamp_of(folder / name) != stamp:
            raise ChangedError(f"{folder / name} changed while it was opened")


def _sized(path: Path, facts: FileFacts) -> Stamp:
    """The stamp of a regular file of the noted size."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a regular file")
    if found.st_size != facts.bytes:
        raise StoreError(f"{path} has {found.st_size} bytes instead of {facts.bytes}")
    return Stamp.of(found)


def _hashed(folder: Path, names: Iterable[str], sizes: Mapping[str, int]) -> list[tuple[str, tuple[str, Stamp]]]:
    """Digest and stamp of some files, the largest first and several at a time."""
    ordered = sorted(names, key=lambda name: -sizes[name])
    paths = [folder / name for name in ordered]
    if sum(sizes.values()) < _FEW_BYTES:
        return list(zip(ordered, map(_hash, paths), strict=True))
    with ThreadPoolExecutor(_THREADS, "digests") as pool:
        return list(zip(ordered, pool.map(_hash, paths), strict=True))


def _hash(path: Path) -> tuple[str, Stamp]:
    try:
        with open_file(path) as file:
            before = _stamp(file)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = _stamp(file)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    if before != after:
        raise ChangedError(f"{path} changed while it was read")
    return digest, after


def _stamp(file: BinaryIO) -> Stamp:
    return Stamp.of(os.fstat(file.fileno()))


_Entries = dict[str, tuple[Stamp, str]]
_lock = threading.Lock()
_remembered: dict[Path, _Entries] = {}  # by the file that they are saved in


class _Known:
    """Digests of a tenant's files that were compared before."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._home = store.home
        self._tenant = store.tenant(tenant)
        self._path = (store.cache(tenant) / FILE).absolute()
        self._news = False
        with _lock:
            if self._path not in _remembered:
                _remembered[self._path] = self._saved()
            self._entries = _remembered[self._path]

    def holds(self, name: str, stamp: Stamp, digest: str) -> bool:
        return self._entries.get(name) == (stamp, digest)

    def add(self, name: str, stamp: Stamp, digest: str) -> None:
        """Remember a file, unless it changed so shortly ago that it could change again without another stamp."""
        if time.time_ns() - max(stamp.modified_ns, stamp.changed_ns) > _SETTLED_NS:
            with _lock:
                self._entries[name] = stamp, digest
            self._news = True

    def save(self) -> None:
        """Write down what is new; a home that cannot be written is compared again by the next process."""
        if not self._news:
            return
        with _lock:
            for name in [name for name in self._entries if not (self._tenant / name).exists()]:
                del self._entries[name]
            files = {name: [*stamp, digest] for name, (stamp, digest) in sorted(self._entries.items())}
        try:
            write_json(self._path, {"files": files, "signature": self._signature(files)})
        except (OSError, SecretError):
            return

    def _saved(self) -> _Entries:
        """What another process wrote down; nothing where it is damaged or of another installation."""
        try:
            content = read_json(self._path)
            if not hmac.compare_digest(self._signature(content["files"]), str(content["signature"])):
                return {}
            return {name: (Stamp(*entry[:4]), entry[4]) for name, entry in content["files"].items()}
        except (StoreError, SecretError, KeyError, TypeError, AttributeError, ValueError):
            return {}

    def _signature(self, files: object) -> str:
        content = json.dumps(files, sort_keys=True, separators=(",", ":")).encode()
        return hmac.new(derived_key(self._home, KEY_PURPOSE), content, hashlib.sha256).hexdigest()
