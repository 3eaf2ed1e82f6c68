"""Texts and vectors of jobs, in files of the tenant's cache or objects of a shared home.

No text of a page is in the database. A payload may be lost at any time: the job fails with that reason, and a build
that needs its texts writes them again. Its content is used only if it has the content address in the job.

Objects are under the tenant's own prefix, as `tenants/NAME/jobs/KIND/ID`, so that erasing a tenant erases them. They
are written without the tenant's lease: no name is ever written with two different contents that matter. If the home is
an object store, the tenant's cache belongs to the machine with the tenant's lease: a worker writes an object for each
job, named by the job and its claim, and the build reads those of jobs that are done."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from citelock_scale.embedding_jobs.queue import LACKS_TEXTS, EmbeddingText, JobClaim, JobQueue, job_id
from citelock_scale.object_home.objects import Objects
from rag_assets.state.content_cache import SEAL_PURPOSE, VectorCache, vector_key
from rag_serving.artifacts.secret import SEAL_BYTES, Seal
from rag_serving.artifacts.store import Store, StoreError, write_bytes

JOBS_SEAL = "jobs"
FOLDER = "embedding_jobs"
ABANDONED_S = 3600.0
_AT_ONCE = 8


class JobFiles(Protocol):
    """Contents by tenant and name. Every method may raise OSError or StoreError if the place is away."""

    def write(self, tenant: str, name: str, content: bytes) -> None:
        """Keep a content under a name, in place of another one."""

    def read(self, tenant: str, name: str) -> bytes | None:
        """Return a content; None if there is none of that name that this installation wrote."""

    def remove(self, tenant: str, name: str) -> None:
        """Remove a content, if there is one."""

    def listed(self, tenant: str) -> Iterator[tuple[str, float]]:
        """Yield the names and ages [s] of a tenant's contents."""


class FolderFiles:
    """Files in a folder of the tenant's cache, which all workers of the machine share."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, tenant: str, name: str, content: bytes) -> None:
        write_bytes(self._path(tenant, name), content)

    def read(self, tenant: str, name: str) -> bytes | None:
        try:
            return self._path(tenant, name).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, tenant: str, name: str) -> None:
        self._path(tenant, name).unlink(missing_ok=True)

    def listed(self, tenant: str) -> Iterator[tuple[str, float]]:
        for path in sorted((self._store.cache(tenant) / FOLDER).glob("*.json")):
            with suppress(OSError):
                yield path.stem, time.time() - path.stat().st_mtime

    def _path(self, tenant: str, name: str) -> Path:
        return self._store.cache(tenant) / FOLDER / f"{name}.json"


class ObjectFiles:
    """Objects of a shared home, each sealed: one that somebody else put there is as good as absent."""

    def __init__(self, objects: Objects, seal: Seal, kind: str) -> None:
        self._objects, self._seal, self._kind = objects, seal, kind

    def write(self, tenant: str, name: str, content: bytes) -> None:
        sealed = self._seal.of(*self._parts(tenant, name, content)) + content
        if self._objects.create(self._name(tenant, name), sealed) is None and self.read(tenant, name) is None:
            self.remove(tenant, name)  # it was damaged
            self._objects.create(self._name(tenant, name), sealed)

    def read(self, tenant: str, name: str) -> bytes | None:
        stored = self._objects.read(self._name(tenant, name))
        if stored is None:
            return None
        seal, content = stored.content[:SEAL_BYTES], stored.content[SEAL_BYTES:]
        return content if self._seal.holds(seal, *self._parts(tenant, name, content)) else None

    def remove(self, tenant: str, name: str) -> None:
        self._objects.delete([self._name(tenant, name)])

    def listed(self, tenant: str) -> Iterator[tuple[str, float]]:
        for path, _, changed_at in self._objects.names(self._name(tenant, "")):
            yield path.rpartition("/")[2], time.time() - changed_at

    def _parts(self, tenant: str, name: str, content: bytes) -> tuple[bytes, ...]:
        return self._kind.encode(), tenant.encode(), name.encode(), content

    def _name(self, tenant: str, name: str) -> str:
        return f"tenants/{tenant}/jobs/{self._kind}/{name}"


class PayloadError(Exception):
    """The texts of a job are not there, or are others; the message begins with LACKS_TEXTS."""


class Payloads:
    """The texts of all tenants' jobs."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files

    def save(self, tenant: str, model: str, items: Sequence[EmbeddingText]) -> str:
        """Write the texts of a job; return its id. Raises OSError, StoreError: they cannot be written."""
        name = job_id(tenant, model, [item.key for item in items])
        rows = [{"key": item.key, "text": item.text, "page_id": item.page_id} for item in items]
        self._files.write(tenant, name, json.dumps(rows).encode())
        return name

    def load(self, claim: JobClaim) -> list[EmbeddingText]:
        """Return the texts of a job. Raises PayloadError: they are not there, or are others. Raises OSError,
        StoreError: where they are kept is away."""
        content = self._files.read(claim.tenant, claim.id)
        if content is None:
            raise PayloadError(f"{LACKS_TEXTS}: workers and builds must share the home, and its secret")
        try:
            items = {row["key"]: EmbeddingText(row["key"], row["text"], row["page_id"]) for row in json.loads(content)}
            found = [items[key] for key in claim.keys]
        except (ValueError, KeyError, TypeError):
            raise PayloadError(f"{LACKS_TEXTS}: what was written for it is damaged") from None
        if any(vector_key(claim.model, item.text) != item.key for item in found):
            raise PayloadError(f"{LACKS_TEXTS}: one was altered")
        return found

    def remove(self, claim: JobClaim) -> None:
        """Remove the texts of a finished job; the rest is left to `sweep`."""
        with suppress(OSError, StoreError):
            self._files.remove(claim.tenant, claim.id)

    def sweep(self, tenant: str, wanted: Collection[str]) -> int:
        """Remove the texts of jobs that are not there; those of the last hour stay. Return how many."""
        doomed = [name for name, age_s in self._files.listed(tenant) if age_s > ABANDONED_S and name not in wanted]
        for name in doomed:
            self._files.remove(tenant, name)
        return len(doomed)


