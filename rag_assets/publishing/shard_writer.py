"""Dense shards are built as Chroma collections, named by the digest of their content and never changed afterwards.

Deletes and upserts leave live records unreachable in Chroma (chroma-core/chroma#7758, #4275), so a collection is only
ever added to while it is called `building-…`; renaming it is the commit.

hnswlib writes a graph's whole allocation, unused parts included, and never clears it: the file would contain the
process's earlier memory, credentials among it, and the same vectors would give another file each time. So memory that C
libraries allocate is zeroed meanwhile, by a switch of glibc.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.publishing.workspace import folder_facts
from rag_serving.artifacts.store import StoreError, read_json, remove_folder, write_json
from rag_serving.indexes.chroma import ChromaLocation, DenseError, ShardCollections
from rag_serving.indexes.shard_files import DATABASE, database_fault, graph_folders, note_of

# Recall@80 over 5,183 sentences of real text, for claims and questions (the worst query in brackets): 0.979 (0.888) at
# 128, 200, 16; 0.9958 (0.963) at 128, 400, 16; 0.9998 (0.988) at these, for a fifth more time to build.
EF_CONSTRUCTION, EF_SEARCH, MAX_NEIGHBORS = 200, 400, 24
BATCH = 5000  # Chroma takes at most 5461
LEAST_WRITTEN = 3  # vectors; of fewer Chroma keeps a log, and a graph that it makes again whenever it is opened
PROBES = 16
SAME = 1e-4  # cosine distance at which two vectors count as one

_BUILDING, _SHARD = "building-", "shard-"


@dataclass(frozen=True)
class ShardContent:
    """The content of one collection: ids and reader classes [n], vectors [n, d], and the digest of it all."""

    digest: str
    ids: Sequence[str]
    vectors: NDArray[np.float32]
    readers: Sequence[str]


class ShardWriter(ShardCollections):
    """All collections of one tenant, to be written by a holder of the tenant's lock (`Store.lock`)."""

    def ensure(self, content: ShardContent, progress: Callable[[int], None] | None = None) -> tuple[str, bool]:
        """Return the name of a complete, sound collection of this content, and whether it had to be built.

        An existing one is reused if its files are unaltered, its count is right and a search returns a sample of its
        vectors; otherwise another is built beside it under a fresh name, because a published generation may still use
        the first.
        """
        for name in self._names(content.digest):
            collection = self.get(name)
            if collection is None:
                self._build(name, content, progress)
                return name, True
            if self.file_fault(name) is None and is_sound(collection, content):
                return name, False
        raise AssertionError("names never end")

    def replace(self, name: str, content: ShardContent) -> None:
        """Build a damaged collection again under the name that manifests know it by."""
        if self.get(name) is not None:
            self._delete(name)
        self._build(name, content, None)

    def remove_unfinished(self) -> list[str]:
        """Remove the remains of killed builds; return the names."""
        return self._remove(lambda name: name.startswith(_BUILDING))

    def remove_unnamed(self, named: frozenset[str]) -> list[str]:
        """Remove every shard that no manifest names; returns the names."""
        return self._remove(lambda name: name.startswith(_SHARD) and name not in named)

    def _names(self, digest: str) -> Iterator[str]:
        yield f"{_SHARD}{digest}"
        number = 2
        while True:
            yield f"{_SHARD}{digest}-{number}"
            number += 1

    def _build(self, name: str, content: ShardContent, progress: Callable[[int], None] | None) -> None:
        with zeroed_allocations():
            before = graph_folders(self.folder) if self.folder else frozenset()
            collection = self.client.create_collection(
                _BUILDING + uuid.uuid4().hex, configuration=_configuration(len(content.ids)), embedding_function=None
            )
            for start in range(0, len(content.ids), BATCH):
                part = slice(start, start + BATCH)
                collection.add(
                    ids=list(content.ids[part]),
                    embeddings=content.vectors[part],
                    metadatas=[{"readers": readers} for readers in content.readers[part]],
                )
                if progress:
                    progress(min(start + BATCH, len(content.ids)))
            if collection.count() != len(content.ids):
                raise DenseError(f"Chroma kept {collection.count()} of {len(content.ids)} vectors of shard {name}")
            if self.folder:
                note_files(self.folder, name, graph_folders(self.folder) - before, len(content.ids) >= LEAST_WRITTEN)
            collection.modify(name=name)

    def _remove(self, doomed: Callable[[str], bool]) -> list[str]:
        names = [name for name in self._all() if doomed(name)]
        for name in names:
            self._delete(name)
        return names

    def _delete(self, name: str) -> None:
        self.client.delete_collection(name)
        if self.folder:
            forget_files(self.folder, name)

    def _all(self, page: int = 500) -> list[str]:
        names: list[str] = []
        while batch := self.client.list_collections(limit=page, offset=len(names)):
            names += [collection.name for collection in batch]
        return names


