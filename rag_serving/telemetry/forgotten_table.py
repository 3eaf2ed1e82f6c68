"""The table of marks by which servers hear that something of a tenant was forgotten.

Belongs here: its columns, reading and writing a mark. Does not belong here: what a server drops then (`caching`).

A mark outlives an erased tenant, so a row has a keyed digest and not its name.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, select
from sqlalchemy.dialects import postgresql, sqlite

METADATA = MetaData()

FORGOTTEN = Table(
    "forgotten",
    METADATA,
    Column("digest", String(64), primary_key=True),  # of the tenant's name
    Column("mark", String(32), nullable=False),  # another one each time
)


def read_mark(connection: Connection, digest: str) -> str | None:
    """Return the newest mark of a tenant; None if there was never one."""
    return connection.execute(select(FORGOTTEN.c.mark).where(FORGOTTEN.c.digest == digest)).scalar_one_or_none()


def write_mark(connection: Connection, digest: str, mark: str) -> None:
    """Put a mark in the place of the one before."""
    inserting: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = inserting(FORGOTTEN).values(digest=digest, mark=mark)
    connection.execute(row.on_conflict_do_update(index_elements=[FORGOTTEN.c.digest], set_={"mark": mark}))
