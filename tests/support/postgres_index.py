"""Databases with this program's schema on one server of the tests, and connections to attack them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.postgres.migrations.upgrade import migrate
from citelock_stores.postgres.sessions import KEY_PURPOSE, ClaimSigner, SignedClaims, configure
from citelock_stores.publishing.postgres import publish_generation
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.generation import Generation
from support.constants import configured
from support.postgres import Postgres, started_pgvector
from support.synthetic import MODEL

APP, WRITER, OWNER = "citelock_app", "citelock_writer", "postgres"


@dataclass
class IndexServer:
    """A server with pgvector; each home of a test gets a database of its own there."""

    postgres: Postgres
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def config(self, home: Path, tenants: Sequence[str] = ("acme",), migrated: bool = True, **index: Any) -> Config:
        """The configuration of a new database with this program's schema."""
        database = f"index{next(self._numbers)}"
        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}")
        at = f"127.0.0.1:{self.postgres.port}/{database}"
        urls = {"url": APP, "writer_url": WRITER, "owner_url": OWNER}
        said = {"kind": "postgres", **{name: f"postgresql://{user}@{at}" for name, user in urls.items()}, **index}
        config = configured({"home": str(home), "tenants": {name: {} for name in tenants}, "index": said})
        if migrated:
            migrate(config)
        return config


@contextmanager
def index_server() -> Iterator[IndexServer]:
    """A server of our own, until it is left; skips or fails as `started_pgvector`."""
    with started_pgvector() as postgres:
        yield IndexServer(postgres)


def publish_table(config: Config, tenant: str, table: pa.Table, vectors: NDArray[Any]) -> Generation:
    """Build a generation on disk and publish it there and in the database; returns it, open."""
    store = Store(config.home)
    generation = build_generation(store, tenant, table, vectors, config, MODEL)
    publish_generation(store, tenant, generation.id, config)
    store.point_current(tenant, generation.id)
    return generation


def empty(config: Config) -> None:
    """Remove all that was ever published in a database, as if it had just been migrated."""
    with psycopg.connect(config.index.owner_url or "", autocommit=True) as connection:
        tables = connection.execute(
            "SELECT relname, relname ~ '_[0-9a-f]{16}(_[0-9a-f]{12})?$' FROM pg_class "
            "WHERE relnamespace = 'citelock'::regnamespace AND relkind IN ('r', 'p') "
            "AND relname NOT IN ('claim_keys', 'schema_version')"
        ).fetchall()
        for name, is_own in tables:
            if is_own:
                connection.execute(f"DROP TABLE IF EXISTS citelock.{name} CASCADE")
        rest = ", ".join(f"citelock.{name}" for name, is_own in tables if not is_own)
        connection.execute(f"TRUNCATE {rest}")


def signer_of(config: Config) -> ClaimSigner:
    return ClaimSigner(derived_key(config.home, KEY_PURPOSE))


@contextmanager
def connected(config: Config, user: str = APP, claims: SignedClaims | None = None) -> Iterator[Any]:
    """A connection as one of the users, in a transaction with these claims that is undone at the end."""
    url = {APP: config.index.url, WRITER: config.index.writer_url, OWNER: config.index.owner_url}[user]
    with psycopg.connect(url or "", autocommit=False) as connection:
        configure(connection)
        connection.commit()
        if claims:
            set_claims(connection, claims)
        yield connection
        connection.rollback()


def set_claims(connection: Any, claims: SignedClaims) -> None:
    connection.execute(
        "SELECT set_config('request.jwt.claims', %s, true), set_config('request.jwt.signature', %s, true)", claims
    )


def tables_of(connection: Any) -> list[str]:
    """Return the tables of the schema that hold tenants' rows; partitions are parts of them."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'citelock'::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT relispartition AND relname NOT IN ('schema_version', 'claim_keys') ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]
