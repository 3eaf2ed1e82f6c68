from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.postgres import Postgres, started_postgres


@pytest.fixture(scope="session")
def budget_server() -> Iterator[Postgres]:
    with started_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def usage_url(request: pytest.FixtureRequest) -> str | None:
    """The database of what is used: SQLite in the home folder, or Postgres."""
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("budget_server")
    return server.url