class KeyVectors(NamedTuple):
    """Vectors [n, d] by the keys of their texts."""

    keys: tuple[str, ...]
    vectors: NDArray[np.float32]

    def plus(self, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> KeyVectors:
        """Return these and others."""
        return KeyVectors((*self.keys, *keys), np.stack([*self.vectors, *vectors])) if keys else self


NOTHING = KeyVectors((), np.empty((0, 0), np.float32))


class JobResults(Protocol):
    """Vectors of jobs. Every method may raise OSError, ModelError or StoreError if they cannot be kept or read."""

    def known(self, claim: JobClaim) -> set[str]:
        """Return the keys of a job whose vectors need not be computed."""

    def keep(self, claim: JobClaim, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
        """Store the results of a job, so that a build finds them once the job is done."""

    def collect(self, cache: VectorCache, tenant: str, keys: Collection[str]) -> bool:
        """Take the vectors of some keys into a build's cache, as far as jobs that are done have them; return whether
        there were any that it had not."""

    def sweep(self, cache: VectorCache, tenant: str) -> None:
        """Remove everything that no build needs any more."""


class CachedResults:
    """Vectors in the tenant's cache, which workers and builds of a home share."""

    def __init__(self, store: Store, model: str) -> None:
        self._store, self._model = store, model
        self._caches: dict[str, VectorCache] = {}

    def known(self, claim: JobClaim) -> set[str]:
        return self._cache(claim.tenant).known(claim.keys)

    def keep(self, claim: JobClaim, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
        if keys:
            self._cache(claim.tenant).keep(keys, np.stack(vectors))

    def collect(self, cache: VectorCache, tenant: str, keys: Collection[str]) -> bool:
        """No-op: the cache has them."""
        del cache, tenant, keys
        return False

    def sweep(self, cache: VectorCache, tenant: str) -> None:
        """No-op: the cache keeps them."""

    def _cache(self, tenant: str) -> VectorCache:
        if tenant not in self._caches:
            seal = Seal(self._store.home, SEAL_PURPOSE)
            self._caches[tenant] = VectorCache(self._store.cache(tenant), self._model, seal)
        return self._caches[tenant]


class SharedResults:
    """Vectors in objects `ID-FENCE`, of the job and of the claim under which it was done."""

    def __init__(self, files: JobFiles, queue: JobQueue) -> None:
        self._files, self._queue = files, queue

    def known(self, claim: JobClaim) -> set[str]:
        return {*self._earlier(claim).keys} & {*claim.keys}

    def keep(self, claim: JobClaim, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
        found = self._earlier(claim).plus(keys, vectors)
        if found.keys:
            self._files.write(claim.tenant, _name(claim.id, claim.fence), _content(found))

    def collect(self, cache: VectorCache, tenant: str, keys: Collection[str]) -> bool:
        done = self._queue.done(tenant, cache.model).items()
        wanted = [name for name, of_job in done if not of_job.isdisjoint(keys)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for start in range(0, len(wanted), 8 * _AT_ONCE):  # whose vectors are in memory at once
                part = wanted[start : start + 8 * _AT_ONCE]
                for content in threads.map(lambda name: self._files.read(tenant, _name(*name)), part):
                    found = _read(content)
                    if found.keys:
                        cache.keep(found.keys, found.vectors)
        return bool(wanted)

    def sweep(self, cache: VectorCache, tenant: str) -> None:
        old = [name for name, age_s in self._files.listed(tenant) if age_s > ABANDONED_S]
        if not old:
            return
        done = self._queue.done(tenant, None)
        known = cache.known({key for keys in done.values() for key in keys})
        wanted = {_name(*name) for name, keys in done.items() if not keys <= known}
        for name in old:
            if name not in wanted:
                self._files.remove(tenant, name)

    def _earlier(self, claim: JobClaim) -> KeyVectors:
        """Return the results of the job's previous worker, if it was tried before and lost."""
        if not claim.attempts:
            return NOTHING
        return _read(self._files.read(claim.tenant, _name(claim.id, claim.fence - 1)))


def _name(job: str, fence: int) -> str:
    return f"{job}-{fence}"


def _content(found: KeyVectors) -> bytes:
    """Return vectors as a line of JSON with their keys, and float32 behind it."""
    head = json.dumps({"keys": found.keys, "dimension": found.vectors.shape[1]})
    return head.encode() + b"\n" + found.vectors.astype("<f4").tobytes()


def _read(content: bytes | None) -> KeyVectors:
    if content is None:
        return NOTHING
    head, _, vectors = content.partition(b"\n")
    said = json.loads(head)  # under a seal of this installation
    return KeyVectors(tuple(said["keys"]), np.frombuffer(vectors, "<f4").reshape(-1, said["dimension"]))
