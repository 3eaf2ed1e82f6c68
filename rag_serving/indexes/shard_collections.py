"""Dense shards as Chroma collections, which never change once they have their name.

Belongs here: finding, checking and searching a tenant's collections.
Does not belong here: building them (`rag_assets.publishing.shard_writer`), merging shards (`dense`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.chroma import ChromaLocation, DenseError, one_line, open_client
from rag_serving.indexes.shard_files import file_fault

FORMAT = 1


@dataclass(frozen=True)
class ShardCollections:
    """All collections of one tenant."""

    client: Any
    folder: Path | None  # that holds their files; None: a server does

    @classmethod
    def open(cls, place: ChromaLocation) -> Self:
        """Connect; raises DenseError."""
        return cls(open_client(place), None if place.url else place.folder)

    def file_fault(self, name: str) -> str | None:
        """Return what is wrong with a collection's files, which must not be read then; None where nothing is known of
        any."""
        return file_fault(self.folder, name, thorough=True) if self.folder else None

    def get(self, name: str) -> Any | None:
        """Return a collection by name, None where there is none."""
        from chromadb.errors import NotFoundError

        try:
            return self.client.get_collection(name, embedding_function=None)
        except NotFoundError:
            return None


def stored_readers(collections: ShardCollections, name: str, page: int = 50_000) -> Iterator[tuple[str, str]]:
    """Yield every (vector id, reader class) of a collection.

    Raises:
        DenseError: it is gone or damaged.
    """
    try:
        collection = collections.get(name)
        if collection is None:
            raise DenseError(f"collection {name} is missing")
        offset = 0
        while (found := collection.get(include=["metadatas"], limit=page, offset=offset))["ids"]:
            offset += len(found["ids"])
            readers = [metadata["readers"] for metadata in found["metadatas"]]
            yield from zip(found["ids"], readers, strict=True)
    except DenseError:
        raise
    except Exception as error:  # Chroma raises its own, its transport's and plain ValueErrors
        raise DenseError(f"collection {name} cannot be read ({one_line(error)})") from error


def query(collection: Any, vector: NDArray[np.float32], k: int, readers: Sequence[str] | None) -> list[str]:
    """Return ids of the k nearest, only those of the given reader classes (None: all).

    Raises:
        DenseError: the collection is gone or damaged.
    """
    where = {} if readers is None else {"where": {"readers": {"$in": list(readers)}}}
    try:
        found = collection.query(query_embeddings=vector[None], n_results=k, include=[], **where)
        ids: list[str] = found["ids"][0]
    except Exception as error:  # Chroma raises its own, its transport's and plain ValueErrors
        raise DenseError(f"collection {collection.name} cannot be searched ({one_line(error)})") from error
    return ids
