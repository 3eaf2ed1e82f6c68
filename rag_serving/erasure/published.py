"""What a tenant has in the database of `index`.

Belongs here: how its errors are told. Does not belong here: the database (`indexes.databases`), the proof (`erasing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes.databases import RemoteError, open_database


class PublishedError(RedactedError):
    """The database of `index` cannot be looked into, or not be emptied; the message says why."""


def count_published(config: Config, tenant: str) -> dict[str, dict[str, int]]:
    """Return what the database of `index` has of a tenant: {database: {table: rows}}, or in Qdrant {database: {aliases,
    collections or points: how many}}, in OpenSearch {aliases, indexes or documents}; nothing that there is none of.

    Raises:
        PublishedError: it cannot be told.
    """
    if config.index.kind == "disk":
        return {}
    with _reported(tenant):
        counts = open_database(config).count(tenant)
    return {f"index ({config.index.kind})": counts} if counts else {}


def remove_published(config: Config, tenant: str) -> None:
    """Remove all that the database of `index` has of a tenant; none of another one.

    Raises:
        PublishedError: it cannot be removed; what is left is removed by the next try.
    """
    if config.index.kind != "disk":
        with _reported(tenant):
            open_database(config).erase(Store(config.home), tenant)


@contextmanager
def _reported(tenant: str) -> Iterator[None]:
    try:
        yield
    except (RemoteError, SecretError) as error:
        raise PublishedError(f"what `index` has of {tenant} cannot be removed: {error}") from error
