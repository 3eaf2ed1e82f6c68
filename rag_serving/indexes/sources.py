"""Where the generations of a tenant come from that questions are answered from: their folders, or a database.

Belongs here: the protocol of what opens them, the folders, which of both it is.
Does not belong here: which generation answers when (`current`), the database (`remote.source`).
"""

from __future__ import annotations

from typing import Protocol

from rag_serving.artifacts.manifest import FILE as MANIFEST
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import list_generations
from rag_serving.indexes.followed import FollowedPublication
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.page_readers import ReaderComparison
from rag_serving.indexes.served import ServedGeneration

FileStamps = tuple[tuple[int, int], ...] | None
"""Inode and time of every file of a generation; None: one of them is missing, or it is not in files."""


class GenerationSource(Protocol):
    """The generations of one tenant. Safe to use from several threads."""

    def current(self) -> str | None:
        """Return the id of the published generation, None where nothing is published.

        Raises:
            StoreError: what is published cannot be read, or is not authentic.
        """
        ...

    def last_named(self) -> str | None:
        """Return the id of the generation that is published, or that was a moment ago; None where that is not
        known."""
        ...

    def open(self, generation_id: str) -> ServedGeneration:
        """Return a generation, opened. Raises whatever keeps it from being opened."""
        ...

    def narrows(self, old: str, new: str) -> bool:
        """Return whether somebody may read less of a page in the generation `new` than in `old`; true where
        unknown."""
        ...

    def before(self, generation_id: str) -> list[str]:
        """Return the generations that were published and are older than another, newest first."""
        ...

    def stamps(self, generation: ServedGeneration) -> FileStamps:
        """Return the stamps of a generation's files as they are now."""
        ...

    def close(self) -> None:
        """Let go of what it was opened with."""
        ...


class FolderSource:
    """The folders of a tenant's generations."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        self._store, self._tenant, self._config = store, tenant, config
        self._followed = FollowedPublication(store, tenant)
        self._comparison = ReaderComparison(store, tenant)

    def current(self) -> str | None:
        return self._followed.current()

    def last_named(self) -> str | None:
        try:
            return self.current()
        except StoreError:
            return None

    def open(self, generation_id: str) -> Generation:
        return Generation.open(self._store, self._tenant, generation_id, self._config)

    def narrows(self, old: str, new: str) -> bool:
        return self._comparison.narrows(old, new)

    def before(self, generation_id: str) -> list[str]:
        try:
            generations = list_generations(self._store, self._tenant)
        except (StoreError, OSError):
            return []
        ids = [info.id for info in generations]
        older = generations[ids.index(generation_id) + 1 :] if generation_id in ids else []
        return [info.id for info in older if info.published and not info.problem]

    def stamps(self, generation: ServedGeneration) -> FileStamps:
        folder = self._store.generation(self._tenant, generation.id)
        try:
            statuses = [(folder / name).stat() for name in (MANIFEST, *sorted(generation.manifest.files))]
        except OSError:
            return None
        return tuple((file.st_ino, file.st_mtime_ns) for file in statuses)

    def close(self) -> None:
        """Nothing is held."""


def open_source(store: Store, tenant: str, config: Config) -> GenerationSource:
    """Return where `index.kind` says that the generations of a tenant are; nothing is asked yet.

    Raises:
        ConfigError: the address of its database is missing.
    """
    if config.index.kind == "disk":
        return FolderSource(store, tenant, config)
    from rag_serving.indexes.remote.source import DatabaseSource

    return DatabaseSource(store, tenant, config)
