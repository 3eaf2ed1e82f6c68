"""A sync of the pages that a wiki told of: these alone are asked for, and what is told is believed in nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken
from sources.stand_in_site import page
from sources.syncs import ALL, Syncs, column, enumerates, ids

from rag_assets.sources import SourceError
from rag_serving.access.principals import EVERYONE, NOBODY


def listings(wiki: StandIn) -> int:
    return sum(map(enumerates, wiki.requests))


def test_an_edited_and_a_new_page_are_fetched_and_no_other_one_is_asked_for(wiki: StandIn, sync: Syncs) -> None:
    first = sync()
    wiki.site.edit("3", body="<p>Anew.</p>")
    wiki.site.edit("4", body="<p>Untold.</p>")
    wiki.site.create("20", "3", body="<p>New.</p>")
    result = sync(only=ids(3, 20))
    assert column(result, "body")["3"] == "<p>Anew.</p>"
    assert column(result, "body")["4"] == "<p>Text of page 4.</p>"
    assert column(result, "version").keys() == ALL | {"20"}
    assert (result.changed, result.deleted, result.unaccounted) == (2, 0, 0)
    assert listings(wiki) == 0
    assert wiki.bodies_asked() == ids(3, 20)
    assert len(wiki.requests) <= 5, [(one.path, one.params) for one in wiki.requests]
    for when in ("began", "finished_at", "listed_at"):
        assert result.state[when] == first.state[when], "it is no sync of the whole, which is as due as before"
    assert column(sync(), "body")["4"] == "<p>Untold.</p>"


@pytest.mark.parametrize("every_s", [0, 3600])
def test_what_is_noted_is_read_whether_listings_serve_for_long_or_not(
    wiki: StandIn, sync: Syncs, every_s: float
) -> None:
    sync(listing_every_s=every_s)
    wiki.site.restrict("3", groups=["hr"])
    assert column(sync(only=ids(3), listing_every_s=every_s), "readers")["3"] == "group:hr"
    assert listings(wiki) == 0


def test_a_restriction_narrows_all_that_is_below_at_once(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.move("5", "4")
    wiki.site.move("6", "4", "5")
    sync()
    wiki.site.restrict("4", groups=["hr"])
    readers = column(sync(only=ids(4)), "readers")
    assert {one for one, each in readers.items() if each != EVERYONE} == ids(4, 5, 6)
    wiki.site.restrict("4")
    assert set(column(sync(only=ids(4)), "readers").values()) == {EVERYONE}


def test_a_page_that_is_moved_below_a_restricted_one_takes_what_is_below_it_along(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.restrict("2", groups=["hr"])
    wiki.site.move("6", "5")
    sync()
    wiki.site.move("5", "2")
    result = sync(only=ids(5))
    assert {one for one, each in column(result, "readers").items() if each != EVERYONE} == ids(2, 5, 6)
    assert column(result, "ancestors")["6"] == ["2", "5"]
    assert listings(wiki) == 0


def test_a_page_that_is_moved_below_one_of_another_space_is_for_its_readers(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.put(page(30, space="HR", groups=["hr"]))
    wiki.site.move("5", "30")
    assert column(sync(only=ids(5)), "readers")["5"] == "group:hr"


def test_a_page_that_is_trashed_purged_or_moved_away_is_gone_by_a_complete_listing(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.move("4", "3")
    sync()
    wiki.site.delete("3")
    result = sync(only=ids(3))
    assert column(result, "version").keys() == ALL - {"3"}
    assert column(result, "ancestors")["4"] == []
    assert listings(wiki) > 0
    wiki.site.purge("5")
    wiki.site.pages["6"]["space"]["key"] = "HR"
    assert column(sync(only=ids(5, 6)), "version").keys() == ALL - ids(3, 5, 6)


def test_a_page_that_the_account_may_not_see_any_more_is_judged_by_the_listing(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.forbidden.add("3")
    assert "3" not in column(sync(only=ids(3)), "version")
    assert listings(wiki) > 0


def test_many_pages_that_are_gone_at_once_are_not_believed_here_either(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.delete(*ids(*range(1, 9)))
    with pytest.raises(SourceError, match="nothing was deleted"):
        sync(only=ids(1))


def test_forged_events_and_those_of_other_spaces_change_nothing(wiki: StandIn, sync: Syncs) -> None:
    first = sync()
    wiki.site.put(page(30, space="HR"), page(31, status="trashed"))
    result = sync(only=ids(1, 2, 30, 31, 99_999))
    assert result.pages.equals(first.pages)
    assert (result.changed, result.deleted, result.failed) == (0, 0, 0)
    assert listings(wiki) == 0


def test_a_page_that_cannot_be_read_stays_and_the_next_sync_asks_again(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("3", body="<p>Anew.</p>")
    wiki.faults.append(broken(None, path="content/3"))
    result = sync(only=ids(3))
    assert column(result, "body")["3"] == "<p>Text of page 3.</p>"
    assert result.failed_ids == {"3"}
    assert result.deleted == 0
    wiki.faults.clear()
    assert column(sync(), "body")["3"] == "<p>Anew.</p>"


def test_without_a_sync_before_it_everything_is_read(wiki: StandIn, tmp_path: Path) -> None:
    result = Syncs(wiki, tmp_path)(only=ids(3))
    assert column(result, "version").keys() == ALL
    assert NOBODY not in column(result, "readers").values()
