"""A generation in a database tells no more than its folder, and answers as one without the hidden pages.

CITELOCK_LEAK_BACKENDS asks so many (principal, query) pairs of each backend; more of them go with more pages.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asking import Asker, told_by_markers
from brute_force import Judge
from built_wiki import WordEmbedder, publish_wiki
from equal_payloads import difference
from partial_wikis import SECRET, some_query
from restricted_wiki import TENANT, Wiki, restricted_wiki, some_principal
from support.index_backends import REMOTE, Backends

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.pipeline.pipeline import Pipeline
from rag_serving.records.queries import Filters

PAIRS = int(os.environ.get("CITELOCK_LEAK_BACKENDS", "40"))
PAGES = 1_000 if PAIRS >= 1_000 else 150
_OF_THE_BUILD = frozenset({"timings_ms", "generation", "receipt_id", "created_at", "sealed", "signature", "id"})


@dataclass(frozen=True)
class Served:
    """A wiki in a database and in its folder."""

    wiki: Wiki
    judge: Judge
    remote: Pipeline
    disk: Pipeline


@pytest.fixture(scope="module")
def wiki(seed: int) -> Wiki:
    return restricted_wiki(PAGES, seed + 2000, including=0.1)


@pytest.fixture(scope="module", params=REMOTE)
def served(
    request: pytest.FixtureRequest, backends: Backends, wiki: Wiki, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_ENV, SECRET)
        config = publish_wiki(home, wiki)
        remote = backends.moved(str(request.param), config, TENANT)
        opened = Served(wiki, Judge(wiki), *(Pipeline.open(each, TENANT, WordEmbedder()) for each in (remote, config)))
        yield opened
        opened.remote.close()
        opened.disk.close()


def test_a_database_tells_nobody_of_a_page_that_he_may_not_read(served: Served, seed: int) -> None:
    dice = random.Random(f"backends {seed}")
    asker = Asker(served.remote, WordEmbedder(), served.judge, told_by_markers(served.judge), dice)
    assert list(asker.leaks(PAIRS)) == []
    assert asker.asked["about a page that may not be read"] > PAIRS / 4
    assert asker.asked["results"] > PAIRS


def test_it_finds_what_the_folder_finds(served: Served, seed: int) -> None:
    compare(served.remote, served.disk, Asked(served.judge, random.Random(f"same {seed}"), some_principal), PAIRS // 2)


def test_hidden_pages_might_as_well_not_be_in_the_database(served: Served, tmp_path: Path, seed: int) -> None:
    dice = random.Random(f"without {seed}")
    who = some_principal(dice)
    hidden = served.judge.unreadable(who)
    assert hidden
    rest = Pipeline.open(publish_wiki(tmp_path, served.wiki.without(hidden)), TENANT, WordEmbedder())
    compare(served.remote, rest, Asked(served.judge, dice, lambda _: who), PAIRS // 2)
    rest.close()


@dataclass(frozen=True)
class Asked:
    """Questions, the same for the same dice."""

    judge: Judge
    dice: random.Random
    principal: Callable[[random.Random], Principal]

    def __call__(self) -> tuple[Principal, str, Filters | None]:
        who, query = self.principal(self.dice), some_query(self.dice, self.judge)
        return who, query, Filters(space=("OPEN",)) if self.dice.random() < 0.3 else None


def compare(first: Pipeline, second: Pipeline, asked: Asked, count: int) -> None:
    """Ask the same of both; ids, order, texts are equal, scores to 1e-6."""
    found = 0
    for _ in range(count):
        who, query, filters = asked()
        got, wanted = (payloads(pipeline, who, query, filters) for pipeline in (first, second))
        fault = difference(got, wanted)
        assert fault is None, f"{who} asked {query!r} ({filters}): {fault}"
        found += len(wanted[0]["results"])
    assert found > count


def payloads(pipeline: Pipeline, who: Principal, query: str, filters: Filters | None) -> list[dict[str, Any]]:
    """Everything that one question brings."""
    answers = (pipeline.search(who, query, 50, filters, explain=True), pipeline.ask(who, query, filters, explain=True))
    return [
        {name: value for name, value in json.loads(json.dumps(answer.payload())).items() if name not in _OF_THE_BUILD}
        for answer in answers
    ]
