"""Revisions of the schema, oldest first, and running their SQL files; one that was released never changes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def schema_names(connection: Any) -> dict[str, str]:
    """Return the values of `{name}` in the files: `ext`, the schema of pgvector; `words` and `match`, the operators of
    an index of words and the one that asks it: the database's own ones if row policies let it use these."""
    extension = connection.exec_driver_sql(
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    ).scalar_one()
    has_words = connection.exec_driver_sql("SELECT to_regoper('citelock.@@@') IS NOT NULL").scalar_one()
    words, match = ("citelock.words_ops", "citelock.@@@") if has_words else ("pg_catalog.tsvector_ops", "pg_catalog.@@")
    return {"ext": str(extension), "words": words, "match": f"OPERATOR({match})"}


def run_statements(connection: Any, name: str, names: Mapping[str, str]) -> None:
    """Run a file of statements on a connection of SQLAlchemy, with these names in place of `{name}`."""
    text = (files(__name__) / f"{name}.sql").read_text(encoding="utf-8")
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    connection.connection.driver_connection.execute(text)  # past SQLAlchemy: the statements are full of %
