"""The bytes of a folder's files, each compared with its digest before any use: in memory, or mapped. Bytes in memory
are those that were compared, whatever happens to the file. A mapped file can be written to, and to read one that was
truncated ends the process: `MappedContent.stamp` detects changes."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import mmap
import os
import re
import stat
import struct
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.manifest import FileFacts, mend
from rag_serving.artifacts.secret import SecretError, derived_key
from rag_serving.artifacts.store import Store, StoreError, open_file, read_json, write_json

_MAGIC = b"\x93NUMPY"
_LENGTH_FIELDS = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
_LONGEST_HEADER = 10_240  # bytes
_LITERAL = re.compile(
    r"\{'descr': (?P<type>'[^']*'|\[[^\]]*\]), 'fortran_order': (?P<order>True|False), "
    r"'shape': \((?P<shape>[\d, ]*)\), \} *\n"
)
_TYPE = re.compile(r"[<>|=]?[a-zA-Z]\d*")


class _Header(NamedTuple):
    """`start`: where the array's items begin, in bytes."""

    type: np.dtype[Any]
    by_column: bool
    shape: tuple[int, ...]
    start: int


def array_of(data: memoryview) -> NDArray[Any]:
    """Return the array in the bytes of an `.npy` file, not copied. Raises ValueError: there is none, or it is shorter
    than declared, or has Python objects."""
    header = _header_of(data)
    if not (size := math.prod(header.shape)):
        return np.zeros(header.shape, header.type)
    items = np.frombuffer(data, header.type, size, header.start)
    return items.reshape(header.shape, order="F" if header.by_column else "C")


def _header_of(data: memoryview) -> _Header:
    """Return the contents of an `.npy` file's header. Raises ValueError: there is none, or it is of another version,
    too long, or no literal that NumPy writes."""
    version = len(_MAGIC)
    if bytes(data[:version]) != _MAGIC or len(data) < version + 2:
        raise ValueError("no .npy file: the magic bytes are missing")
    if not (field := _LENGTH_FIELDS.get((data[version], data[version + 1]))):
        raise ValueError(f"the .npy format {data[version]}.{data[version + 1]} is not read")
    begin = version + 2 + field.size
    length = field.unpack(data[version + 2 : begin])[0] if len(data) >= begin else 0
    if length > _LONGEST_HEADER:
        raise ValueError(f"the header of an .npy file has {length} bytes, at most {_LONGEST_HEADER} are read")
    literal = _LITERAL.fullmatch(bytes(data[begin : begin + length]).decode("latin-1"))
    if not literal:
        raise ValueError("the header of an .npy file is cut off or damaged")
    shape = tuple(int(size) for size in literal["shape"].split(",") if size.strip())
    return _Header(_type_of(literal["type"]), literal["order"] == "True", shape, begin + length)


def _type_of(literal: str) -> np.dtype[Any]:
    """Return the type that the literal of a header's `descr` names: a type's string, or a list of named fields. Raises
    ValueError: it is neither, or a type of Python objects."""
    as_json = re.sub(r",\s*\]", "]", literal.translate(str.maketrans("'()", '"[]')))
    try:
        described = json.loads(as_json)
        if isinstance(described, str):
            return np.dtype(_plain(described))
        return np.dtype([(str(name), _plain(kind), *map(tuple, sizes)) for name, kind, *sizes in described])
    except (ValueError, TypeError) as error:
        raise ValueError(f"the type {literal} of an .npy file is not read: {error}") from None


def _plain(kind: object) -> str:
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise ValueError(f"{kind!r} is no plain type")
    if kind.lstrip("<>|=").startswith("O"):
        raise ValueError("Python objects are not read")
    return kind


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
    """Return the stamp of a regular file of that size. Raises StoreError: there is none."""
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


_BLOCK = 8 << 20
_THREADS = 4


