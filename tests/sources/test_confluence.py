"""Syncs of a live space: what is fetched, what is kept, and what is never deleted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import (
    Answer,
    Fault,
    Request,
    broken,
    cut,
    emptied,
    gone_v1,
    poisoned,
    throttled,
)
from sources.stand_in_site import page, restrictions
from sources.syncs import Syncs, column, ids, settings_of

from rag_assets.sources import SourceError, open_source
from rag_serving import source_kinds
from rag_serving.access import EVERYONE, NOBODY

SAMPLE = Path(__file__).parents[2] / "sample"
CWIKI = Path(__file__).parents[3] / "shared/data/cwiki"


@pytest.fixture(params=["cloud", "datacenter"])
def wiki(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    with StandIn(request.param) as stand_in:
        stand_in.site.put(*(page(number) for number in range(1, 13)))
        yield stand_in


@pytest.fixture
def sync(wiki: StandIn, tmp_path: Path) -> Syncs:
    return Syncs(wiki, tmp_path)


def enumerates(request: Request) -> bool:
    return "spaceKey" in request.params


def third_batch(request: Request) -> bool:
    return request.params.get("cql", "").startswith("id in (9,")


ALL = ids(*range(1, 13))


# What a full sync gives


@pytest.mark.parametrize("folder", [SAMPLE / "ENG", SAMPLE / "OPS", CWIKI / "FLINK"], ids=lambda path: path.name)
def test_a_full_sync_gives_what_a_dump_of_the_same_pages_gives(wiki: StandIn, tmp_path: Path, folder: Path) -> None:
    if not folder.exists():
        pytest.skip(f"{folder} is absent")
    wiki.site.pages.clear()
    wiki.site.load(folder)
    dump = source_kinds.ConfluenceDump(kind="confluence_dump", tenant="acme", path=folder, readers="everyone")
    expected = open_source("eng", dump, tmp_path).sync(None, {})
    settings = source_kinds.Confluence(**settings_of(wiki, space=folder.name, batch_size=50))
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


# What is deleted, and what is not


def test_deleted_and_archived_pages_go(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.delete("4")
    wiki.site.archive("5")
    second = sync()
    assert (second.deleted, set(column(second, "title"))) == (2, ALL - ids(4, 5))


def test_what_lies_in_the_trash_is_gone_without_being_asked_for(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.delete("4")
    wiki.site.purge("5")
    assert sync().deleted == 2
    assert len(wiki.asked("content/5")) == 1
    assert wiki.asked("content/4") == []
    assert any(request.params.get("status") == "trashed" for request in wiki.requests)


@pytest.mark.parametrize("status", [403, 404])
def test_a_page_that_may_not_be_seen_is_not_deleted_while_it_is_listed(wiki: StandIn, sync: Syncs, status: int) -> None:
    first = sync()
    wiki.faults.append(Fault(lambda *_: Answer.of({}, status), None, lambda request: "6" in request.path.split("/")))
    wiki.faults.append(broken(None, 404, "search"))
    wiki.site.edit("6", body="<p>New.</p>")
    second = sync()
    assert (second.deleted, dict(second.failures).keys()) == (0, {"6"})
    assert column(second, "body")["6"] == column(first, "body")["6"]


def test_too_many_gone_at_once_stops_and_says_how_to_go_on(wiki: StandIn, sync: Syncs) -> None:
    first = sync()
    wiki.site.delete(*ids(*range(1, 8)))
    with pytest.raises(SourceError, match=r"7 of 12 pages.*sources\.eng\.max_deleted_share to 1"):
        sync()
    assert sync.last is first
    assert sync(max_deleted_share=1).deleted == 7


def test_a_few_of_a_small_space_may_go_but_not_all(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.delete(*(ALL - ids(1, 2, 3)))
    sync()
    wiki.site.delete("1", "2")
    assert sync().deleted == 2
    wiki.site.delete("3")
    with pytest.raises(SourceError, match="nothing was deleted"):
        sync()


def test_a_page_that_the_enumeration_missed_is_not_deleted(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.faults.append(Fault(lambda _, answer: _without(answer, "6"), 1, enumerates))
    second = sync()
    assert (second.deleted, set(column(second, "title"))) == (0, ALL)


def _without(answer: Answer, page_id: str) -> Answer:
    content = json.loads(answer.content)
    return Answer.of({**content, "results": [one for one in content["results"] if one["id"] != page_id]})


def test_a_page_whose_absence_cannot_be_confirmed_stays(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.restrict("6", groups=["ops"])
    sync()
    wiki.faults.append(Fault(lambda _, answer: _without(answer, "6"), None, enumerates))
    wiki.faults.append(broken(None, path="content/6"))
    wiki.faults.append(broken(None, path="search"))
    second = sync()
    assert (second.deleted, column(second, "readers")["6"]) == (0, "group:ops")
    assert "not certain whether the page is gone" in dict(second.failures)["6"]


@pytest.mark.parametrize("signed", [True, False])
def test_an_enumeration_that_ends_early_deletes_nothing_and_says_what_it_can(tmp_path: Path, signed: bool) -> None:
    with StandIn("datacenter", caps=(4, 4, 4)) as wiki:
        wiki.site.put(*(page(number) for number in range(1, 13)))
        sync = Syncs(wiki, tmp_path)
        sync()
        wiki.faults.append(emptied(after=8, times=None, signed=signed))
        result = sync()
        assert result.deleted == 0
        assert ["ended with an empty page" in note for note in result.notes] == [True] * signed
        wiki.faults.clear()
        assert sync().notes == ()


@pytest.mark.parametrize(
    "fault",
    [
        lambda: emptied(times=None),
        lambda: cut(99),
        lambda: broken(None),
        lambda: broken(None, 403),
        lambda: throttled(99),
    ],
)
def test_an_enumeration_cut_short_deletes_nothing(wiki: StandIn, sync: Syncs, fault: Callable[[], Fault]) -> None:
    first = sync()
    wiki.faults.append(fault())
    with pytest.raises(SourceError):
        sync()
    wiki.faults.clear()
    assert sync.last is first
    assert (sync().deleted, wiki.bodies_asked()) == (0, set())


def test_a_page_that_cannot_be_read_any_more_is_not_deleted_while_it_is_listed(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("6", body="<p>New.</p>")
    hide = Fault(lambda *_: Answer.of({}, 404), None, lambda request: request.with_body)
    wiki.faults.append(hide)
    second = sync()
    assert (second.deleted, second.changed) == (0, 0)
    assert [page_id for page_id, _ in second.failures] == ["6"]
    assert "Text of page 6" in column(second, "body")["6"]


def test_an_unknown_space_says_what_to_check(sync: Syncs) -> None:
    with pytest.raises(SourceError, match=r"space 'NOPE' cannot be listed.*check the key"):
        sync(space="NOPE")


# Going wrong


def test_throttling_is_survived(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults += [throttled(2, "1"), broken(2, 502), cut(1)]
    assert sync().seen == 12


def test_one_bad_page_is_recorded_and_the_others_arrive(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults.append(poisoned("7"))
    result = sync()
    assert set(column(result, "title")) == ALL - {"7"}
    assert [page_id for page_id, _ in result.failures] == ["7"]
    wiki.faults.clear()
    assert set(column(sync(), "title")) == ALL
    assert wiki.bodies_asked() == {"7"}


def test_a_bad_page_keeps_its_last_version_under_its_new_restrictions(wiki: StandIn, sync: Syncs) -> None:
    sync()
    wiki.site.edit("7", body="<p>New.</p>")
    wiki.site.restrict("7", groups=["ops"])
    wiki.faults.append(poisoned("7"))
    second = sync()
    assert column(second, "version")["7"] == 1
    assert column(second, "readers")["7"] == "group:ops"
    assert (second.failed, second.deleted) == (1, 0)


def test_entries_that_fail_with_details_are_listed_bare_and_asked_for_one_by_one(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.restrict("3", groups=["ops"])

    def with_details(request: Request) -> bool:
        return enumerates(request) and "restrictions" in request.params.get("expand", "")

    wiki.faults.append(Fault(lambda *_: Answer.of({"statusCode": 404}, 404), None, with_details))
    result = sync()
    assert column(result, "readers") == {page_id: "group:ops" if page_id == "3" else EVERYONE for page_id in ALL}
    assert result.hidden == ()


def test_a_page_whose_restrictions_cannot_be_read_is_hidden_and_told(wiki: StandIn, sync: Syncs) -> None:
    def strip(_: Request, answer: Answer) -> Answer:
        return Answer(200, answer.content.replace(b'"restrictions": {"read"', b'"restrictions": {"unread"'))

    wiki.faults.append(Fault(strip, None))
    result = sync()
    assert set(column(result, "readers").values()) == {NOBODY}
    assert {page_id for page_id, _ in result.hidden} == ALL


# Readers


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


# Going on where it stopped


def test_a_sync_that_breaks_off_does_not_fetch_its_batches_again(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults.append(Fault(lambda *_: Answer.of({}, 401), None, third_batch))
    with pytest.raises(SourceError, match="401"):
        sync()
    wiki.faults.clear()
    first = sync()
    assert wiki.bodies_asked() == ids(9, 10, 11, 12)
    assert set(column(first, "title")) == ALL
    sync()
    assert [*sync.folder.rglob("*.parquet")] == []


def test_a_page_that_changed_after_the_break_is_fetched_again(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults.append(
        Fault(lambda *_: Answer.of({}, 401), None, lambda request: "9," in request.params.get("cql", ""))
    )
    with pytest.raises(SourceError):
        sync()
    wiki.faults.clear()
    wiki.site.edit("2", body="<p>Newer.</p>")
    wiki.site.delete("1")
    result = sync()
    assert column(result, "body")["2"] == "<p>Newer.</p>"
    assert wiki.bodies_asked() == ids(2, 9, 10, 11, 12)
    assert "1" not in column(result, "title")


def test_a_damaged_batch_on_disk_is_fetched_again(wiki: StandIn, sync: Syncs) -> None:
    first = sync()
    sync.last = None
    sorted(sync.folder.rglob("*.parquet"))[0].write_bytes(b"PAR1")
    second = sync()
    assert wiki.bodies_asked() == ids(1, 2, 3, 4)
    assert second.pages.equals(first.pages)


CHILD = """
import json, sys
from pathlib import Path
from rag_assets.sources import open_source
from rag_serving.source_kinds import Confluence
settings = Confluence(**json.loads(sys.argv[1]))
open_source("eng", settings, Path(sys.argv[2])).sync(None, {})
"""


def test_a_sync_that_is_killed_goes_on_where_it_stopped(wiki: StandIn, sync: Syncs) -> None:
    child: list[subprocess.Popen[bytes]] = []

    def kill(_: Request, answer: Answer) -> Answer:
        os.kill(child[0].pid, signal.SIGKILL)
        return answer

    wiki.faults.append(Fault(kill, 1, third_batch))
    command = [sys.executable, "-c", CHILD, json.dumps(settings_of(wiki)), str(sync.folder)]
    child.append(subprocess.Popen(command))
    assert child[0].wait(60) == -signal.SIGKILL
    result = sync()
    assert wiki.bodies_asked() == ids(9, 10, 11, 12)
    assert (result.seen, set(column(result, "title"))) == (12, ALL)


def test_progress_counts_the_bodies(wiki: StandIn, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    source = open_source("eng", source_kinds.Confluence(**settings_of(wiki)), tmp_path)
    assert source.fingerprint() is None
    source.sync(None, {}, lambda done, total: told.append((done, total)))
    assert told == [(4, 12), (8, 12), (12, 12)]


# Other kinds of content, and REST v2


def test_blog_posts_and_archived_pages_come_by_option(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, type="blogpost"), page(21), page(22, groups=["ops"]), page(23, parents=[22]))
    wiki.site.archive("21")
    assert set(column(sync(), "title")) == ALL | ids(22, 23)
    more = sync(blog_posts=True, archived=True)
    assert set(column(more, "title")) == ALL | ids(20, 21, 22, 23)
    assert column(more, "status")["21"] == "archived"
    wiki.site.archive("22")
    again = sync(blog_posts=True, archived=True)
    assert (again.changed, again.deleted, wiki.bodies_asked()) == (1, 0, set())
    assert column(again, "readers")["23"] == "group:ops"


@pytest.fixture
def oauth(tmp_path: Path) -> Iterator[Syncs]:
    """A Cloud site that has v1 only for search and restrictions."""
    with StandIn("cloud") as wiki:
        wiki.site.put(*(page(number) for number in range(1, 6)))
        wiki.site.put(page(6, parents=[5], labels=["kip"]), page(7, groups=["ops"]), page(8, parents=[5, 7]))
        wiki.faults.append(gone_v1())
        yield Syncs(wiki, tmp_path)


@pytest.mark.parametrize("searches", [True, False])
def test_a_site_without_v1_content_is_read_by_v2(oauth: Syncs, tmp_path: Path, searches: bool) -> None:
    if not searches:
        oauth.wiki.faults.append(broken(None, 410, "search"))
    result = oauth()
    assert result.failures == result.hidden == ()
    oauth.wiki.faults.clear()
    expected = Syncs(oauth.wiki, tmp_path / "v1")()
    unlike = {"ancestor_titles", "url", "anchor_flavor", "content_hash"} if not searches else set()
    for mine, theirs in zip(result.pages.to_pylist(), expected.pages.to_pylist(), strict=True):
        assert {name for name in mine if mine[name] != theirs[name]} <= unlike


def test_a_site_without_v1_content_still_deletes_with_care(oauth: Syncs) -> None:
    oauth()
    oauth.wiki.site.delete("2")
    oauth.wiki.site.edit("3", body="<p>New.</p>")
    second = oauth()
    assert (second.deleted, second.changed) == (1, 1)
    assert column(second, "body")["3"] == "<p>New.</p>"


def test_a_space_that_v2_does_not_know_says_what_to_check(oauth: Syncs) -> None:
    with pytest.raises(SourceError, match="check the key"):
        oauth(space="NOPE")
