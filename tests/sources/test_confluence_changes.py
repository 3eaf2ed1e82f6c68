"""Syncs between two complete listings: what CQL tells is taken, in any time zone, for a handful of requests."""

from __future__ import annotations

from datetime import timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken, hidden, poisoned
from sources.stand_in_site import page
from sources.syncs import Syncs, column, ids

from rag_assets.sources import SourceError

LIGHT = {"listing_every_s": 3600}


@pytest.fixture
def sync(wiki: StandIn, tmp_path: Path) -> Syncs:
    return Syncs(wiki, tmp_path, **LIGHT)


def listed(wiki: StandIn) -> bool:
    return any("spaceKey" in request.params for request in wiki.requests)


def test_nothing_changed_takes_two_requests_and_no_listing(wiki: StandIn, sync: Syncs) -> None:
    first = sync()
    sync()
    second = sync()
    assert not listed(wiki)
    assert len(wiki.requests) == 2
    assert second.pages.equals(first.pages)
    assert (second.changed, second.deleted, second.seen) == (0, 0, 12)


def test_edits_new_pages_and_renames_come_by_cql(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("3", body="<p>New.</p>")
    wiki.site.edit("4", title="Renamed")
    wiki.site.create("13", "1")
    second = sync()
    assert not listed(wiki)
    assert wiki.bodies_asked() == ids(3, 4, 13)
    assert (second.changed, second.deleted, second.seen) == (3, 0, 13)
    assert column(second, "body")["3"] == "<p>New.</p>"
    assert column(second, "title")["4"] == "Renamed"
    assert column(second, "ancestors")["13"] == ["1"]


def test_pages_seen_again_within_the_overlap_are_not_fetched(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("3")
    sync()
    sync()
    assert wiki.bodies_asked() == set()


@pytest.mark.parametrize(
    "zone", ["UTC", "Etc/GMT+12", "Asia/Tokyo", "Pacific/Honolulu", "Asia/Kathmandu", "Pacific/Kiritimati"]
)
def test_edits_are_found_in_any_time_zone(wiki: StandIn, sync: Syncs, zone: str) -> None:
    wiki.site.zone = ZoneInfo(zone)
    sync(overlap_hours=0)
    wiki.site.edit("3", body="<p>New.</p>")
    assert column(sync(overlap_hours=0), "body")["3"] == "<p>New.</p>"
    wiki.site.edit("4", body="<p>New.</p>")
    assert column(sync(overlap_hours=0), "body")["4"] == "<p>New.</p>"
    assert not listed(wiki)
    assert len(wiki.requests) <= 5


@pytest.mark.parametrize("hours", [-30, 5])
def test_a_site_whose_clock_is_wrong_is_asked_by_its_own_time(wiki: StandIn, sync: Syncs, hours: int) -> None:
    wiki.site.skew = timedelta(hours=hours)
    sync(overlap_hours=0)
    wiki.site.edit("3", body="<p>New.</p>")
    assert column(sync(overlap_hours=0), "body")["3"] == "<p>New.</p>"


def test_times_of_search_that_differ_from_those_of_versions_are_covered(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.lag = timedelta(hours=-3)
    wiki.site.zone = timezone(timedelta(hours=-7))
    sync()
    wiki.site.edit("3", body="<p>New.</p>")
    assert column(sync(), "body")["3"] == "<p>New.</p>"


def test_edits_are_found_where_the_page_that_was_edited_last_is_refused(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.edit("3")
    sync(overlap_hours=0)
    wiki.site.skew += timedelta(hours=1)
    wiki.site.edit("4", body="<p>New.</p>")
    wiki.site.skew += timedelta(hours=8)
    wiki.site.edit("3", body="<p>New.</p>")
    wiki.faults.append(hidden("3"))
    bodies = column(sync(overlap_hours=0), "body")
    assert (bodies["3"], bodies["4"]) == ("<p>New.</p>", "<p>New.</p>")


def test_a_page_that_search_learns_of_late_arrives_within_the_overlap(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("3", body="<p>New.</p>")
    wiki.site.unsearchable.add("3")
    sync()
    wiki.site.unsearchable.clear()
    assert column(sync(), "body")["3"] == "<p>New.</p>"


def test_deleted_purged_hidden_and_restored_pages_show_in_the_count(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.delete("12")
    sync()
    wiki.site.delete("1")
    wiki.site.purge("2")
    wiki.site.forbidden.add("3")
    wiki.site.restore("12")
    second = sync()
    assert second.deleted == 3
    assert set(column(second, "title")) == ids(*range(4, 13))
    assert all("expand" not in request.params for request in wiki.requests if "spaceKey" in request.params)


def test_the_guard_on_deletions_holds_between_listings(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.delete(*ids(*range(1, 8)))
    with pytest.raises(SourceError, match="nothing was deleted"):
        sync()


def test_moves_and_restrictions_arrive_with_the_next_listing(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.restrict("1", groups=["ops"])
    wiki.site.move("2", "1")
    assert sync().changed == 0
    second = sync(listing_every_s=0)
    assert listed(wiki)
    assert column(second, "readers")["1"] == column(second, "readers")["2"] == "group:ops"


def test_restrictions_outlive_syncs_that_do_not_ask_for_them(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, groups=["ops"]), page(21, parents=[20]), page(50, groups=["hq"]), page(51, parents=[50]))
    wiki.site.archive("50")
    first = sync()
    wiki.site.edit("21")
    wiki.site.create("22", "21")
    second = sync()
    assert not listed(wiki)
    readers = column(second, "readers")
    assert {readers[page_id] for page_id in ("20", "21", "22")} == {"group:ops"}
    assert readers["51"] == column(first, "readers")["51"] == "group:hq"


def test_a_page_restricted_and_edited_is_not_shown_to_all(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, parents=[3]))
    sync()
    wiki.site.restrict("3", groups=["ops"])
    wiki.site.edit("3", body="<p>Secret.</p>")
    second = sync()
    assert column(second, "readers")["3"] == column(second, "readers")["20"] == "group:ops"


def test_a_page_that_failed_is_tried_again(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("7", body="<p>New.</p>")
    wiki.faults.append(poisoned("7"))
    assert dict(sync(overlap_hours=0).failures).keys() == {"7"}
    wiki.faults.clear()
    second = sync(overlap_hours=0)
    assert (column(second, "body")["7"], second.failures) == ("<p>New.</p>", ())


def test_without_search_the_space_is_listed(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.faults.append(broken(None, 410, "search"))
    wiki.site.edit("7", body="<p>New.</p>")
    assert column(sync(), "body")["7"] == "<p>New.</p>"
    assert listed(wiki)


def test_a_damaged_memory_or_other_settings_list_the_space(wiki: StandIn, sync: Syncs) -> None:
    sync()
    assert sync.last is not None
    sync.last.state["restricted"] = 7
    sync()
    assert listed(wiki)
    sync(also=["blog_posts"])
    assert listed(wiki)
