from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.index_backends import Backends


@pytest.fixture(scope="session")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    """Every backend, its server started once."""
    with Backends(tmp_path_factory.mktemp("chroma-server")) as found:
        yield found
