from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.postgres_index import IndexServer, index_server


@pytest.fixture(scope="session")
def server() -> Iterator[IndexServer]:
    with index_server() as started:
        yield started
