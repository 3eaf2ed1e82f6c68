"""A stand-in wiki of either flavor with a dozen pages or another number, and syncs of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_site import page
from sources.syncs import Syncs


@pytest.fixture
def pages() -> int:
    """How many pages the wiki has."""
    return 12


@pytest.fixture(params=["cloud", "datacenter"])
def wiki(request: pytest.FixtureRequest, pages: int) -> Iterator[StandIn]:
    with StandIn(request.param) as stand_in:
        stand_in.site.put(*(page(number) for number in range(1, pages + 1)))
        yield stand_in


@pytest.fixture
def sync(wiki: StandIn, tmp_path: Path) -> Syncs:
    return Syncs(wiki, tmp_path)