def remove_unnamed_shards(place: ChromaLocation, named: frozenset[str]) -> list[str]:
    """Remove a tenant's shards that no manifest names; returns the names. Without a database Chroma is not loaded."""
    if place.url is None and not (place.folder / DATABASE).exists():
        return []
    return ShardWriter.open(place).remove_unnamed(named)


def is_sound(collection: Any, content: ShardContent) -> bool:
    """Return whether a collection has all of its content, and a search returns a sample of its vectors."""
    try:
        if collection.count() != len(content.ids):
            return False
        sample = np.unique(np.linspace(0, len(content.ids) - 1, PROBES).astype(int))
        found = collection.query(query_embeddings=content.vectors[sample], n_results=1, include=["distances"])
        distances = found["distances"]
    except Exception:  # whatever Chroma raises for a damaged collection, the mend is the same: build another
        return False
    return all(distance and abs(distance[0]) <= SAME for distance in distances)


def _configuration(size: int) -> dict[str, Any]:
    """Written to disk once, when the last vector is in: opening then reads a finished graph, not a log."""
    return {
        "hnsw": {
            "space": "cosine",
            "ef_construction": EF_CONSTRUCTION,
            "ef_search": EF_SEARCH,
            "max_neighbors": MAX_NEIGHBORS,
            "sync_threshold": max(size, LEAST_WRITTEN),
            "batch_size": max(min(size, 1000), LEAST_WRITTEN),
        }
    }


def note_files(folder: Path, collection: str, own: Collection[str], is_final: bool) -> None:
    """Write down a collection's own folders, and size and digest of every file in them unless these still change."""
    files = {
        f"{name}/{file}": facts.model_dump()
        for name in sorted(own if is_final else ())
        for file, facts in folder_facts(folder / name).items()
    }
    write_json(note_of(folder, collection), {"folders": sorted(own), "files": files})


def forget_files(folder: Path, collection: str) -> None:
    """Remove the files of a collection that was deleted, which Chroma leaves behind."""
    try:
        own = frozenset(map(str, read_json(note_of(folder, collection))["folders"]))
    except (StoreError, KeyError, TypeError):
        own = frozenset()
    for name in own & graph_folders(folder):
        remove_folder(folder / name)
    note_of(folder, collection).unlink(missing_ok=True)


def discard_unreadable(folder: Path) -> str | None:
    """Remove Chroma's folder where its database is damaged, and return why: all in it can be built again."""
    fault = database_fault(folder)
    if fault:
        remove_folder(folder)
    return fault


_M_PERTURB = -6  # malloc.h of glibc, see mallopt(3): memory is filled with the complement of the value's lowest byte
_ZEROS = 0xFF

_lock = Lock()
_inside = 0


@contextmanager
def zeroed_allocations() -> Iterator[None]:
    """Have every allocation of the process zeroed, from any thread, until the last such block ends. Without glibc
    nothing is changed."""
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _set(_ZEROS)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                value = os.environ.get("MALLOC_PERTURB_", "0")
                _set(int(value) & 0xFF if value.isascii() and value.isdecimal() else 0)


def _set(value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, value)
