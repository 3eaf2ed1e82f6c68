"""The database of published generations, as the protocol wants it.

Belongs here: pointer, manifest, what is not as it should be. Does not belong here: a generation's rows (`reader`),
connections (`sessions`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from citelock_stores.postgres.claims import KEY_PURPOSE, UNSIGNED, Signer
from citelock_stores.postgres.generations import StoredGeneration, server_of
from citelock_stores.postgres.migrations.upgrade import HEAD
from citelock_stores.postgres.reader import PostgresGeneration
from citelock_stores.postgres.sessions import Sessions
from citelock_stores.remote.protocol import RemoteManifest
from rag_serving.artifacts.secret import derived_key
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.databases import RemoteDataError, RemoteError


class PostgresStore:
    """Generations in PostgreSQL. Safe to use from several threads; nothing is sent by making one."""

    def __init__(self, config: Config) -> None:
        """Raises:
        ConfigError: index.url is not set.
        SecretError: the installation's secret cannot be used.
        """
        if not config.index.url:
            raise ConfigError("index.url is not set: postgresql://citelock_app@host/name (CITELOCK_INDEX__URL)")
        self._settings = config.index
        self._signer = Signer(derived_key(config.home, KEY_PURPOSE))
        self._sessions = Sessions(config.index.url, config.index.connections, config.index.statement_timeout_s)

    def current(self, tenant: str) -> str | None:
        """Return the id of the generation that the tenant's pointer names; None where nothing is published."""
        ((known, generation),) = self._sessions.rows(
            server_of(self._signer, tenant),
            "SELECT citelock.claims() IS NOT NULL, "
            "(SELECT generation FROM citelock.pointers WHERE tenant_id = %s)::text",
            (self._signer.tenant_id(tenant),),
        )
        if not known:
            raise RemoteDataError(UNSIGNED)
        named: str | None = generation
        return named

    def open(self, tenant: str, generation_id: str) -> PostgresGeneration:
        """Return one generation of a tenant; RemoteDataError where it is not there."""
        tenant_id = self._signer.tenant_id(tenant)
        rows = self._sessions.rows(
            server_of(self._signer, tenant),
            "SELECT placement, dimension, ann, chunks, counts, manifest, newest FROM citelock.generations "
            "WHERE tenant_id = %s AND generation = %s",
            (tenant_id, generation_id),
        )
        if not rows:
            raise RemoteDataError(f"generation {generation_id} is not in the database of `index`; run `citelock build`")
        placement, dimension, ann, chunks, counts, content, newest = rows[0]
        windows = int(counts.get("chunk_windows", 0))
        stored = StoredGeneration(tenant, tenant_id, generation_id, placement, dimension, ann, chunks, windows)
        manifest = RemoteManifest(bytes(content), {key: datetime.fromisoformat(at) for key, at in newest.items()})
        return PostgresGeneration(stored, manifest, self._sessions, self._signer, self._settings)

    def faults(self, tenant: str) -> tuple[str, ...]:
        """Return what is not as it should be, a line each with its mend."""
        try:
            faults = [*self._faults(tenant)]
        except RemoteError as error:
            return (str(error),)
        return tuple(faults)

    def close(self) -> None:
        """Close every connection."""
        self._sessions.close()

    def _faults(self, tenant: str) -> list[str]:
        facts = self._asked(tenant, _FACTS)
        faults = []
        if facts["revision"] != HEAD:
            faults.append(f"schema {facts['revision']} is not this program's ({HEAD}); run `citelock index migrate`")
        if facts["unlimited"]:
            faults.append(f"user {facts['role']} of index.url gets past row policies; use citelock_app")
        if facts["owns"]:
            faults.append(f"user {facts['role']} of index.url owns tables of citelock; use citelock_app")
        if facts["writes"]:
            faults.append(f"user {facts['role']} of index.url may write; use citelock_app")
        if not facts["known"]:
            faults.append(UNSIGNED)
        elif not facts["is_there"]:
            faults.append(f"tenant {tenant!r} has no complete generation in the database; run `citelock build`")
        return faults

    def _asked(self, tenant: str, statements: dict[str, str]) -> dict[str, Any]:
        columns = ", ".join(f"({statement}) AS {name}" for name, statement in statements.items())
        (row,) = self._sessions.rows(server_of(self._signer, tenant), f"SELECT {columns}")
        return dict(zip(statements, row, strict=True))


_FACTS = {
    "revision": "SELECT version_num::text FROM citelock.schema_version",
    "role": "SELECT current_user::text",
    "unlimited": "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user",
    "owns": "SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'citelock'::regnamespace "
    "AND pg_has_role(c.relowner, 'USAGE'))",
    "writes": "SELECT has_table_privilege('citelock.document_chunks', 'INSERT, UPDATE, DELETE, TRUNCATE')",
    "known": "SELECT citelock.claims() IS NOT NULL",
    # With partitions of its own, all of them; where partitions are shared there is nothing to look for.
    "is_there": "SELECT EXISTS (SELECT FROM citelock.pointers p "
    "JOIN citelock.generations g USING (tenant_id, generation) WHERE g.placement <> g.tenant_id OR (SELECT bool_and("
    "citelock.is_attached(citelock.partition_name(parent, g.tenant_id, g.generation))) "
    "FROM unnest(ARRAY['document_chunks', 'postings']) AS parent))",
}
