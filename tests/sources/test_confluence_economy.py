r"""What a sync costs on a large site, in requests and in time.

    CITELOCK_ECONOMY_PAGES=10000 CITELOCK_ECONOMY_REQUEST_S=0.1 \
        .venv/bin/pytest -s tests/sources/test_confluence_economy.py

prints the table; a site that answers within 0.1 s is a fast one. By default there are 1,000 pages; 1 % of them change.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, Request
from sources.stand_in_site import page
from sources.syncs import Syncs

PAGES = int(os.environ.get("CITELOCK_ECONOMY_PAGES", "500"))
CHANGED = PAGES // 100
REQUEST_S = float(os.environ.get("CITELOCK_ECONOMY_REQUEST_S", "0"))
"""How long the site takes for each request, beyond what the stand-in takes."""


@dataclass
class Cost:
    """Of one sync."""

    listing: int
    other: int
    seconds: float

    @property
    def requests(self) -> int:
        return self.listing + self.other


@pytest.fixture(params=["cloud", "datacenter"])
def wiki(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    with StandIn(request.param) as stand_in:
        stand_in.site.put(*(page(n, parents=[n // 50] if n > 50 else []) for n in range(1, PAGES + 1)))
        if REQUEST_S:
            stand_in.faults.append(Fault(_late, None))
        gc.freeze()  # the site's objects are not the program's to sweep
        yield stand_in
        gc.unfreeze()


def _late(_: Request, answer: Answer) -> Answer:
    time.sleep(REQUEST_S)
    return answer


def measured(sync: Syncs, label: str, listing_every_s: float = 0) -> Cost:
    began = time.perf_counter()
    sync(listing_every_s=listing_every_s)
    seconds = time.perf_counter() - began
    listing = sum("spaceKey" in request.params for request in sync.wiki.requests)
    cost = Cost(listing, len(sync.wiki.requests) - listing, seconds)
    print(
        f"\n{sync.wiki.flavor:<10} {label:<42} {cost.listing:>4} + {cost.other:>4} requests {seconds:>7.2f} s", end=""
    )
    return cost


def edit_some(wiki: StandIn, at: int) -> None:
    for number in range(at, at + CHANGED):
        wiki.site.edit(str(number), body="<p>New text.</p>")


def test_cost_follows_change_and_not_size(wiki: StandIn, tmp_path: Path) -> None:
    sync = Syncs(wiki, tmp_path, batch_size=50)
    full = measured(sync, "full")
    nothing = measured(sync, "nothing changed, listed")
    edit_some(wiki, 1)
    some = measured(sync, "1 % changed, listed")
    light_nothing = measured(sync, "nothing changed, by CQL", 3600)
    edit_some(wiki, 1 + CHANGED)
    light_some = measured(sync, "1 % changed, by CQL", 3600)
    assert nothing.other <= 5
    assert light_nothing.requests <= 5
    assert light_nothing.listing == 0
    batches = -(-CHANGED // 50)
    assert some.other <= batches + 5
    assert light_some.requests <= 2 * batches + 5
    if PAGES >= 10_000:
        assert some.other <= 0.03 * full.other
        assert light_some.requests <= 0.03 * full.requests


def test_files_and_comments_cost_a_list_each_and_not_a_request_a_page(wiki: StandIn, tmp_path: Path) -> None:
    hanging = 300
    for number in range(1, hanging + 1):
        wiki.site.attach(str(number), "notes.txt", b"Notes.")
        wiki.site.say(str(number), "<p>Noted.</p>")
    sync = Syncs(wiki, tmp_path, batch_size=50, attachments="text", comments=True)
    measured(sync, "full, files and comments")
    nothing = measured(sync, "nothing changed, files and comments")
    wiki.site.say("7", "<p>Noted again.</p>")
    wiki.site.attach("8", "more.txt", b"More.")
    some = measured(sync, "a comment and a file more")
    lists = 2 * (-(-hanging // 200) + 1)  # where a list ends without a cursor, an empty page tells
    assert nothing.other <= lists + 5
    assert some.other <= lists + 5 + 3
