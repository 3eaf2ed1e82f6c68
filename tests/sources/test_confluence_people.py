"""Mentioned people are named as their site names them, and as it names them now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken
from sources.stand_in_site import page
from sources.syncs import Syncs, column
from support.macro_bodies import text

from rag_serving.text.normalization import OMISSION


def mention(one: str, flavor: str) -> str:
    kind = "account-id" if flavor == "cloud" else "userkey"
    return f'<ac:link><ri:user ri:{kind}="{one}" /></ac:link>'


@pytest.fixture(params=["cloud", "datacenter"])
def wiki(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    flavor = request.param
    with StandIn(flavor) as stand_in:
        body = f"<p>The dock is owned by {mention('a:1', flavor)}, deputy {mention('b:2', flavor)}.</p>"
        stand_in.site.put(page(1, body=body), page(2, body=f"<p>Ask {mention('a:1', flavor)}.</p>"), page(3))
        stand_in.site.people = {"a:1": 'Ines "Ina" <Falk>', "b:2": "Bo Berg"}
        yield stand_in


@pytest.fixture
def sync(wiki: StandIn, tmp_path: Path) -> Syncs:
    return Syncs(wiki, tmp_path)


def shown(sync: Syncs) -> dict[str, str]:
    return {page_id: text(body) for page_id, body in column(sync(), "body").items()}


def test_names_are_text_and_change_with_the_person(wiki: StandIn, sync: Syncs) -> None:
    assert shown(sync)["1"] == 'The dock is owned by Ines "Ina" <Falk>, deputy Bo Berg.'
    hashes = column(sync(), "content_hash")
    assert sync.last is not None
    assert sync.last.changed == 0
    wiki.site.people["b:2"] = "Bo Lund"
    assert shown(sync)["1"] == 'The dock is owned by Ines "Ina" <Falk>, deputy Bo Lund.'
    assert sync.last.changed == 1
    now = column(sync.last, "content_hash")
    assert {one for one in now if now[one] != hashes[one]} == {"1"}


def test_many_people_are_one_request_where_the_site_allows_it(wiki: StandIn, sync: Syncs) -> None:
    sync()
    asked = [request for request in wiki.requests if request.path.startswith("/rest/api/user")]
    assert len(asked) == (1 if wiki.flavor == "cloud" else 2)


def test_a_name_that_cannot_be_had_is_an_omission_and_one_that_was_known_stays(wiki: StandIn, sync: Syncs) -> None:
    del wiki.site.people["b:2"]
    assert shown(sync)["1"] == f'The dock is owned by Ines "Ina" <Falk>, deputy @user{OMISSION}.'
    wiki.faults.append(broken(1_000, path="rest/api/user"))
    assert shown(sync)["2"] == 'Ask Ines "Ina" <Falk>.'


def test_a_site_without_mentions_is_asked_for_nobody(wiki: StandIn, sync: Syncs) -> None:
    wiki.site.put(page(1), page(2))
    sync()
    assert not [request for request in wiki.requests if request.path.startswith("/rest/api/user")]
