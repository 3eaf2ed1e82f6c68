"""A wiki that changes while it is read: what a sync shows anew, everybody who sees it could read at one moment."""

from __future__ import annotations

from collections.abc import Callable

from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, broken
from sources.stand_in_site import page, restrictions
from sources.syncs import Syncs, column, enumerates

from rag_serving.access.principals import EVERYONE, NOBODY

LIGHT = {"listing_every_s": 3600}


def once(wiki: StandIn, after: str, happens: Callable[[], None]) -> None:
    """Something happens after the first answer to a request whose path or query names `after`."""

    def live() -> None:
        if after in f"{wiki.requests[-1].path} {wiki.requests[-1].params}":
            wiki.meanwhile = lambda: None
            happens()

    wiki.meanwhile = live


def test_a_text_written_below_a_page_that_was_just_restricted_is_not_shown_to_all(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, parents=[1]), page(21, parents=[1]))
    sync()
    wiki.site.edit("20", body="<p>New.</p>")

    def close_and_write() -> None:
        wiki.site.restrict("1", groups=["ops"])
        wiki.site.edit("20", body="<p>Secret.</p>")

    once(wiki, "spaceKey", close_and_write)
    result = sync()
    assert column(result, "body")["20"] == "<p>Secret.</p>"
    assert column(result, "readers")["20"] == "group:ops"


def test_what_was_closed_after_and_opened_before_it_was_read_is_not_taken_together(wiki: StandIn, sync: Syncs) -> None:
    wiki.caps = (50, 1, 1000)  # an entry a request, so that the wiki changes between two entries
    wiki.site.put(page(20, parents=[1], users=["ann"]))
    sync()

    def close_one_and_open_the_other() -> None:
        wiki.site.restrict("1", groups=["ops"])
        wiki.site.restrict("20")

    once(wiki, "spaceKey", close_one_and_open_the_other)
    assert column(sync(), "readers")["20"] == "group:ops"


def test_a_page_made_below_one_that_was_restricted_since_the_last_listing_is_not_shown_to_all(
    wiki: StandIn, sync: Syncs
) -> None:
    sync(**LIGHT)
    wiki.site.restrict("1", groups=["ops"])
    wiki.site.create("30", "1")
    wiki.site.create("31", "2")
    result = sync(**LIGHT)
    assert not any(enumerates(request) for request in wiki.requests)
    assert (column(result, "readers")["30"], column(result, "readers")["31"]) == ("group:ops", EVERYONE)


def test_a_lineage_that_is_another_each_time_is_shown_to_nobody_and_told(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, parents=[1]))
    first = sync()
    wiki.site.edit("20", body="<p>New.</p>")
    turns = iter(range(1000))

    def turn(_: object, answer: Answer) -> Answer:
        wiki.site.pages["1"]["restrictions"] = restrictions(groups=[f"g{next(turns)}"])
        return answer

    wiki.faults.append(Fault(turn, None))
    second = sync()
    assert column(first, "readers")["20"] == EVERYONE
    assert column(second, "readers")["20"] == NOBODY
    assert "changed again and again" in dict(second.hidden)["20"]
    wiki.faults.clear()
    assert column(sync(), "readers")["20"].startswith("group:g")


def test_a_comment_on_a_page_that_was_just_restricted_is_not_shown_to_all(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.say("2", "<p>Old.</p>")
    sync(comments=True)

    def close_and_say() -> None:
        wiki.site.restrict("2", groups=["ops"])
        wiki.site.say("2", "<p>Secret.</p>")

    once(wiki, "spaceKey", close_and_say)
    second = sync(comments=True)
    assert column(second, "readers")["com2"] == NOBODY
    assert "com2" in dict(second.hidden)
    assert column(sync(comments=True), "readers")["com2"] == "group:ops"


def test_an_old_text_that_cannot_be_renewed_is_not_shown_to_who_comes_later(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.restrict("6", groups=["ops"])
    sync()
    wiki.site.edit("6", body="<p>Fit for all.</p>")
    wiki.site.restrict("6")
    wiki.faults.append(broken(None, path="content/6"))
    wiki.faults.append(broken(None, path="search"))
    assert column(sync(), "readers")["6"] == "group:ops"
    wiki.faults.clear()
    assert column(sync(), "readers")["6"] == EVERYONE


def test_an_old_text_that_was_edited_before_its_page_was_opened_is_not_shown_to_who_comes_later(
    wiki: StandIn, sync: Syncs
) -> None:
    wiki.caps = (50, 1, 1000)
    wiki.site.put(page(20, groups=["ops"]))
    wiki.site.move("1", "20")
    sync()

    def edit_and_open() -> None:
        wiki.site.edit("1", body="<p>Fit for all.</p>")
        wiki.site.restrict("20")

    once(wiki, "spaceKey", edit_and_open)
    second = sync()
    assert column(second, "readers")["1"] == NOBODY
    assert "edited" in dict(second.hidden)["1"]
    third = sync()
    assert (column(third, "readers")["1"], column(third, "body")["1"]) == (EVERYONE, "<p>Fit for all.</p>")


def test_only_what_is_shown_anew_is_read_again(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(20, parents=[1]), page(21, parents=[2]))
    sync()
    sync()
    in_quiet = len(wiki.requests)
    wiki.site.restrict("1", groups=["ops"])
    sync()
    assert len(wiki.requests) == in_quiet
    wiki.site.edit("21")
    sync()
    assert [request.path.rpartition("/")[2] for request in wiki.requests][in_quiet:] == ["21", "2"]
