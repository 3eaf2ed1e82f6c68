"""One tenant's publisher: transactions that follow each other, and the pointer.

Belongs here: what a rollback needs as well. Does not belong here: copying generations
(`citelock_stores.publishing.postgres_writer`), reading them in a caller's name (`reader`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from citelock_stores.postgres.claims import KEY_PURPOSE, UNSIGNED, Signer
from citelock_stores.postgres.generations import (
    PublishedGeneration,
    list_published,
    move_pointer,
    publisher_of,
)
from citelock_stores.postgres.sessions import CONNECT_S, configure, remote_error, set_locally, settings_of
from rag_serving.artifacts.secret import derived_key
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.databases import RemoteDataError

_SETTINGS = {
    "client_connection_check_interval": "2s",  # the server notices when a publisher dies, whatever it is doing
    "maintenance_work_mem": "512MB",
}


class Publisher:
    """Moves one tenant's pointer. Every call is a transaction of its own, and alone among the tenant's publishers."""

    def __init__(self, config: Config, tenant: str) -> None:
        """Raises:
        ConfigError: index.writer_url is not set.
        SecretError: the installation's secret cannot be used.
        """
        if not config.index.writer_url:
            raise ConfigError(
                "index.writer_url is not set: postgresql://citelock_writer@host/name (CITELOCK_INDEX__WRITER_URL)"
            )
        self.settings, self.tenant, self.home = config.index, tenant, config.home
        self.signer = Signer(derived_key(config.home, KEY_PURPOSE))

    @property
    def tenant_id(self) -> UUID:
        return self.signer.tenant_id(self.tenant)

    def point_to(self, generation_id: str) -> None:
        """Let the pointer name a generation that is in the database.

        Raises:
            RemoteDataError: it is not.
        """
        with self.transaction() as connection:
            if not move_pointer(connection, self.tenant_id, generation_id, self.settings):
                raise RemoteDataError(
                    f"generation {generation_id} is not in the database of `index`; "
                    f"`citelock index status --tenant {self.tenant}` lists what is"
                )

    def listed(self) -> list[PublishedGeneration]:
        """Return what the database has, newest publication first."""
        with self.transaction() as connection:
            return list_published(connection, self.tenant_id)

    def renew(self, connection: Any) -> None:
        """Let the next statement take as long as it may: claims end with the time of one statement."""
        seconds = float(self.settings.publish_timeout_s)
        set_locally(connection, settings_of(publisher_of(self.signer, self.tenant)(seconds), seconds))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a connection in one transaction, which is undone where anything fails.

        Raises:
            RemoteError: the database refuses, is gone, or takes too long.
        """
        import psycopg

        try:
            with psycopg.connect(
                self.settings.writer_url or "", connect_timeout=int(CONNECT_S), prepare_threshold=None, autocommit=True
            ) as connection:
                configure(connection)
                with connection.transaction():
                    self.renew(connection)
                    set_locally(connection, _SETTINGS)
                    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (str(self.tenant_id),))
                    known = connection.execute("SELECT citelock.tenant_as('publisher')").fetchone()
                    if known is None or known[0] is None:
                        raise RemoteDataError(UNSIGNED)
                    yield connection
        except psycopg.Error as error:
            raise remote_error(error) from error
