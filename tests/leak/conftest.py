from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from brute_force import Judge
from built_wiki import Built, WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki, restricted_wiki

from rag_serving.ask import Pipeline

SAMPLE = Path(__file__).parents[2] / "sample"


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("CITELOCK_LEAK_SEED", "0"))


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """Gives how many pages a wiki has that has so many at night: half by day, since building takes longest."""
    return lambda pages: pages if request.config.getoption("nightly") else pages // 2


@pytest.fixture(scope="session")
def pairs() -> int:
    """How many (principal, query) pairs the leak test asks."""
    return int(os.environ.get("CITELOCK_LEAK_PAIRS", "200"))


@pytest.fixture(scope="session")
def synthetic(
    tmp_path_factory: pytest.TempPathFactory, seed: int, pairs: int, size: Callable[[int], int]
) -> Iterator[Built]:
    """400 pages of nested restrictions; 5,000 where many pairs ask."""
    count = 5_000 if pairs >= 10_000 else size(400)
    yield from opened(tmp_path_factory.mktemp("synthetic"), restricted_wiki(count, seed, including=0.1))


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The sample wiki, whose spaces everybody may read."""
    folders = {"eng": SAMPLE / "ENG", "ops": SAMPLE / "OPS"}
    envelopes = {
        key: [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        for key, folder in folders.items()
    }
    yield from opened(tmp_path_factory.mktemp("sample"), Wiki(envelopes, dict.fromkeys(envelopes, "everyone")))


def opened(home: Path, wiki: Wiki) -> Iterator[Built]:
    config, embedder = publish_wiki(home, wiki), WordEmbedder()
    pipeline = Pipeline.open(config, TENANT, embedder)
    yield Built(wiki, Judge(wiki), config, pipeline, embedder)
    pipeline.close()
