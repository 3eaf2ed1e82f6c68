"""What a sync of a live space deletes, and what it never does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, broken, cut, emptied, throttled
from sources.stand_in_site import page
from sources.syncs import ALL, Syncs, column, enumerates, ids

from rag_assets.sources import SourceError


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
    wiki.faults += [fault(), broken(None, 410, "search")]
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


def test_an_enumeration_without_results_deletes_nothing_where_search_knows_the_pages(
    wiki: StandIn, sync: Syncs
) -> None:
    sync()
    wiki.faults.append(emptied(times=None))
    result = sync()
    assert (result.deleted, set(column(result, "title"))) == (0, ALL)
    assert "ended with an empty page" in result.notes[0]
