"""The database that published generations are copied to, where `index.kind` names one.

Belongs here: which writer does it. Does not belong here: a writer (`postgres_writer`), generations on disk (`publish`).
"""

from __future__ import annotations

import logging

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.remote.errors import RemoteError

_log = logging.getLogger(__name__)


def publish_to_database(store: Store, tenant: str, generation_id: str, config: Config) -> None:
    """Copy a checked generation to the configured database and let its pointer name it; nothing where there is none.

    Raises:
        ConfigError, RemoteError: it cannot be done, and why; what the database has published is as it was.
    """
    if config.index.kind == "postgres":
        from rag_assets.publishing.postgres_writer import publish_generation

        publish_generation(store, tenant, generation_id, config)


def prune_database(tenant: str, config: Config) -> tuple[str, ...]:
    """Remove generations beyond `keep_generations` from the database; returns their ids."""
    if config.index.kind == "postgres":
        from rag_assets.publishing.postgres_writer import PostgresPublisher

        try:
            return PostgresPublisher(config, tenant).prune(config.indexing.keep_generations)
        except RemoteError as error:  # what is published is: the next publication removes them
            _log.warning("older generations of %s stay in the database: %s", tenant, error)
    return ()
