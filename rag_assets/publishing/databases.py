"""Copying published generations to the database that `index.kind` names, if it names one.

Belongs here: what is done without one, and when it fails. Does not belong here: the database
(`rag_serving.indexes.databases`), generations on disk (`publish`).
"""

from __future__ import annotations

import logging

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import Figures, RemoteError, open_database

_log = logging.getLogger(__name__)


def publish_to_database(store: Store, tenant: str, generation_id: str, config: Config, resend: bool = False) -> Figures:
    """Copy a checked generation to the configured database and let its pointer name it; return what was done, nothing
    where there is none. `resend`: what the database has of it is sent again.

    Raises:
        ConfigError, RemoteError: it cannot be done, and why; what the database has published is as it was.
    """
    if config.index.kind == "disk":
        return {}
    return open_database(config).publish(store, tenant, generation_id, resend)


def prune_database(store: Store, tenant: str, config: Config) -> tuple[str, ...]:
    """Remove generations beyond `keep_generations` from the database; returns their ids."""
    if config.index.kind == "disk":
        return ()
    try:
        return open_database(config).prune(store, tenant)
    except RemoteError as error:  # what is published is: the next publication removes them
        _log.warning("older generations of %s stay in the database: %s", tenant, error)
    return ()