class Hasher(Protocol):
    """The interface of hashlib's hashes."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


class MappedContent(NamedTuple):
    """The bytes of one file. `stamp`: what the file was when it was mapped, None if its bytes are in memory."""

    data: memoryview
    stamp: Stamp | None = None


_NOTHING = MappedContent(memoryview(b""))

Contents = Mapping[str, memoryview]
"""The bytes of files by their names."""


class FileComparison:
    """Compares every file of a folder; `[name]` waits for one of those to be read. Used in a `with` block.

    The block's end waits for all of them. Both raise:
        StoreError: a file is missing, is no regular file, cannot be read, or was altered.
        ChangedError: a file changed meanwhile.
    """

    def __init__(
        self,
        store: Store,
        tenant: str,
        folder: Path,
        files: Mapping[str, FileFacts],
        wanted: Collection[str],
        memory_bytes: int,
    ) -> None:
        """`wanted`: the files to read, in the order of need; of the others only digests are compared. The smallest are
        read into memory up to `memory_bytes` in all, the rest is mapped."""
        self._tenant, self._folder, self._files = tenant, folder, files
        self._where = folder.relative_to(store.tenant(tenant)).as_posix()
        self._known = KnownDigests(store, tenant)
        self._held = frozenset(_smallest(files, wanted, memory_bytes))
        self._wanted = [*wanted]

    def __enter__(self) -> Self:
        try:
            stamps = {name: sized_stamp(self._folder / name, facts.bytes) for name, facts in self._files.items()}
        except StoreError as error:
            raise StoreError(f"{error}; {mend(self._tenant)}") from None
        self._pool = ThreadPoolExecutor(_THREADS, "compare")
        others = self._files.keys() - set(self._wanted)
        self._under_way = {
            name: self._pool.submit(self._read, name, stamps[name]) for name in [*self._wanted, *sorted(others)]
        }
        return self

    def __exit__(self, fault: object, *_: object) -> None:
        try:
            for reading in self._under_way.values() if fault is None else ():
                reading.result()
        finally:
            self._pool.shutdown(cancel_futures=True)
        self._known.save()

    def __getitem__(self, name: str) -> MappedContent:
        return self._under_way[name].result()

    def _read(self, name: str, stamp: Stamp) -> MappedContent:
        """Return the content of a file that has this stamp, compared with its digest; empty if it is not wanted."""
        path, key, digest = self._folder / name, f"{self._where}/{name}", self._files[name].sha256
        hasher = None if self._known.holds(key, stamp, digest) else sha256()
        if not hasher and name not in self._wanted:
            return _NOTHING
        try:
            with open_file(path) as file:
                content = self._content(name, file, stamp, hasher)
                after = Stamp.of(os.fstat(file.fileno()))
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); {mend(self._tenant)}") from None
        if hasher and hasher.hexdigest() != digest:
            altered = f"{path} was altered: its SHA-256 is another than when it was written"
            raise StoreError(f"{altered}; {mend(self._tenant)}")
        if after != stamp:
            raise ChangedError(f"{path} changed while it was read")
        if hasher:
            self._known.add(key, stamp, digest)
        return content

    def _content(self, name: str, file: BufferedReader, stamp: Stamp, hasher: Hasher | None) -> MappedContent:
        """Return the bytes of an open file, all of which the hasher has seen."""
        if name in self._held:
            return MappedContent(_copied(file, stamp.size, hasher))
        if hasher:
            for block in iter(partial(file.read, _BLOCK), b""):
                hasher.update(block)
        return MappedContent(mapped(file), stamp) if name in self._wanted else _NOTHING


def _copied(file: BufferedReader, size: int, hasher: Hasher | None) -> memoryview:
    # Not by numpy, which requests huge pages: allocating those can take a second in fragmented memory.
    data = memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if size else b"")
    done = 0
    while done < size and (read := file.readinto(data[done : done + _BLOCK])):
        if hasher:
            hasher.update(data[done : done + read])
        done += read
    return data[:done].toreadonly()


def mapped(file: BinaryIO) -> memoryview:
    """Return the bytes of an open file, memory-mapped: unused parts are not read."""
    if not os.fstat(file.fileno()).st_size:
        return memoryview(b"")  # cannot be mapped
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def map_file(path: Path) -> memoryview:
    """Return the bytes of the file at a path, memory-mapped. Raises OSError: there is none, or it cannot be read."""
    with open_file(path) as file:
        return mapped(file)


def let_go(array: NDArray[Any] | memoryview) -> None:
    """Let the system take back the memory of a mapped file that was read; it is read again on its next use."""
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is not None and hasattr(owner, "madvise"):
        owner.madvise(mmap.MADV_DONTNEED)


def _smallest(files: Mapping[str, FileFacts], names: Collection[str], memory_bytes: int) -> Iterator[str]:
    """Yield those of the names whose files together, from the smallest on, are no larger than that."""
    for name in sorted(names, key=lambda name: (files[name].bytes, name)):
        memory_bytes -= files[name].bytes
        if memory_bytes < 0:
            return
        yield name
