"""Who may read the pages of a live space: restrictions, ancestors, the space itself."""

from __future__ import annotations

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken
from sources.stand_in_site import page, restrictions
from sources.syncs import Syncs, column, ids

from rag_serving.access.principals import NOBODY


def test_an_ancestor_that_is_not_listed_is_asked_for(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(50, groups=["ops"]), page(51, parents=[50]))
    wiki.site.archive("50")
    assert column(sync(), "readers")["51"] == "group:ops"


def test_an_ancestor_that_cannot_be_read_hides_its_pages_and_is_told(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(50), page(51, parents=[50]), page(52, parents=[99]))
    wiki.site.forbidden.add("50")
    result = sync()
    assert column(result, "readers")["51"] == column(result, "readers")["52"] == NOBODY
    assert {page_id for page_id, _ in result.hidden} == ids(51, 52)


def test_long_lists_of_labels_and_restrictions_are_read_to_their_end(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.nested_cap = 2
    labels, groups, users = [f"l{i}" for i in range(5)], [f"g{i}" for i in range(5)], ["ann", "bob", "eve"]
    wiki.site.put(page(20, labels=labels, groups=groups, users=users))
    result = sync()
    assert column(result, "labels")["20"] == labels
    readers = column(result, "readers")["20"]
    assert all(f"group:{name}" in readers for name in groups)
    assert all(f"user:{name}" in readers for name in users)


@pytest.mark.parametrize("of", ["label", "restriction"])
def test_a_list_that_cannot_be_read_to_its_end_is_told(wiki: StandIn, sync: Syncs, of: str) -> None:
    wiki.site.nested_cap = 2
    wiki.site.put(page(20, labels=["a", "b", "c"], groups=["g1", "g2", "g3"]))
    first = sync()
    wiki.site.label("20", "d", "e", "f")
    wiki.faults.append(broken(None, path=f"content/20/{of}"))
    second = sync()
    assert "to their end" in dict(second.failures)["20"]
    assert column(second, "labels")["20"] == column(first, "labels")["20"]
    assert set(column(second, "readers")["20"].split("|")) <= {"group:g1", "group:g2", "group:g3"}
    wiki.faults.clear()
    assert column(sync(), "labels")["20"] == ["d", "e", "f"]


def test_readers_from_the_space_itself(wiki: StandIn, sync: Syncs) -> None:
    may_read = {"operation": "read", "targetType": "space"}
    staff = restrictions(groups=["staff"])["read"]["restrictions"]
    wiki.site.permissions["ENG"] = [{"operation": may_read, "subjects": staff, "anonymousAccess": False}]
    wiki.site.restrict("3", users=["ann"])
    result = sync(readers="from_source")
    assert column(result, "readers")["1"] == "group:staff"
    assert column(result, "readers")["3"] == "group:staff&user:ann|user:id-ann"
    assert result.notes == ()


def test_a_space_that_does_not_tell_its_readers_has_none_and_says_so(sync: Syncs) -> None:
    result = sync(readers="from_source")
    assert set(column(result, "readers").values()) == {NOBODY}
    assert "sources.eng.readers" in result.notes[0]
