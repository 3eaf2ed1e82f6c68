"""What the tests of embedding jobs share: an installation, its queue in a database of each kind, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from support.job_queues import Installation
from support.postgres import Postgres, started_postgres

from rag_serving.telemetry.job_tables import METADATA


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with started_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """A database of each kind, without jobs; None is the SQLite file of the home."""
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("postgres")
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
    METADATA.drop_all(engine)
    engine.dispose()
    return server.url


@pytest.fixture
def install(tmp_path: Path, url: str | None) -> Iterator[Callable[..., Installation]]:
    """Makes the installation, with settings of `jobs`; its database is one of each kind."""
    made: list[Installation] = []

    def make(**jobs: object) -> Installation:
        made.append(Installation(tmp_path / "home", url, jobs))
        return made[-1]

    yield make
    for one in made:
        one.queue.database.close()
