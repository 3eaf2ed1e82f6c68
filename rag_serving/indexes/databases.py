"""The database that published generations are copied to, where `index.kind` names one: a plug-in brings it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rag_serving.access.principals import Principal
from rag_serving.artifacts.manifest import Manifest
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes.set_tables import SetTablesOfReaders
from rag_serving.indexes.view import ReaderView
from rag_serving.plugins import one

if TYPE_CHECKING:
    from rag_serving.indexes.sources import GenerationSource


@dataclass(frozen=True)
class DatedPages:
    """A source's part of a generation."""

    pages: int
    newest: datetime | None  # when the version of its newest page was made


def source_pages(generation: ServedGeneration) -> dict[str, DatedPages]:
    """Return the sources of a generation by their keys, restricted pages included."""
    newest = generation.newest
    return {key: DatedPages(each.pages, newest.get(key)) for key, each in generation.manifest.pages.items()}


def newest_pages(chunks: pa.Table) -> dict[str, datetime]:
    """Return when each source's newest page was made, by GENERATION_CHUNKS; without sources that do not say."""
    dates = chunks.select(["source", "updated_at"]).group_by("source").aggregate([("updated_at", "max")])
    pairs = zip(dates["source"].to_pylist(), dates["updated_at_max"].to_pylist(), strict=True)
    return {source: newest for source, newest in pairs if newest is not None}


class ServedGeneration(Protocol):
    """An open generation that readers may ask. Safe to use from several threads."""

    @property
    def id(self) -> str: ...

    @property
    def manifest(self) -> Manifest: ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the degraded parts, one line each."""
        ...

    @property
    def is_altered(self) -> bool:
        """Return whether its files were written to since it was opened."""
        ...

    def __len__(self) -> int:
        """Return its number of chunks, for all readers."""
        ...

    def for_reader(self, principal: Principal) -> ReaderView:
        """Return a principal's view. Raises RemoteError: it is in a database that cannot answer."""
        ...

    @property
    def newest(self) -> Mapping[str, datetime]:
        """Return when the version of the newest page of each source was made, restricted pages included."""
        ...

    @property
    def sets(self) -> SetTablesOfReaders:
        """Return the tables for queries about sets."""
        ...

    def classes_for(self, principal: Principal) -> frozenset[str]:
        """Return the reader classes known here for a principal: all, or those that the principal satisfies."""
        ...

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether a chunk is here, or may be, that `view` does not show."""
        ...

    def close(self) -> None: ...


ENTRY_POINTS = "citelock.stores"

Figures = Mapping[str, int | float | str]  # what a publication did in a database: numbers and short texts by name


class RemoteError(Exception):
    """The database cannot answer; the message is one line, without secrets, and says how to mend it."""


class RemoteConnectionError(RemoteError):
    """The database cannot be reached, refused the connection, or broke it."""


class BusyError(RemoteConnectionError):
    """The server wants a later retry: 408, 429 or 5xx. `retry_after_s`: when, if given."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RemoteTimeoutError(RemoteError):
    """The database took longer than it may."""


class RemoteDataError(RemoteError):
    """The database's data is missing, damaged, or of another version."""


class PublishedError(RedactedError):
    """The database of `index` cannot be looked into, or not be emptied of a tenant; the message says why."""


@dataclass(frozen=True)
class StoredInfo:
    """One generation in a database."""

    id: str
    chunks: int
    created_at: datetime
    published_at: datetime
    current: bool

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of one line of the list."""
        moments = {"created_at": self.created_at.isoformat(), "published_at": self.published_at.isoformat()}
        return {**vars(self), **moments}


class Database(Protocol):
    """The database of `index`. Nothing is sent by making one; every method but `source` may raise RemoteError, and
    ConfigError or SecretError if an address, a key or the installation's secret is missing."""

    def source(self, store: Store, tenant: str) -> GenerationSource:
        """Return a tenant's generations, as questions are answered from them."""
        ...

    def published(self, tenant: str) -> str | None:
        """Return the id of the generation that is published for a tenant."""
        ...

    def listed(self, tenant: str) -> list[StoredInfo] | None:
        """Return a tenant's generations, newest publication first; None if this machine cannot ask for all."""
        ...

    def roll_back(self, store: Store, tenant: str, generation_id: str | None) -> str:
        """Publish an existing generation, or the one before the published one; return its id. Raises StoreError: there
        is none to go back to."""
        ...

    def publish(self, store: Store, tenant: str, generation_id: str, resend: bool) -> Figures:
        """Copy a checked generation from its folder and publish it; return the figures. `resend`: also send what the
        database has already. Raises StoreError: the folder is damaged; the publication is unchanged, as after any
        failure."""
        ...

    def prune(self, store: Store, tenant: str) -> tuple[str, ...]:
        """Remove generations beyond `keep_generations`; return their ids."""
        ...

    def count(self, tenant: str) -> dict[str, int]:
        """Return how much it has of a tenant, by kind; nothing that there is none of."""
        ...

    def erase(self, store: Store, tenant: str) -> None:
        """Remove all that it has of a tenant, and nothing of another one."""
        ...


def open_database(config: Config) -> Database:
    """Return the database that `index` names. Raises ConfigError: its plug-in is not installed."""
    database: Database = one(ENTRY_POINTS, config.index.kind)(config)
    return database
