"""Syncs of a live space: what a full one gives, and what a second one fetches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, Request
from sources.stand_in_site import page
from sources.syncs import ALL, Syncs, column, enumerates, ids, settings_of
from support.constants import section_of

from rag_assets.sources import SourceError, open_source
from rag_serving.config import sources as source_kinds

SAMPLE = Path(__file__).parents[2] / "sample"
CWIKI = Path(__file__).parents[3] / "shared/data/cwiki"


@pytest.mark.parametrize("folder", [SAMPLE / "ENG", SAMPLE / "OPS", CWIKI / "FLINK"], ids=lambda path: path.name)
def test_a_full_sync_gives_what_a_dump_of_the_same_pages_gives(wiki: StandIn, tmp_path: Path, folder: Path) -> None:
    if not folder.exists():
        pytest.skip(f"{folder} is absent")
    wiki.site.pages.clear()
    wiki.site.load(folder)
    dump = source_kinds.ConfluenceDump(kind="confluence_dump", tenant="acme", path=folder, readers="everyone")
    expected = open_source("eng", dump, tmp_path).sync(None, {})
    settings = section_of(source_kinds.Confluence, **settings_of(wiki, space=folder.name, batch_size=50))
    live = open_source("eng", settings, tmp_path).sync(None, {})
    assert live.seen == live.pages.num_rows
    assert live.failures == ()
    hidden = {page_id for page_id, _ in live.hidden}  # a scrape cannot tell what a site can: an ancestor is unreadable
    assert len(hidden) <= 1
    for mine, theirs in zip(live.pages.to_pylist(), expected.pages.to_pylist(), strict=True):
        assert mine["url"].startswith(wiki.url)
        assert mine["url"].removeprefix(wiki.url) == theirs["url"][theirs["url"].index("/", 8) :].removeprefix(
            "/wiki"
        ).removeprefix("/confluence")
        different = {name for name in mine if mine[name] != theirs[name]}
        assert different <= {"url"} | ({"readers"} if mine["page_id"] in hidden else set())


def test_ids_and_ancestors_carry_the_prefix(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, parents=[1]))
    for changed in (13, 0):
        result = sync(id_prefix="kb.")
        assert result.changed == changed
        assert column(result, "ancestors")["kb.20"] == ["kb.1"]


def test_a_page_of_another_space_is_not_taken_whatever_the_site_lists(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(66, "Salaries", space="HR"))
    wiki.site.misplaced.add("66")
    for _ in range(2):
        result = sync()
        assert set(column(result, "space")) == ALL
        assert result.excluded == (("66", "it belongs to space 'hr', not 'ENG'"),)
        assert "66" not in wiki.bodies_asked()
    wiki.site.edit("66")
    changed = sync(listing_every_s=3600)
    assert set(column(changed, "space")) == ALL


def test_a_key_is_the_same_in_another_case(wiki: StandIn, sync: Syncs) -> None:
    listed = wiki.site.listed
    wiki.site.listed = lambda space, *more: listed(space.upper(), *more)  # type: ignore[method-assign]
    wiki.site.permissions["eng"] = []
    assert set(column(sync(space="eng"), "space")) == ALL


# What a second sync fetches


def test_nothing_changed_fetches_no_body(wiki: StandIn, sync: Syncs) -> None:
    first, second = sync(), sync()
    assert wiki.bodies_asked() == set()
    assert (second.changed, second.deleted, second.seen) == (0, 0, 12)
    assert second.pages.equals(first.pages)


def test_only_changed_bodies_are_fetched(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("3", body="<p>New.</p>")
    wiki.site.put(page(13))
    second = sync()
    assert wiki.bodies_asked() == ids(3, 13)
    assert (second.changed, second.deleted) == (2, 0)
    assert column(second, "body")["3"] == "<p>New.</p>"
    assert column(second, "version")["3"] == 2


def test_restrictions_labels_and_moves_arrive_without_a_new_version(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.restrict("1", groups=["ops"])
    wiki.site.move("2", "1")
    wiki.site.label("3", "archive")
    second = sync()
    assert wiki.bodies_asked() == set()
    assert second.changed == 3
    assert (column(second, "readers")["1"], column(second, "readers")["2"]) == ("group:ops", "group:ops")
    assert column(second, "ancestors")["2"] == ["1"]
    assert column(second, "labels")["3"] == ["archive"]


def test_an_order_given_to_siblings_arrives_without_a_new_version(wiki: StandIn, sync: Syncs) -> None:
    assert set(column(sync(), "position").values()) == {None}
    wiki.site.arrange("3", "1", "2")
    second = sync()
    assert (second.changed, wiki.bodies_asked()) == (3, set())
    assert [column(second, "position")[page_id] for page_id in ("1", "2", "3", "4")] == [1, 2, 0, None]


def test_a_page_restricted_while_the_sync_runs_is_not_shown_to_all(wiki: StandIn, sync: Syncs) -> None:
    def restrict_then_edit(_: Request, answer: Answer) -> Answer:
        wiki.site.restrict("3", groups=["ops"])
        wiki.site.edit("3", body="<p>Secret.</p>")
        return answer

    wiki.faults.append(Fault(restrict_then_edit, 1, enumerates))
    result = sync()
    assert column(result, "body")["3"] == "<p>Secret.</p>"
    assert column(result, "readers")["3"] == "group:ops"


def test_a_full_sync_fetches_everything_anew_and_still_deletes_with_care(wiki: StandIn, sync: Syncs) -> None:
    for _ in range(2):
        first = sync()
    sync.last = replace(first, state={})
    assert (sync().changed, wiki.bodies_asked()) == (0, ALL)
    sync.last = replace(first, state={})
    wiki.site.delete(*ids(*range(1, 8)))
    with pytest.raises(SourceError, match="nothing was deleted"):
        sync()


def test_another_site_or_space_is_fetched_anew(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.pages.clear()
    wiki.site.put(*(page(number, f"Other {number}", space="OPS") for number in range(1, 4)))
    result = sync(space="OPS")
    assert wiki.bodies_asked() == ids(1, 2, 3)
    assert column(result, "title")["1"] == "Other 1"
    assert (result.changed, result.deleted) == (3, 9)


def test_blog_posts_and_archived_pages_come_by_option(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, type="blogpost"), page(21), page(22, groups=["ops"]), page(23, parents=[22]))
    wiki.site.archive("21")
    assert set(column(sync(), "title")) == ALL | ids(22, 23)
    more = sync(also=["blog_posts", "archived"])
    assert set(column(more, "title")) == ALL | ids(20, 21, 22, 23)
    assert column(more, "status")["21"] == "archived"
    wiki.site.archive("22")
    again = sync(also=["blog_posts", "archived"])
    assert (again.changed, again.deleted, wiki.bodies_asked()) == (1, 0, set())
    assert column(again, "readers")["23"] == "group:ops"
