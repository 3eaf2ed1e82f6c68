"""A home that machines share by an object store: what reading, building and erasing need of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from rag_serving.artifacts.store import StoreError
from rag_serving.config.loading import Config
from rag_serving.plugins import one

HOMES = "citelock.homes"
Needs = Callable[[str, bool], bool]
"""Whether a file of the tenant, or (true) of the published generation, by its path there, is needed."""


class ObjectHomeError(StoreError):
    """The shared home cannot be used; the message is one line: what, and how to mend it."""


class HeldError(ObjectHomeError):
    """Somebody else writes there; the message names it."""


class Erased(NamedTuple):
    """The deleted contents of a folder in the store, and how they were listed."""

    number: int
    """Of the head that says so; 0: nothing was ever shared."""
    listed: int
    """Objects that the store listed."""
    named: int
    """Objects that its trees named."""
    unread: str | None
    """The tree that could not be read: what it and older ones named was deleted only where the store listed it."""


class HomeFollower(Protocol):
    """Keeps this machine's folders of some tenants what was published last. Safe to use from several threads."""

    @property
    def problem(self) -> str | None:
        """Why a folder is not what was last published; None if it is."""

    @property
    def is_away(self) -> bool:
        """Return whether nothing that is followed can be read, as where the store does not answer."""

    def problem_of(self, tenant: str) -> str | None:
        """Return the problem of a tenant and its sources, also if the store reports nothing at all."""

    def staleness(self, tenant: str) -> str | None:
        """Return why this machine's data of a tenant may be older than the publication; None if it is not."""

    def awaited(self, tenant: str, has_older: bool) -> str | None:
        """Return what a starting server waits for before it gets questions of a tenant; None if it is there, or not
        waited for. `has_older`: an earlier generation could answer."""

    def follow(self) -> None:
        """Begin to look, in a thread, unless that was done a moment ago or is being done; returns at once."""

    def fetch(self) -> None:
        """Fetch the news of every folder before returning; if the store fails, the local state stays in force."""

    def fetch_if_due(self) -> None:
        """The same, unless it was done `object_store.poll_s` ago or less."""


class SharedHome(Protocol):
    """The home that lies in `home` on this machine and in an object store for all. Folders are named by their paths
    below it, such as `tenants/acme`. Each method may raise ObjectHomeError if the store cannot be used."""

    home: Path

    def refresh(self, name: str) -> None:
        """Update a folder to the last shared state, unless a process of this machine writes there."""

    def is_followed(self, name: str) -> bool:
        """Return whether this machine knows a folder from the store, and never had the whole of it."""

    def writing(self, name: str, wait_s: float = 0.0) -> AbstractContextManager[None]:
        """Hold the right to write a folder; raises HeldError if another machine writes there after `wait_s`."""

    def follower(self, config: Config, tenants: Iterable[str], needs: Needs | None = None) -> HomeFollower:
        """Return the follower that keeps tenants' folders up to date; `needs`: the files to fetch, None for all."""

    def server_follower(self, config: Config) -> HomeFollower:
        """Return the same for all tenants of a server, and delete the files of removed tenants."""

    def count(self, name: str) -> int:
        """Return how many objects there are of a folder, but for a head that says it was erased."""

    def erase(self, name: str) -> Erased:
        """Erase a folder in the store, and have all machines delete their copies."""


def shared_home(config: Config) -> SharedHome | None:
    """Return the home that a configuration shares with other machines, None if it is a folder of this one. Raises
    ConfigError: the plug-in that it needs is not installed; ObjectHomeError: it cannot be used."""
    if not config.object_store.url:
        return None
    home: SharedHome = one(HOMES, "object_store", "scale")(config)
    return home


@contextmanager
def written_with(config: Config, folder: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the right to write a folder of the home against other machines; nothing if the home is this one's own.
    Raises HeldError: another machine writes there; ObjectHomeError: the store cannot be used."""
    home = shared_home(config)
    if home is None:
        yield
        return
    with home.writing(folder.absolute().relative_to(home.home).as_posix(), wait_s):
        yield
