"""What a tenant has in the database of `index`.

Belongs here: which database there is, how its errors are told. Does not belong here: its tables and collections
(`rag_serving.indexes`), the proof (`erasing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes.remote.errors import RemoteError

if TYPE_CHECKING:
    from rag_serving.indexes.postgres.publisher import Publisher


class PublishedError(RedactedError):
    """The database of `index` cannot be looked into, or not be emptied; the message says why."""


def count_published(config: Config, tenant: str) -> dict[str, dict[str, int]]:
    """Return what the database of `index` has of a tenant: {database: {table: rows}}, or in Qdrant {database: {aliases,
    collections or points: how many}}, in OpenSearch {aliases, indexes or documents}; nothing that there is none of.

    Raises:
        PublishedError: it cannot be told.
    """
    counts: dict[str, int] = {}
    with _reported(tenant):
        if config.index.kind == "postgres":
            from rag_serving.indexes.postgres.removal import count_of_tenant as count_rows

            counts = count_rows(_publisher(config, tenant))
        elif config.index.kind == "qdrant":
            from rag_serving.indexes.qdrant.removal import count_of_tenant as count_points

            counts = count_points(config, tenant)
        elif config.index.kind == "opensearch":
            from rag_serving.indexes.opensearch.removal import count_of_tenant as count_documents

            counts = count_documents(config, tenant)
    return {f"index ({config.index.kind})": counts} if counts else {}


def remove_published(config: Config, tenant: str) -> None:
    """Remove all that the database of `index` has of a tenant; none of another one.

    Raises:
        PublishedError: it cannot be removed; what is left is removed by the next try.
    """
    with _reported(tenant):
        if config.index.kind == "postgres":
            from rag_serving.indexes.postgres.removal import remove_tenant as remove_rows

            remove_rows(_publisher(config, tenant))
        elif config.index.kind == "qdrant":
            from rag_serving.indexes.qdrant.removal import remove_tenant as remove_points

            with Store(config.home).lock(tenant):
                remove_points(config, tenant)
        elif config.index.kind == "opensearch":
            from rag_serving.indexes.opensearch.removal import remove_tenant as remove_documents

            with Store(config.home).lock(tenant):
                remove_documents(config, tenant)


def _publisher(config: Config, tenant: str) -> Publisher:
    from rag_serving.indexes.postgres.publisher import Publisher

    if not config.index.writer_url:
        raise PublishedError(
            f"generations of {tenant} may be in the database of `index`, and index.writer_url is missing: set "
            "CITELOCK_INDEX__WRITER_URL=postgresql://citelock_writer@host/name, or run this where generations are built"
        )
    return Publisher(config, tenant)


@contextmanager
def _reported(tenant: str) -> Iterator[None]:
    try:
        yield
    except (RemoteError, SecretError) as error:
        raise PublishedError(f"what `index` has of {tenant} cannot be removed: {error}") from error
