"""Where what jobs need and give is kept: files in the tenant's cache folder, or objects of a home that machines share.

Belongs here: writing, reading, listing and removing by name, and the seal of objects. Does not belong here: what the
content says (`payloads`, `results`).

Objects lie under the tenant's own prefix, as `tenants/NAME/jobs/KIND/ID`, so that erasing a tenant erases them. They
are written without the tenant's lease: no name is ever written with two different contents that matter.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from citelock_scale.object_home.objects import Objects
from rag_serving.artifacts.signatures import SEAL_BYTES, Seal
from rag_serving.artifacts.store import Store, write_bytes

SEAL_PURPOSE = "jobs"


class JobFiles(Protocol):
    """Contents by tenant and name. Every method may raise OSError or StoreError where the place is away."""

    def write(self, tenant: str, name: str, content: bytes) -> None:
        """Keep a content under a name, in place of another one."""
        ...

    def read(self, tenant: str, name: str) -> bytes | None:
        """Return a content; None where there is none of that name that this installation wrote."""
        ...

    def remove(self, tenant: str, name: str) -> None:
        """Remove a content, if there is one."""
        ...

    def listed(self, tenant: str) -> Iterator[tuple[str, float]]:
        """Yield the names and ages [s] of a tenant's contents."""
        ...


class FolderFiles:
    """Files in a folder of the tenant's cache, which all workers of the machine share."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder

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
        for path in sorted((self._store.cache(tenant) / self._folder).glob("*.json")):
            with suppress(OSError):
                yield path.stem, time.time() - path.stat().st_mtime

    def _path(self, tenant: str, name: str) -> Path:
        return self._store.cache(tenant) / self._folder / f"{name}.json"


class ObjectFiles:
    """Objects of a shared home, each sealed: one that somebody else put there is as good as absent."""

    def __init__(self, objects: Objects, seal: Seal, kind: str) -> None:
        self._objects, self._seal, self._kind = objects, seal, kind

    def write(self, tenant: str, name: str, content: bytes) -> None:
        sealed = self._seal_of(tenant, name, content) + content
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

    def _seal_of(self, tenant: str, name: str, content: bytes) -> bytes:
        return self._seal.of(*self._parts(tenant, name, content))

    def _parts(self, tenant: str, name: str, content: bytes) -> tuple[bytes, ...]:
        return self._kind.encode(), tenant.encode(), name.encode(), content

    def _name(self, tenant: str, name: str) -> str:
        return f"tenants/{tenant}/jobs/{self._kind}/{name}"
