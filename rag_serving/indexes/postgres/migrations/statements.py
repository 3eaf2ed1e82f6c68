"""The SQL files of the revisions.

Belongs here: reading and running them. Does not belong here: when (`upgrade`), their order (`versions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from rag_serving.indexes.postgres.migrations import versions


def run_statements(connection: Any, name: str, names: Mapping[str, str]) -> None:
    """Run a file of statements on a connection of SQLAlchemy, with these names in place of `{name}`."""
    text = (files(versions) / f"{name}.sql").read_text(encoding="utf-8")
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    connection.connection.driver_connection.execute(text)  # past SQLAlchemy: the statements are full of %
