"""A wiki of each test's own, whose receipts may be spoilt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.wiki import configuration, copied, embedder, publish

from rag_serving.ask import Pipeline


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the small wiki, which tests copy: to publish takes ten times as long."""
    home = tmp_path_factory.mktemp("published")
    publish(home)
    return home


@pytest.fixture
def pipeline(published: Path, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline over a home of its own."""
    with closing(Pipeline.open(configuration(copied(published, tmp_path)), "acme", embedder())) as opened:
        yield opened
