"""Common parts of the tests of embedding jobs: an installation, its queue in a database of each kind, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from support.job_queues import Installation

from rag_serving.telemetry.usage import JOBS_METADATA


@pytest.fixture
def url(url: str | None) -> str | None:
    """A database of each kind, without jobs; None is the SQLite file of the home."""
    if url is not None:
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        JOBS_METADATA.drop_all(engine)
        engine.dispose()
    return url


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
