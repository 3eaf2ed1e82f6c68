"""A memory of files compared with their digests, so that unchanged ones are not hashed twice.

Belongs here: identifying a file, remembering comparisons.
Does not belong here: comparing (`contents`), manifests (`manifest`).

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
from pathlib import Path
from typing import NamedTuple

from rag_serving.artifacts.secret import SecretError, derived_key
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json

KEY_PURPOSE = "digests"
FILE = "digests.json"  # in the tenant's cache
_SETTLED_NS = 100_000_000  # times of files are no finer than a tick: what changed just now may change unnoticed


class ChangedError(StoreError):
    """A file changed while it was looked at: written to, replaced, or linked once more or less."""


class Stamp(NamedTuple):
    """The identity and state of a file."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def stamp_of(path: Path | str) -> Stamp | None:
    """Return the stamp of a regular file, None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return Stamp.of(status) if stat.S_ISREG(status.st_mode) else None


def is_settled(stamp: Stamp) -> bool:
    """Return whether a file changed long enough ago that another change gives it another stamp."""
    return time.time_ns() - max(stamp.modified_ns, stamp.changed_ns) > _SETTLED_NS


def sized_stamp(path: Path, size: int) -> Stamp:
    """Return the stamp of a regular file of that size.

    Raises:
        StoreError: there is none.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a regular file")
    if status.st_size != size:
        raise StoreError(f"{path} has {status.st_size} bytes instead of {size}")
    return Stamp.of(status)


_Entries = dict[str, tuple[Stamp, str]]
_lock = threading.Lock()
_remembered: dict[Path, _Entries] = {}  # by the file that they are saved in


class KnownDigests:
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
        """Return whether a file with this stamp had this digest."""
        return self._entries.get(name) == (stamp, digest)

    def add(self, name: str, stamp: Stamp, digest: str) -> None:
        """Remember a file, unless it changed so shortly ago that it could change again without another stamp."""
        if is_settled(stamp):
            with _lock:
                self._entries[name] = stamp, digest
            self._news = True

    def save(self) -> None:
        """Write down new entries; an unwritable home is compared again by the next process."""
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
        """Return another process's entries; nothing if the file is damaged or of another installation."""
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
