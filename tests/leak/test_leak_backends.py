"""What several tenants have in one database: nobody receives anything of a page that they may not read, and answers are
those of a folder, and of an installation without the hidden pages.

CITELOCK_LEAK_BACKENDS is the number of (tenant, principal, query) triples for each backend, CITELOCK_LEAK_COMPARISONS
the number of comparisons, CITELOCK_LEAK_SEED makes other wikis, principals and questions.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from built_wiki import WordEmbedder, publish_wiki, tables_of
from equal_payloads import difference
from partial_wikis import SECRET, some_query
from restricted_wiki import Wiki, some_principal
from several_tenants import (
    TENANTS,
    TenantsAsker,
    TenantsJudge,
    opened_pipelines,
    publish_tenants,
    wikis_of_tenants,
)
from support.index_backends import BACKENDS, REMOTE, Backends

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.ask import Pipeline
from rag_serving.config.index import Index
from rag_serving.config.loading import Config
from rag_serving.records.queries import Filters

QUESTIONS = int(os.environ.get("CITELOCK_LEAK_BACKENDS", "40"))
COMPARISONS = int(os.environ.get("CITELOCK_LEAK_COMPARISONS", "10"))
PAGES = 80
"""Of each tenant."""
_OF_THE_BUILD = frozenset({"timings_ms", "generation", "receipt_id", "created_at", "sealed", "signature", "id"})


@dataclass(frozen=True)
class Served:
    """The wikis of several tenants in one database.

    Attributes:
        opened: the pipeline of each tenant.
        config: that of the server.
    """

    wikis: Mapping[str, Wiki]
    judge: TenantsJudge
    opened: Mapping[str, Pipeline]
    config: Config


@pytest.fixture(scope="module")
def served_by(
    backends: Backends, seed: int, size: Callable[[int], int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Served]]:
    """What a backend of this name serves, opened once: a parameter of the fixture would be at another place in each
    test's list of backends, for which pytest would make it again."""
    wikis = wikis_of_tenants(size(PAGES), seed + 2000)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv(SECRET_ENV, SECRET)

        @cache
        def served_by(name: str) -> Served:
            config = publish_tenants(tmp_path_factory.mktemp("served"), wikis, backends.get(name))
            return Served(wikis, TenantsJudge(wikis), stack.enter_context(opened_pipelines(config)), config)

        yield served_by


@pytest.fixture
def served(request: pytest.FixtureRequest, served_by: Callable[[str], Served]) -> Served:
    return served_by(str(request.param))


@pytest.mark.parametrize("served", [*BACKENDS, "parts"], indirect=True)
def test_nobody_receives_anything_of_a_page_that_he_may_not_read_or_of_another_tenant(
    served: Served, seed: int
) -> None:
    asker = TenantsAsker(served.opened, served.judge, random.Random(f"backends {seed}"))
    assert list(asker.leaks(QUESTIONS)) == []
    assert asker.asked("about a page that may not be read") > QUESTIONS / 3
    assert asker.asked("results") > QUESTIONS


@pytest.mark.parametrize("served", [*REMOTE, "parts"], indirect=True)
def test_what_is_received_is_what_the_folder_gives_without_the_hidden_pages(
    served: Served, tmp_path: Path, seed: int
) -> None:
    """One principal of a tenant drawn at random; the folder has neither the hidden pages nor the other tenants, and is
    in one part."""
    dice = random.Random(f"without {seed}")
    tenant = dice.choice(TENANTS)
    who, judge = some_principal(dice, tenant), served.judge.of[tenant]
    hidden = judge.unreadable(who)
    assert hidden
    config = publish_wiki(tmp_path, served.wikis[tenant].without(hidden), tenant=tenant)
    with closing(Pipeline.open(config, tenant, WordEmbedder())) as rest:
        compare(served.opened[tenant], rest, Asked(served.judge, dice, lambda _: who), COMPARISONS)


@pytest.mark.parametrize("served", REMOTE, indirect=True)
def test_it_finds_what_the_folder_finds(served: Served, seed: int) -> None:
    dice = random.Random(f"same {seed}")
    tenant = dice.choice(TENANTS)
    config = served.config.model_copy(update={"index": Index()})
    asked = Asked(served.judge, dice, lambda dice: some_principal(dice, tenant))
    with closing(Pipeline.open(config, tenant, WordEmbedder())) as disk:
        compare(served.opened[tenant], disk, asked, COMPARISONS)


@pytest.mark.parametrize("served", REMOTE, indirect=True)
def test_sets_are_made_of_what_the_folder_gives_and_of_no_page_that_may_not_be_read(served: Served, seed: int) -> None:
    dice = random.Random(f"sets {seed}")
    config = served.config.model_copy(update={"index": Index()})
    for tenant, remote in served.opened.items():
        with closing(Pipeline.open(config, tenant, WordEmbedder())) as disk:
            for owner in (dice.choice(TENANTS), tenant, tenant, tenant):
                who = some_principal(dice, owner)
                got, wanted = tables_of(remote, who), tables_of(disk, who)
                assert (got.pages, got.texts) == (wanted.pages, wanted.texts)
                assert all(served.judge.may_read(who, each) for each in got.pages["page_id"].to_pylist())
            answers = [pipeline.ask(who, "How many pages are there?") for pipeline in (remote, disk)]
            assert [answer.set.digest for answer in answers if answer.set] == [answers[1].set.digest] * 2
            assert remote.proofs.prove(str(answers[0].receipt_id), who).faults == ()


@dataclass(frozen=True)
class Asked:
    """Questions about pages of all tenants, the same for the same dice."""

    judge: TenantsJudge
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
    """Return everything that one question brings."""
    answers = (pipeline.search(who, query, 50, filters, explain=True), pipeline.ask(who, query, filters, explain=True))
    return [
        {name: value for name, value in json.loads(json.dumps(answer.payload())).items() if name not in _OF_THE_BUILD}
        for answer in answers
    ]
