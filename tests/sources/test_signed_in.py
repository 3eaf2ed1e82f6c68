"""A sync that signs in and is taken for nobody believes nothing: it fails in one line and deletes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_faults import Answer, Fault, Request
from sources.stand_in_site import page
from sources.syncs import ALL, Syncs, column, enumerates, ids, settings_of
from support.constants import section_of

from rag_assets.sources import SourceError
from rag_assets.sources.confluence.transport import is_anonymous, is_nobody
from rag_assets.sources.reach import reach
from rag_serving.config.sources import Confluence


def headed(name: str, value: str) -> Fault:
    """Every answer carries a header more."""
    return Fault(lambda _, answer: replace(answer, headers={**answer.headers, name: value}), None)


def about_me(told: dict[str, Any], status: int = 200, times: int | None = None) -> Fault:
    return Fault(lambda *_: Answer.of(told, status), times, lambda one: one.path.endswith("user/current"))


def expired_after_the_check() -> Fault:
    """The token is good for the first question about the account."""
    asked: list[Request] = []

    def spoil(request: Request, answer: Answer) -> Answer:
        asked.append(request)
        return answer if len(asked) == 1 else Answer.of({"type": "anonymous"})

    return Fault(spoil, None, lambda one: one.path.endswith("user/current"))


LAPSES: dict[str, Callable[[], Fault]] = {
    "the account is anonymous": lambda: about_me({"type": "anonymous", "displayName": "Anonymous"}),
    "an account without a name": lambda: about_me({}),
    "the account may not ask": lambda: about_me({}, 403),
    "a sign-in that failed": lambda: headed("X-Seraph-LoginReason", "AUTHENTICATED_FAILED"),
    "a captcha": lambda: headed("X-Authentication-Denied-Reason", "CAPTCHA_CHALLENGE"),
    "another name": lambda: headed("x-ausername", "anonymous"),
    "on the way": expired_after_the_check,
}


@pytest.fixture
def signed(wiki: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Syncs:
    way = "basic" if wiki.flavor == "cloud" else "bearer"
    wiki.require(way)
    wiki.site.put(page(20, groups=["ops"]))
    monkeypatch.setenv("CONFLUENCE_USER", USER)
    monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
    return Syncs(wiki, tmp_path, auth={"kind": way})


@pytest.mark.parametrize("more", [{}, {"attachments": "text", "comments": True}, {"listing_every_s": 3600}])
@pytest.mark.parametrize("lapse", LAPSES)
def test_a_token_that_lapsed_deletes_nothing(wiki: StandIn, signed: Syncs, lapse: str, more: dict[str, Any]) -> None:
    first = signed(**more)
    wiki.site.forbidden.add("20")
    wiki.faults.append(LAPSES[lapse]())
    with pytest.raises(SourceError, match=r"not signed in.*nothing was deleted; check auth") as caught:
        signed(**more)
    assert "\n" not in str(caught.value)
    assert signed.last is first
    wiki.faults.clear()
    wiki.site.forbidden.clear()
    assert (signed(**more).deleted, column(signed(**more), "readers")["20"]) == (0, "group:ops")


def test_who_signs_in_is_asked_for_once_in_a_sync_and_not_where_nobody_signs_in(wiki: StandIn, signed: Syncs) -> None:
    for _ in range(2):
        signed()
        assert len(wiki.asked("user/current")) == 1
    wiki.authorization = None
    signed(auth={"kind": "none"})
    assert wiki.asked("user/current") == []


def test_a_site_that_does_not_know_the_question_is_read(wiki: StandIn, signed: Syncs) -> None:
    wiki.faults += [about_me({}, 404), headed("X-Seraph-LoginReason", "OUT, OK"), headed("X-AUSERNAME", "bot")]
    signed()
    wiki.site.delete("4")
    assert (signed().deleted, set(column(signed(), "title"))) == (1, (ALL | {"20"}) - ids(4))


def test_an_anonymous_sync_may_read_what_all_may(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults += [headed("X-AUSERNAME", "anonymous"), about_me({"type": "anonymous"})]
    assert len(sync().pages) == len(ALL)


def test_the_doctor_says_the_same(wiki: StandIn, signed: Syncs) -> None:
    wiki.faults.append(about_me({"type": "anonymous"}))
    found = reach("eng", section_of(Confluence, **settings_of(wiki, **signed.settings)))
    assert (found.state, found.mend) == ("fail", "check auth and its environment variables")
    assert "not signed in" in found.detail


def test_nothing_of_a_bodys_end_is_believed_once_a_header_says_so(wiki: StandIn, signed: Syncs) -> None:
    signed()
    wiki.faults.append(replace(headed("X-Seraph-LoginReason", "AUTHENTICATED_FAILED"), times=1, matches=enumerates))
    with pytest.raises(SourceError, match="not signed in"):
        signed()


@pytest.mark.parametrize(
    ("headers", "anonymous"),
    [
        ({}, False),
        ({"X-Seraph-LoginReason": "OK"}, False),
        ({"X-Seraph-LoginReason": "OUT, OK"}, False),
        ({"X-Seraph-LoginReason": "OUT"}, True),
        ({"X-Seraph-LoginReason": "AUTHENTICATION_DENIED"}, True),
        ({"X-AUSERNAME": "anna"}, False),
        ({"X-AUSERNAME": "Anonymous"}, True),
    ],
)
def test_headers_of_a_reply(headers: dict[str, str], anonymous: bool) -> None:
    assert is_anonymous(headers) == anonymous


@pytest.mark.parametrize(
    ("user", "nobody"),
    [
        ({"type": "known"}, False),
        ({"accountId": "5b10"}, False),
        ({"username": "bot", "userKey": "8a7f"}, False),
        ({"type": "anonymous", "accountId": "5b10"}, True),
        ({"username": "anonymous"}, True),
        ({"displayName": "Anonymous", "accountId": None}, True),
    ],
)
def test_what_is_said_of_the_account(user: dict[str, Any], nobody: bool) -> None:
    assert is_nobody(user) == nobody
