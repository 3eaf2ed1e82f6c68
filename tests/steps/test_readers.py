"""Effective readers: space ∩ own restrictions ∩ those of every ancestor, failing closed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.readers import (
    Grants,
    RestrictionError,
    SpaceReaders,
    effective_readers,
    grants_of,
    missing_ancestors,
    restriction_readers,
    space_readers,
)
from rag_serving.access.principals import EVERYONE, NOBODY, Principal, satisfies

USERS, GROUPS = ["ann", "bob"], ["ops", "staff"]


def block(users: list[Any] | None = None, groups: list[Any] | None = None, **other: Any) -> dict[str, Any]:
    lists = {"user": {"results": users or []}, "group": {"results": groups or []}, **other}
    return {"read": {"operation": "read", "restrictions": lists}}


def user(name: str) -> dict[str, str]:
    return {"type": "known", "username": name}


def group(name: str) -> dict[str, str]:
    return {"type": "group", "name": name}


def may(readers: str, name: str | None = None, *groups: str) -> bool:
    return satisfies(Principal("t", name, frozenset(groups)), readers)


def test_empty_restrictions_are_no_restriction() -> None:
    assert restriction_readers(block()) == EVERYONE


def test_users_and_groups_of_one_level_are_alternatives() -> None:
    readers = restriction_readers(block([user("ann")], [group("ops")]))
    assert readers is not None
    assert may(readers, "ann")
    assert may(readers, None, "ops")
    assert not may(readers, "bob", "staff")


def test_a_user_is_known_by_name_account_and_key() -> None:
    readers = restriction_readers(block([{"username": "ann", "accountId": "557058:9a", "userKey": "ff80"}]))
    assert readers is not None
    assert all(may(readers, name) for name in ("ann", "557058:9a", "ff80"))


def test_a_block_that_was_not_expanded_says_nothing() -> None:
    assert restriction_readers({}) is None
    assert grants_of({"id": "1", "ancestors": []}).own is None


@pytest.mark.parametrize(
    "malformed",
    [
        None,
        [],
        "none",
        {"_expandable": {"read": ""}},
        {"read": None},
        {"read": {"restrictions": None}},
        {"read": {"restrictions": {}}},
        {"read": {"restrictions": {"user": {"results": []}}}},
        {"read": {"restrictions": {"user": [], "group": {"results": []}}}},
        {"read": {"restrictions": {"user": {"results": None}, "group": {"results": []}}}},
        block(role={"results": [{"name": "admins"}]}),
        block([user("ann")], role={"results": [{"name": "admins"}]}),
    ],
)
def test_what_is_not_understood_lets_nobody_in(malformed: object) -> None:
    with pytest.raises(RestrictionError):
        restriction_readers(malformed)
    grants = grants_of({"id": "1", "ancestors": [], "restrictions": malformed})
    assert grants.own == NOBODY
    assert grants.fault


@pytest.mark.parametrize(
    "entry", [None, "ann", {}, {"username": ""}, {"username": 7}, {"type": {}, "username": "x"}, {"username": "\ud800"}]
)
def test_an_entry_that_cannot_be_read_restricts_but_admits_no_one(entry: object) -> None:
    assert restriction_readers(block([entry])) == NOBODY
    assert restriction_readers(block([entry, user("ann")])) == "user:ann"


def test_every_ancestor_narrows_not_only_the_nearest() -> None:
    pages = {
        "1": Grants((), "group:staff"),
        "2": Grants(("1",), EVERYONE),
        "3": Grants(("1", "2"), "group:ops"),
        "4": Grants(("1", "2", "3"), EVERYONE),
    }
    readers = effective_readers(pages, EVERYONE, unsaid=NOBODY, missing=NOBODY).readers
    assert readers == {
        "1": "group:staff",
        "2": "group:staff",
        "3": "group:ops&group:staff",
        "4": "group:ops&group:staff",
    }


def test_an_ancestor_of_an_ancestor_narrows_where_the_page_does_not_name_it() -> None:
    pages = {"1": Grants((), "group:staff"), "2": Grants(("1",), EVERYONE), "3": Grants(("2",), EVERYONE)}
    assert effective_readers(pages, EVERYONE, unsaid=NOBODY, missing=NOBODY).readers["3"] == "group:staff"


def test_pages_that_are_each_others_ancestors_end() -> None:
    pages = {"1": Grants(("2",), "group:ops"), "2": Grants(("1",), "group:staff")}
    readers = effective_readers(pages, EVERYONE, unsaid=NOBODY, missing=NOBODY).readers
    assert set(readers.values()) == {"group:ops&group:staff"}


def test_a_missing_ancestor_hides_and_is_reported_where_restrictions_are_known() -> None:
    pages = {"3": Grants(("9",), EVERYONE)}
    assert missing_ancestors(pages) == ("9",)
    hidden = effective_readers(pages, EVERYONE, unsaid=EVERYONE, missing=NOBODY)
    assert hidden.readers["3"] == NOBODY
    assert "ancestor 9" in hidden.hidden["3"]
    scraped = effective_readers(pages, EVERYONE, unsaid=EVERYONE, missing=EVERYONE)
    assert (scraped.readers["3"], scraped.hidden) == (EVERYONE, {})


def test_unknown_ancestors_hide_where_restrictions_are_known() -> None:
    pages = {
        "3": grants_of({"id": "3", "restrictions": block()}),
        "4": grants_of({"id": "4", "ancestors": [{"id": None}]}),
    }
    effective = effective_readers(pages, EVERYONE, unsaid=EVERYONE, missing=NOBODY)
    assert set(effective.readers.values()) == {NOBODY}
    assert set(effective.hidden) == {"3", "4"}


def test_a_prefix_is_on_ancestors_too() -> None:
    assert grants_of({"ancestors": [{"id": "1"}, {"id": 2}]}, "kb.").ancestors == ("kb.1", "kb.2")


def test_the_space_narrows_everything() -> None:
    pages = {"1": Grants((), "group:ops")}
    assert effective_readers(pages, space_readers(["group:staff"]), unsaid=NOBODY, missing=NOBODY).readers == {
        "1": "group:ops&group:staff"
    }
    assert space_readers("everyone") == EVERYONE
    assert space_readers([]) == NOBODY
    assert space_readers("from_source") == NOBODY


def grant(operation: str = "read", **fields: Any) -> dict[str, Any]:
    return {"operation": {"operation": operation, "targetType": "space"}, **fields}


def test_space_permissions_to_view_are_alternatives() -> None:
    permissions = [
        grant(subjects={"group": {"results": [group("staff")]}}),
        grant(subjects={"user": {"results": [user("ann")]}}, anonymousAccess=False),
        grant("administer", subjects={"group": {"results": [group("admins")]}}),
        "malformed",
        {"operation": None},
    ]
    assert space_readers("from_source", permissions) == "group:staff|user:ann"
    assert space_readers("from_source", [grant(anonymousAccess=True)]) == EVERYONE
    assert space_readers("from_source", [grant("administer", anonymousAccess=True)]) == NOBODY
    assert space_readers("from_source", {"results": []}) == NOBODY


# Promise 3: whatever the tree, the class of a page admits exactly whom a walk up its parents admits.

entries_of_users = st.lists(st.sampled_from([*map(user, USERS), {"type": "known", "displayName": "?"}]), max_size=2)
entries_of_groups = st.lists(st.sampled_from([*map(group, GROUPS), {"type": "robot", "name": "ops"}]), max_size=2)
blocks = st.one_of(
    st.builds(block, entries_of_users, entries_of_groups),
    st.sampled_from([None, {}, block(role={"results": [{"name": "ops"}]}), {"read": {"restrictions": {"user": {}}}}]),
)
principals = st.builds(
    Principal, st.just("t"), st.sampled_from([None, *USERS]), st.frozensets(st.sampled_from(GROUPS), max_size=2)
)


def admits(restrictions: Any, who: Principal) -> bool:
    """One level by the words of the specification, without reader classes."""
    try:
        lists = restrictions["read"]["restrictions"]
        users, groups = lists["user"]["results"], lists["group"]["results"]
    except (KeyError, TypeError):
        return False
    if set(lists) != {"user", "group"}:
        return False
    if not users and not groups:
        return True
    by_name = any(one.get("username") == who.user for one in users if "username" in one)
    return by_name or any(one["type"] == "group" and one["name"] in who.groups for one in groups)


@given(st.data())
def test_readers_equal_a_walk_up_the_tree(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    parents = [data.draw(st.integers(-1, i - 1)) for i in range(size)]
    levels = [data.draw(blocks) for _ in range(size)]
    absent = data.draw(st.sets(st.integers(0, size - 1), max_size=1))
    spaces: list[SpaceReaders] = [["group:staff"], ["user:ann", "group:ops"], "everyone"]
    space = data.draw(st.sampled_from(spaces))

    def chain(page: int) -> list[int]:
        return [] if page < 0 else [*chain(parents[page]), page]

    pages = {
        str(page): grants_of(
            {"ancestors": [{"id": str(a)} for a in chain(parents[page])], "restrictions": levels[page]}
        )
        for page in range(size)
        if page not in absent
    }
    readers = effective_readers(pages, space_readers(space), unsaid=NOBODY, missing=NOBODY).readers
    who = data.draw(principals)
    for page in map(int, pages):
        in_space = space == "everyone" or bool(set(space) & who.names)
        expected = in_space and all(one not in absent and admits(levels[one], who) for one in chain(page))
        assert satisfies(who, readers[str(page)]) == expected
