"""Databases for the tests of erasing: a SQLite file, and Debian's Postgres started for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.postgres import Postgres, started_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with started_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """A database of each kind; None is the SQLite file of the home."""
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("postgres")
    return server.url
