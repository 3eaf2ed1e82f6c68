"""The bytes of a folder's files, each compared with its digest before any use: in memory, or mapped.

Belongs here: reading and comparing in one pass, several files at a time. Does not belong here: the meaning of the
bytes, remembering earlier comparisons (`digests`).

Bytes in memory are those that were compared, whatever happens to the file. A mapped file can be written to, and to read
one that was truncated ends the process: `MappedContent.stamp` detects changes.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

from numpy.typing import NDArray

from rag_serving.artifacts.digests import ChangedError, KnownDigests, Stamp, sized_stamp
from rag_serving.artifacts.manifest import FileFacts, mend
from rag_serving.artifacts.store import Store, StoreError, open_file

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
        stamps = {name: self._sized(name) for name in self._files}
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

    def _sized(self, name: str) -> Stamp:
        try:
            return sized_stamp(self._folder / name, self._files[name].bytes)
        except StoreError as error:
            raise StoreError(f"{error}; {mend(self._tenant)}") from None

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
    """Return a file's bytes in memory, as many as there are of `size`."""
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
    """Return the bytes of the file at a path, memory-mapped.

    Raises:
        OSError: there is none, or it cannot be read.
    """
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
