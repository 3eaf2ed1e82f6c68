"""Callers whose groups come from the last sync receive what members of these groups may, and no more."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from asking import Asker, told_by_markers
from built_wiki import Built
from restricted_wiki import GROUPS, TENANT, USERS, some_principal

from rag_serving.access.group_members import FILE, Memberships
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GROUP_MEMBERS
from rag_serving.artifacts.signed_files import write_signed_table
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("synthetic_wiki")]

Groups = Mapping[str, frozenset[str]]


def members(seed: int) -> Groups:
    """Some groups for each user."""
    dice = random.Random(f"members {seed}")
    return {user: frozenset(dice.sample(GROUPS, dice.choice([0, 1, 2, 4, 8]))) for user in USERS}


def synced(home: Path) -> Config:
    live = {"kind": "confluence", "base_url": "https://wiki.example", "space": "ENG", "groups": True}
    given = {"tenants": {TENANT: {}}, "sources": {"live": {**live, "tenant": TENANT}}, "serving": {"groups": "synced"}}
    return parse_config({"home": str(home), **given})


def tell(config: Config, told: Groups) -> None:
    """Write what a sync writes."""
    rows: list[Mapping[str, object]] = [{"group": group, "user": None} for group in GROUPS]
    rows += [{"group": group, "user": user} for user, groups in told.items() for group in groups]
    store = Store(config.home)
    write_signed_table(store, store.source("live") / FILE, GROUP_MEMBERS.table(rows), GROUP_MEMBERS)


def test_no_answer_tells_of_a_page_that_no_group_of_the_user_may_read(
    synthetic: Built, tmp_path: Path, pairs: int, seed: int
) -> None:
    truth, config = members(seed), synced(tmp_path)
    tell(config, truth)
    memberships = Memberships(config)

    def known_by_name(dice: random.Random) -> Principal:
        """Somebody whose token tells no groups; the judge is told those that the user truly has."""
        user = some_principal(dice).user
        who = memberships.with_groups(Principal(TENANT, user))
        assert who == Principal(TENANT, user, truth.get(user or "", frozenset()))
        return who

    faults, dice = told_by_markers(synthetic.judge), random.Random(f"groups {seed}")
    asker = Asker(synthetic.pipeline, synthetic.embedder, synthetic.judge, faults, dice, known_by_name)
    assert list(asker.leaks(pairs // 5)) == []
    assert asker.asked["about a page that may not be read"] > pairs / 20
    assert asker.asked["results"] > pairs / 5


def test_who_left_a_group_finds_its_pages_no_more(synthetic: Built, tmp_path: Path, seed: int) -> None:
    truth, config, judge = members(seed), synced(tmp_path), synthetic.judge
    memberships = Memberships(config)
    lost = 0
    for user in USERS:
        alone, member = Principal(TENANT, user), Principal(TENANT, user, truth[user])
        page_id = next(
            (one for one in judge.page_ids if judge.may_read(member, one) > judge.may_read(alone, one)), None
        )
        if page_id is None or judge.envelope(page_id)["status"] != "current":
            continue
        title = judge.envelope(page_id)["title"]

        def found(user: str = user, title: str = title) -> set[str]:
            results = synthetic.pipeline.search(memberships.with_groups(Principal(TENANT, user)), title, 50).results
            return {one.chunk.page_id for one in results}

        tell(config, truth)
        before = page_id in found()
        tell(config, {**truth, user: frozenset()})
        assert page_id not in found()
        (Store(config.home).source("live") / FILE).unlink()
        assert page_id not in found()
        lost += before
    assert lost > 5
