"""What a server holds open to answer questions from, wherever it is kept.

Belongs here: the protocol. Does not belong here: what one reader may ask of it (`protocols`), opening it (`sources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from rag_serving.access.principals import Principal
from rag_serving.artifacts.manifest import Manifest
from rag_serving.indexes.protocols import ReaderView


class ServedGeneration(Protocol):
    """An open generation that readers may ask. Safe to use from several threads."""

    @property
    def id(self) -> str: ...

    @property
    def manifest(self) -> Manifest: ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return what was found not to work as built, a line each."""
        ...

    @property
    def is_altered(self) -> bool:
        """Return whether what it is read from was written to since it was opened."""
        ...

    def __len__(self) -> int:
        """Return how many chunks it has, whoever may read them."""
        ...

    def for_reader(self, principal: Principal) -> ReaderView:
        """Return what a principal may see.

        Raises:
            RemoteError: it is in a database that cannot answer.
        """
        ...

    @property
    def newest(self) -> Mapping[str, datetime]:
        """Return when the version of the newest page of each source was made, restricted pages included."""
        ...

    def classes_for(self, principal: Principal) -> frozenset[str]:
        """Return the reader classes that this process may know of when a principal asks: all of them, or those that
        the principal satisfies."""
        ...

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether a chunk is here, or may be, that `view` does not show."""
        ...

    def close(self) -> None: ...
