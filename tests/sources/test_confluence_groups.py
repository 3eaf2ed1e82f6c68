"""Members of groups come from the site for the groups that may read pages, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken
from sources.stand_in_site import page
from sources.syncs import Syncs


@pytest.fixture(params=["cloud", "datacenter"])
def wiki(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    with StandIn(request.param, caps=(2, 2, 2)) as stand_in:
        stand_in.site.put(page(1, groups=["ops"]), page(2, groups=["hq staff"], users=["zoe"]), page(3))
        stand_in.site.groups = {"ops": ["ann", "bob", "cy", "dan", "eve"], "hq staff": ["ann"], "other": ["zoe"]}
        yield stand_in


@pytest.fixture
def sync(wiki: StandIn, tmp_path: Path) -> Syncs:
    return Syncs(wiki, tmp_path, groups=True)


def members(sync: Syncs) -> dict[str, set[str]]:
    """By the name that both flavors' users have behind their prefix."""
    told = sync().groups or ()
    groups: dict[str, set[str]] = {group: set() for group, _ in told}
    for group, user in told:
        groups[group] |= {user.removeprefix("id-")} if user and not user.startswith("key-") else set()
    return groups


def test_all_members_of_the_groups_that_may_read_are_told(wiki: StandIn, sync: Syncs) -> None:
    assert members(sync) == {"ops": {"ann", "bob", "cy", "dan", "eve"}, "hq staff": {"ann"}}
    wiki.site.groups["ops"].remove("bob")
    wiki.site.restrict("2")
    assert members(sync) == {"ops": {"ann", "cy", "dan", "eve"}}


def test_every_name_of_a_user_is_told(wiki: StandIn, sync: Syncs) -> None:
    names = {user for group, user in sync().groups or () if group == "hq staff"} - {None}
    assert names == ({"id-ann"} if wiki.flavor == "cloud" else {"ann", "key-ann"})


def test_the_groups_that_may_read_the_space_count(sync: Syncs) -> None:
    assert "other" in {group for group, _ in sync(readers=["group:other"]).groups or ()}


def test_a_group_that_cannot_be_read_has_no_members_and_is_told(wiki: StandIn, sync: Syncs) -> None:
    del wiki.site.groups["ops"]
    assert members(sync) == {"ops": set(), "hq staff": {"ann"}}
    assert "members of group 'ops' cannot be read" in (sync.last.notes if sync.last else ())[0]


@pytest.mark.parametrize("status", [403, 500])
def test_a_group_that_breaks_off_in_the_middle_has_no_members(wiki: StandIn, sync: Syncs, status: int) -> None:
    fault = broken(None, status, "ops/member")
    first = fault.matches
    fault.matches = lambda request: first(request) and not {"start", "cursor"}.isdisjoint(request.params)
    wiki.faults.append(fault)
    assert members(sync) == {"ops": set(), "hq staff": {"ann"}}


def test_without_the_option_nobody_asks(wiki: StandIn, sync: Syncs) -> None:
    assert sync(groups=False).groups is None
    assert wiki.asked("group") == []
