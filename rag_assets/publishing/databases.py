"""The database that published generations are copied to, where `index.kind` names one.

Belongs here: which writer does it. Does not belong here: a writer (`postgres_writer`, `qdrant_writer`,
`opensearch_writer`), generations on disk (`publish`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.remote.errors import RemoteError
from rag_serving.indexes.remote.pointers import ALIASED

if TYPE_CHECKING:
    from rag_assets.publishing.alias_publisher import AliasPublisher

Figures = Mapping[str, int | float | str]
"""What a publication did in a database: numbers and short texts by name."""

_log = logging.getLogger(__name__)


def publish_to_database(store: Store, tenant: str, generation_id: str, config: Config, resend: bool = False) -> Figures:
    """Copy a checked generation to the configured database and let its pointer name it; return what was done, nothing
    where there is none. `resend`: what the database has of it is sent again.

    Raises:
        ConfigError, RemoteError: it cannot be done, and why; what the database has published is as it was.
    """
    if config.index.kind == "postgres":
        from rag_assets.publishing.postgres_writer import publish_generation

        began = time.monotonic()
        copied = publish_generation(store, tenant, generation_id, config, resend)
        rows = {f"rows_of_{table}": count for table, count in copied.items()}
        seconds = round(time.monotonic() - began, 3)
        return {"rows_copied": sum(copied.values()), **rows, "seconds": seconds}
    if config.index.kind in ALIASED:
        with closing(alias_publisher(store, tenant, config)) as publisher, store.lock(tenant):
            return publisher.publish(generation_id, resend=resend).figures()
    return {}


def prune_database(store: Store, tenant: str, config: Config) -> tuple[str, ...]:
    """Remove generations beyond `keep_generations` from the database; returns their ids."""
    try:
        return _pruned(store, tenant, config)
    except RemoteError as error:  # what is published is: the next publication removes them
        _log.warning("older generations of %s stay in the database: %s", tenant, error)
    return ()


def _pruned(store: Store, tenant: str, config: Config) -> tuple[str, ...]:
    if config.index.kind == "postgres":
        from rag_assets.publishing.postgres_writer import PostgresPublisher

        return PostgresPublisher(config, tenant).prune(config.indexing.keep_generations)
    if config.index.kind in ALIASED:
        with closing(alias_publisher(store, tenant, config)) as publisher, store.lock(tenant):
            return publisher.prune()
    return ()


def alias_publisher(store: Store, tenant: str, config: Config) -> AliasPublisher:
    """Return what publishes in a server with aliases."""
    if config.index.kind == "opensearch":
        from rag_assets.publishing.opensearch_writer import OpenSearchPublisher

        return OpenSearchPublisher(store, tenant, config)
    from rag_assets.publishing.qdrant_writer import QdrantPublisher

    return QdrantPublisher(store, tenant, config)
