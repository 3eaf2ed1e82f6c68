"""The rows of one tenant in the tables of all rooms.

Belongs here: which tables there are, counting and deleting a tenant's rows. Does not belong here: files and the proof
(`erasing`).

Only tables of this program are touched, whatever else the database holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sqlalchemy import Connection, Engine, Table, delete, func, inspect, select
from sqlalchemy.sql.elements import ColumnElement

from rag_serving.api_keys.store import METADATA as API_KEYS
from rag_serving.audit.tables import METADATA as AUDIT
from rag_serving.budgets.usage import METADATA as BUDGETS
from rag_serving.conversations.sessions import METADATA as SESSIONS_METADATA
from rag_serving.conversations.sessions import QUERIES, RESPONSES, SESSIONS
from rag_serving.receipts.database_table import METADATA as RECEIPTS
from rag_serving.telemetry.forgotten_table import METADATA as FORGOTTEN
from rag_serving.telemetry.job_tables import METADATA as JOBS
from rag_serving.telemetry.tables import METADATA as TELEMETRY

METADATAS = (TELEMETRY, RECEIPTS, SESSIONS_METADATA, AUDIT, API_KEYS, BUDGETS, JOBS, FORGOTTEN)
WITHOUT_TENANT = frozenset({QUERIES.name, RESPONSES.name, "embedding_workers", "forgotten"})
"""Tables without a tenant of their own: what was said in sessions, which goes with them, processes, and the marks that
something was forgotten, which have to outlive it."""


def tenant_tables() -> list[Table]:
    """Return the tables whose rows are of a tenant, those of which others are parts last."""
    tables = [table for metadata in METADATAS for table in metadata.sorted_tables if "tenant" in table.c]
    return [RESPONSES, QUERIES, *tables]


def count_rows(connection: Connection, tenant: str) -> dict[str, int]:
    """Return how many rows of a tenant there are in each table that has any."""
    counts = {}
    for table in _existing(connection):
        query = select(func.count()).select_from(table).where(_of(table, tenant))
        if count := int(connection.execute(query).scalar_one()):
            counts[table.name] = count
    return counts


def delete_rows(connection: Connection, tenant: str) -> None:
    """Delete the rows of a tenant."""
    for table in _existing(connection):
        connection.execute(delete(table).where(_of(table, tenant)))


@contextmanager
def opened_for_erasing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection in a transaction; in SQLite, what it deletes is overwritten in the file as well."""
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
        yield connection
        connection.commit()
    if is_sqlite:
        with closing(engine.raw_connection()) as raw:
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _existing(connection: Connection) -> list[Table]:
    names = set(inspect(connection).get_table_names())
    needed = {QUERIES.name: SESSIONS.name, RESPONSES.name: QUERIES.name}
    return [table for table in tenant_tables() if {table.name, needed.get(table.name, table.name)} <= names]


def _of(table: Table, tenant: str) -> ColumnElement[bool]:
    """Return what the rows of a tenant fulfil."""
    sessions = select(SESSIONS.c.id).where(SESSIONS.c.tenant == tenant)
    if table is QUERIES:
        return QUERIES.c.session_id.in_(sessions)
    if table is RESPONSES:
        return RESPONSES.c.query_id.in_(select(QUERIES.c.id).where(QUERIES.c.session_id.in_(sessions)))
    mine: ColumnElement[bool] = table.c.tenant == tenant
    return mine
