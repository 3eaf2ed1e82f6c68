"""Syncs of a live space that goes wrong: what fails is told, and the rest arrives."""

from __future__ import annotations

import json

from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, Request, broken, cut, poisoned, throttled
from sources.syncs import ALL, Syncs, column, enumerates

from rag_serving.access.principals import EVERYONE, NOBODY


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


def test_an_enumeration_that_ends_early_and_says_nothing_is_made_whole_by_search(wiki: StandIn, sync: Syncs) -> None:
    def ends_early(request: Request, answer: Answer) -> Answer:
        content = json.loads(answer.content)
        links = {name: link for name, link in content["_links"].items() if name != "next"}
        return Answer.of({**content, "results": content["results"][:5] if request.start == 0 else [], "_links": links})

    wiki.faults.append(Fault(ends_early, None, enumerates))
    result = sync()
    assert (result.seen, set(column(result, "title"))) == (12, ALL)
    assert (result.failures, result.unaccounted) == ((), 0)


def test_where_search_knows_of_no_more_the_count_is_one_request(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.unsearchable.add("3")
    sync()
    sync()
    asked = [request for request in wiki.requests if not enumerates(request)]
    assert [request.path for request in asked] == ["/rest/api/search"]


def test_what_search_still_knows_of_deleted_pages_changes_nothing(wiki: StandIn, sync: Syncs) -> None:
    def stale(_: Request, answer: Answer) -> Answer:
        return Answer.of({**json.loads(answer.content), "totalSize": 99})

    wiki.faults.append(Fault(stale, None, lambda request: request.path == "/rest/api/search"))
    assert (sync().seen, sync().deleted) == (12, 0)
