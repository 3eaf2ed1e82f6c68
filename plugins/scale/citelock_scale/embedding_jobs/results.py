"""The vectors that workers give a build: in the tenant's cache, or as objects that the build collects into it.

Belongs here: keeping and finding vectors of jobs. Does not belong here: doing a job (`worker`), the cache's own file
(`state.vector_cache`), where objects are kept (`job_files`).

Where the home is an object store, the tenant's cache belongs to the machine that holds the tenant's lease. A worker
writes an object for each job instead, named by the job and its claim; the build reads those of jobs that are done.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from citelock_scale.embedding_jobs.job_files import JobFiles
from citelock_scale.embedding_jobs.payloads import ABANDONED_S
from citelock_scale.embedding_jobs.queue import JobQueue
from citelock_scale.embedding_jobs.records import Claim
from rag_assets.state.vector_cache import SEAL_PURPOSE, VectorCache
from rag_serving.artifacts.signatures import Seal
from rag_serving.artifacts.store import Store

_AT_ONCE = 8


class KeyVectors(NamedTuple):
    """Vectors [n, d] by the keys of their texts."""

    keys: tuple[str, ...]
    vectors: NDArray[np.float32]

    def plus(self, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> KeyVectors:
        """Return these and others."""
        return KeyVectors((*self.keys, *keys), np.stack([*self.vectors, *vectors])) if keys else self


NOTHING = KeyVectors((), np.empty((0, 0), np.float32))


class Results(Protocol):
    """Vectors of jobs. Every method may raise OSError, ModelError or StoreError where they cannot be kept or read."""

    def known(self, claim: Claim) -> set[str]:
        """Return the keys of a job whose vectors need not be computed."""
        ...

    def keep(self, claim: Claim, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
        """Keep what was computed for a job, so that a build finds it once the job is done."""
        ...

    def collect(self, cache: VectorCache, tenant: str, keys: Collection[str]) -> bool:
        """Take the vectors of some keys into a build's cache, as far as jobs that are done have them; return whether
        there were any that it had not."""
        ...

    def sweep(self, cache: VectorCache, tenant: str) -> None:
        """Remove what no build needs any more."""
        ...


class CachedResults:
    """Vectors in the tenant's cache, which workers and builds of a home share."""

    def __init__(self, store: Store, model: str) -> None:
        self._store, self._model = store, model
        self._caches: dict[str, VectorCache] = {}

    def known(self, claim: Claim) -> set[str]:
        return self._cache(claim.tenant).known(claim.keys)

    def keep(self, claim: Claim, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
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

    def known(self, claim: Claim) -> set[str]:
        return {*self._earlier(claim).keys} & {*claim.keys}

    def keep(self, claim: Claim, keys: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
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

    def _earlier(self, claim: Claim) -> KeyVectors:
        """Return what the worker gave that had the job before, if it was tried before and lost."""
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
