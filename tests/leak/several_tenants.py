"""Several tenants' wikis published into one database, with the same names of users and groups and no page in common.

Belongs here: publishing them, who may read what of all of them, questions to a tenant that is drawn at random.
Does not belong here: what a question is (`asking`), comparing with a folder (the tests).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asking import Asker, told_by_markers
from brute_force import Judge
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki, restricted_wiki, some_principal
from support.index_backends import Backend

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config

TENANTS = (TENANT, "birch", "cedar")
_IDS_OF_A_TENANT = 100_000


def wikis_of_tenants(pages: int, seed: int) -> dict[str, Wiki]:
    """Return a wiki of restricted pages for each tenant: their own ids and markers, the same users, groups, words."""
    return {
        tenant: restricted_wiki(pages, seed * len(TENANTS) + number, including=0.1, first=number * _IDS_OF_A_TENANT)
        for number, tenant in enumerate(TENANTS)
    }


def publish_tenants(home: Path, wikis: Mapping[str, Wiki], backend: Backend) -> Config:
    """Publish all wikis in one home and one database; return the configuration of a server of all tenants."""
    settings = backend.settings(home)
    configs = [publish_wiki(home, wiki, tenant=tenant, **settings) for tenant, wiki in wikis.items()]
    config = configs[0].model_copy(
        update={"tenants": {name: one for each in configs for name, one in each.tenants.items()}}
    )
    for tenant in wikis:
        current = Store(home).current(tenant)
        assert current
        backend.publish(config, tenant, current)
    return config


@contextmanager
def opened_pipelines(config: Config) -> Iterator[dict[str, Pipeline]]:
    """Yield the pipeline of each tenant."""
    pipelines = {tenant: Pipeline.open(config, tenant, WordEmbedder()) for tenant in config.tenants}
    yield pipelines
    for pipeline in pipelines.values():
        pipeline.close()


class TenantsJudge(Judge):
    """Who may read what of several wikis: nobody anything of another tenant."""

    def __init__(self, wikis: Mapping[str, Wiki]) -> None:
        self.of = {tenant: Judge(wiki) for tenant, wiki in wikis.items()}
        self._owners = {page_id: tenant for tenant, judge in self.of.items() for page_id in judge.page_ids}
        self.page_ids = list(self._owners)

    def envelope(self, page_id: str) -> Mapping[str, Any]:
        return self.of[self._owners[page_id]].envelope(page_id)

    def may_read(self, who: Principal, page_id: str) -> bool:
        """Return whether the page is of the principal's tenant and may be read."""
        return self._owners.get(page_id) == who.tenant and self.of[who.tenant].may_read(who, page_id)


class RecentPrincipals:
    """Principals of a tenant, the latest of whom ask again: what a process keeps for a reader is met as often as it is
    filled."""

    def __init__(self, tenant: str, count: int = 20, share_of_new: float = 0.02) -> None:
        self._tenant, self._count, self._share_of_new = tenant, count, share_of_new
        self._recent: list[Principal] = []

    def __call__(self, dice: random.Random) -> Principal:
        if len(self._recent) < self._count or dice.random() < self._share_of_new:
            self._recent = [*self._recent[-self._count + 1 :], some_principal(dice, self._tenant)]
            return self._recent[-1]
        return dice.choice(self._recent)


class TenantsAsker:
    """Asks tenants drawn at random about pages of their own and of other tenants, the same for the same dice."""

    def __init__(self, pipelines: Mapping[str, Pipeline], judge: TenantsJudge, dice: random.Random) -> None:
        self._judge, self._dice = judge, dice
        self.askers = {
            tenant: Asker(pipeline, WordEmbedder(), judge, told_by_markers(judge), dice, RecentPrincipals(tenant))
            for tenant, pipeline in pipelines.items()
        }

    def leaks(self, count: int) -> Iterator[str]:
        """Ask so many (tenant, principal, query) triples; a line for each leak."""
        for _ in range(count):
            tenant = self._dice.choice(list(self.askers))
            owner = self._judge.of[tenant] if self._dice.random() < 0.7 else self._judge
            yield from self.askers[tenant].leaks_of(self._dice.choice(owner.page_ids))

    def asked(self, what: str) -> int:
        """Return how often something was asked, of all tenants together."""
        return sum(asker.asked[what] for asker in self.askers.values())
