from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.wiki import configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.pipeline import Pipeline

EVERYONE = Principal("acme")


@pytest.fixture(scope="session")
def wiki_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the wiki published; tests must not publish into it."""
    home = tmp_path_factory.mktemp("wiki")
    publish(home)
    return home


@pytest.fixture
def pipeline(wiki_home: Path) -> Iterator[Pipeline]:
    opened = Pipeline.open(configuration(wiki_home), "acme", embedder())
    yield opened
    opened.close()
