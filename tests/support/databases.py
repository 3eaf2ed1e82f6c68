"""Databases of tests: emptied before, closed behind; and the audit log in one, as it is or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, MetaData, insert, select, update

from citelock_governance.audit.ledger import HEADS, METADATA, ROWS
from rag_serving.telemetry.tables import open_engine


@contextmanager
def emptied(url: str | None, home: Path, metadata: MetaData) -> Iterator[Engine]:
    """The database of a home, or of a URL, without these tables."""
    engine = open_engine(url, home / "serving.db")
    metadata.drop_all(engine)
    yield engine
    engine.dispose()


def audit_rows(engine: Engine) -> list[Mapping[str, Any]]:
    """The rows of the audit log in their order."""
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(select(ROWS).order_by(ROWS.c.sequence)).mappings()]


def damage_audit(engine: Engine) -> None:
    """Make the audit log of `acme` one that nothing can be appended to."""
    METADATA.create_all(engine)
    head = {"tenant": "acme", "first_sequence": 1, "first_previous": "x", "sequence": 0, "hash": "x", "signature": "x"}
    with engine.begin() as connection:
        if not connection.execute(update(HEADS).values(signature="x")).rowcount:
            connection.execute(insert(HEADS), head)
