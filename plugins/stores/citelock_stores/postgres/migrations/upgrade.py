"""Applying the schema's revisions, and what they rest on: roles, pgvector, the key of signed claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from citelock_stores.postgres.migrations.versions import run_statements, schema_names
from citelock_stores.postgres.sessions import KEY_PURPOSE, pads
from rag_serving.artifacts.secret import derived_key
from rag_serving.config.loading import Config, ConfigError
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import RemoteConnectionError, RemoteDataError

OWNER, READER, WRITER = "citelock_owner", "citelock_app", "citelock_writer"
HEAD = "0002"
"""The revision that this program reads and writes."""
_REVISIONS = {
    # Tables by tenant and generation, policies bound to signed claims, partitions, hybrid search.
    "0001": ("claims", "tables", "policies", "partitions", "search"),
    # Hybrid search by the index at any size, seals of catalogs, an erasure of its own; what takes a moment at any size.
    "0002": ("tables", "partitions", "search"),
}  # none is undone: an older program reads and writes the newest, and the first goes by `DROP SCHEMA citelock CASCADE`
_LOCK = 0x637461746C6F636B  # of migrations, so that two at once follow each other
_ROLES = {OWNER: "NOLOGIN", READER: "LOGIN", WRITER: "LOGIN"}
_LIMITS = "NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"


@dataclass(frozen=True)
class Migration:
    """The result of `migrate`."""

    before: str | None
    after: str
    roles_made: tuple[str, ...]
    finds_words_by_index: bool  # False: no migration was run by a superuser


def migrate(config: Config) -> Migration:
    """Bring the database of `index.owner_url` to this program's schema, and install the key of signed claims. Raises
    ConfigError: no such URL is configured. Raises RemoteConnectionError: the database cannot be reached. Raises
    RemoteDataError: it refuses, lacks pgvector, or was made by a newer version."""
    url = config.index.owner_url
    if not url:
        raise ConfigError("index.owner_url is not set: the database's administrator (CITELOCK_INDEX__OWNER_URL)")
    with _connected(url) as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        number = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
        if number < 150_000:
            raise RemoteDataError(f"PostgreSQL {number // 10_000} is too old; 15 or newer is needed")
        made = tuple(role for role in _ROLES if _make_role(connection, role))
        _make_schema(connection)
        words = _make_words(connection)
        connection.exec_driver_sql(f"SET LOCAL ROLE {OWNER}")
        before, after = _apply(connection)
        inner, outer = pads(derived_key(config.home, KEY_PURPOSE))
        connection.exec_driver_sql(
            "INSERT INTO citelock.claim_keys (inner_pad, outer_pad) VALUES (%s, %s) ON CONFLICT (only_one) "
            "DO UPDATE SET inner_pad = excluded.inner_pad, outer_pad = excluded.outer_pad",
            (inner, outer),
        )
    return Migration(before, after, made, words)


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """Yield a connection in one transaction, which is undone where anything fails."""
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
    from sqlalchemy.pool import NullPool

    try:
        parsed = make_url(url).set(drivername="postgresql+psycopg")
    except ArgumentError as error:
        raise ConfigError(f"index.owner_url is no database URL ({error})") from None
    engine = create_engine(parsed, poolclass=NullPool)
    try:
        with engine.begin() as connection:
            yield connection
    except OperationalError as error:
        raise RemoteConnectionError(f"index.owner_url: {one_line(error.orig)}") from error
    except DBAPIError as error:
        raise RemoteDataError(f"index.owner_url: the migration was undone: {one_line(error.orig)}") from error


def _make_role(connection: Any, role: str) -> bool:
    """Make a role unless it exists; return whether it was made. Raises RemoteDataError: it exists with excessive
    rights."""
    row = connection.exec_driver_sql(
        "SELECT rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = %s", (role,)
    ).one_or_none()
    if row is None:
        connection.exec_driver_sql(f"CREATE ROLE {role} {_ROLES[role]} {_LIMITS}")
    elif row[0]:
        raise RemoteDataError(f"role {role} is a superuser or gets past row policies; `ALTER ROLE {role} {_LIMITS}`")
    if role == OWNER and not _is_superuser(connection):
        connection.exec_driver_sql(f"GRANT {OWNER} TO CURRENT_USER")
    return row is None


def _make_schema(connection: Any) -> None:
    extension = connection.exec_driver_sql("SELECT extversion FROM pg_extension WHERE extname = 'vector'").scalar()
    if extension is None:
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS extensions")
        connection.exec_driver_sql("CREATE EXTENSION vector WITH SCHEMA extensions")
        extension = connection.exec_driver_sql("SELECT extversion FROM pg_extension WHERE extname = 'vector'").scalar()
    if tuple(int(part) for part in str(extension).split(".")[:2]) < (0, 8):
        raise RemoteDataError(
            f"pgvector {extension} is too old; 0.8 or newer is needed (ALTER EXTENSION vector UPDATE)"
        )
    schema = connection.exec_driver_sql(
        "SELECT quote_ident(extnamespace::regnamespace::text) FROM pg_extension WHERE extname = 'vector'"
    ).scalar_one()
    connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO {OWNER}, {READER}, {WRITER}")
    connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS citelock AUTHORIZATION {OWNER}")
    database = connection.exec_driver_sql("SELECT quote_ident(current_database())").scalar_one()
    connection.exec_driver_sql(f"GRANT CONNECT ON DATABASE {database} TO {READER}, {WRITER}")
    connection.exec_driver_sql(f"GRANT TEMPORARY ON DATABASE {database} TO {WRITER}")


def _make_words(connection: Any) -> bool:
    """Make the operator that finds words in an index behind row policies; return whether it exists."""
    there = bool(connection.exec_driver_sql("SELECT to_regoper('citelock.@@@') IS NOT NULL").scalar_one())
    if there or not _is_superuser(connection) or _revision(connection) is not None:
        return there
    run_statements(connection, "v0001_words", {})
    return True


def _is_superuser(connection: Any) -> bool:
    return bool(connection.exec_driver_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").scalar_one())


def _revision(connection: Any) -> str | None:
    if connection.exec_driver_sql("SELECT to_regclass('citelock.schema_version')").scalar_one() is None:
        return None
    revision: str | None = connection.exec_driver_sql("SELECT version_num FROM citelock.schema_version").scalar()
    return revision


def _apply(connection: Any) -> tuple[str | None, str]:
    """Apply the revisions that are missing; returns the revision before and after."""
    before = _revision(connection)
    if before is not None and before not in _REVISIONS:
        raise RemoteDataError(f"the schema is of another version than this program's (revision {before})")
    if before is None:
        connection.exec_driver_sql(
            "CREATE TABLE citelock.schema_version "
            "(version_num varchar(32) NOT NULL CONSTRAINT schema_version_pkc PRIMARY KEY)"
        )
        connection.exec_driver_sql("INSERT INTO citelock.schema_version VALUES ('0000')")
    names = schema_names(connection)
    for revision, parts in _REVISIONS.items():
        if (before or "") < revision <= HEAD:
            for part in parts:
                run_statements(connection, f"v{revision}_{part}", names)
            connection.exec_driver_sql("UPDATE citelock.schema_version SET version_num = %s", (revision,))
    return before, str(_revision(connection))
