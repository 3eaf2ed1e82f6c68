"""Cloud sites that have REST v1 only for search and restrictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken, gone_v1
from sources.stand_in_site import page
from sources.syncs import Syncs, column

from rag_assets.sources import SourceError


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
    unlike = {"ancestor_titles", "url", "anchor_flavor", "content_hash", "space_name"} if not searches else set()
    for mine, theirs in zip(result.pages.to_pylist(), expected.pages.to_pylist(), strict=True):
        assert {name for name in mine if mine[name] != theirs[name]} <= unlike


@pytest.mark.parametrize("searches", [True, False])
def test_a_page_of_another_space_is_not_taken_whatever_v2_lists(oauth: Syncs, searches: bool) -> None:
    oauth.wiki.site.put(page(66, "Salaries", space="HR"))
    oauth.wiki.site.misplaced.add("66")
    if not searches:
        oauth.wiki.faults.append(broken(None, 410, "search"))
    result = oauth()
    assert set(column(result, "space").values()) == {"ENG"}
    assert result.excluded == (("66", "it belongs to space 'hr', not 'ENG'"),)


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
