"""Comments are found and guarded like their page, beside it: they never change what a version of the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sources.export_writer import Export
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import broken
from sources.stand_in_site import page
from support.constants import section_of

from rag_assets.sources import SyncResult, open_source
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.sources import Confluence, ConfluenceExport


@pytest.fixture(params=["datacenter", "cloud"])
def wiki(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    with StandIn(request.param) as stand_in:
        stand_in.site.put(page(1), page(2, "Cranes", parents=[1], groups=["ops"]))
        stand_in.site.say("2", "<p>Is it 18 now?</p>", "2026-03-03T10:00:00.000Z")
        stand_in.site.say("2", "<p>Since when 20?</p>", "2026-03-02T10:00:00.000Z", version=2)
        yield stand_in


def sync(wiki: StandIn, folder: Path, last: SyncResult | None = None, **more: Any) -> SyncResult:
    given = {"tenant": "acme", "base_url": wiki.url, "space": "ENG", "readers": "everyone", "comments": True}
    settings = section_of(
        Confluence, kind="confluence", **{**given, "max_retries": 1, "max_requests_per_s": 1000, **more}
    )
    result = open_source("eng", settings, folder).sync(last.pages if last else None, last.state if last else {})
    assert result.unaccounted == 0
    return result


def comments(result: SyncResult) -> list[dict[str, Any]]:
    return [row for row in result.pages.to_pylist() if row["title"].startswith("Comments on ")]


def test_comments_of_a_page_are_one_row_under_its_readers_oldest_first(wiki: StandIn, tmp_path: Path) -> None:
    result = sync(wiki, tmp_path)
    (row,) = comments(result)
    assert (row["page_id"], row["title"], row["version"]) == ("com2", "Comments on Cranes", 3)
    assert row["readers"] == "group:ops"
    assert row["updated_at"].isoformat() == "2026-03-03T10:00:00+00:00"
    found = build_sections(result.pages)
    texts = {one["heading"]: one["text"] for one in found.sections.to_pylist()}
    assert texts["Comments on Cranes"] == "Since when 20?\n\nIs it 18 now?"
    assert result.seen == len(result.pages) == 3


def test_a_new_comment_changes_its_row_alone(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    assert sync(wiki, tmp_path, first).changed == 0
    wiki.site.say("2", "<p>Yes.</p>", "2026-03-04T10:00:00.000Z")
    second = sync(wiki, tmp_path, first)
    assert (second.changed, comments(second)[0]["version"]) == (1, 4)


def test_comments_that_are_gone_go(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.site.hanging.comments.clear()
    second = sync(wiki, tmp_path, first)
    assert (comments(second), second.deleted) == ([], 1)


def test_comments_that_cannot_be_listed_stay(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.site.say("2", "<p>Yes.</p>")
    wiki.faults.append(broken(None, path="/2/child/comment"))
    second = sync(wiki, tmp_path, first)
    assert second.pages.equals(first.pages)
    assert [page_id for page_id, _ in second.failures] == ["2"]


def test_pages_whose_comments_are_the_same_are_not_asked(wiki: StandIn, tmp_path: Path) -> None:
    wiki.site.put(page(3))
    wiki.site.say("3", "<p>Ours.</p>")
    first = sync(wiki, tmp_path)
    wiki.site.say("2", "<p>Yes.</p>")
    wiki.site.edit("3", title="Quays")
    wiki.site.restrict("3", groups=["hq"])
    wiki.requests.clear()
    second = sync(wiki, tmp_path, first)
    assert {request.path for request in wiki.asked("child")} == {"/rest/api/content/2/child/comment"}
    assert [(row["title"], row["readers"]) for row in comments(second)] == [
        ("Comments on Cranes", "group:ops"),
        ("Comments on Quays", "group:hq"),
    ]
    assert second.pages.equals(sync(wiki, tmp_path).pages)


def test_comments_that_search_forgets_are_there_as_long_as_the_page_says_so(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.site.unsearchable.add(wiki.site.hanging.comments["2"][0].id)
    assert sync(wiki, tmp_path, first).pages.equals(first.pages)
    first = sync(wiki, tmp_path)
    del wiki.site.hanging.comments["2"][0]
    assert sync(wiki, tmp_path, first).pages.equals(sync(wiki, tmp_path).pages)


def test_without_search_every_page_is_asked(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.faults.append(broken(None, 410, "search"))
    wiki.requests.clear()
    assert sync(wiki, tmp_path, first).pages.equals(first.pages)
    assert len({request.path for request in wiki.asked("child/comment")}) == 2


def test_without_the_option_nobody_asks_for_comments(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.requests.clear()
    second = sync(wiki, tmp_path, first, comments=False)
    assert (comments(second), wiki.asked("comment")) == ([], [])


def exported(path: Path, **more: Any) -> SyncResult:
    given = {"tenant": "acme", "path": path, "readers": "everyone", "base_url": "https://wiki.example", **more}
    return open_source("eng", ConfluenceExport(kind="confluence_export", **given), path).sync(None, {})


def test_an_export_gives_the_same_row(wiki: StandIn, tmp_path: Path) -> None:
    export = Export().add(page(1), page(2, "Cranes", parents=[1], groups=["ops"]))
    export.comment("2", "<p>Is it 18 now?</p>", "2026-03-03 10:00:00.000")
    edited = export.comment("2", "<p>Since when 20?</p>", "2026-03-02 10:00:00.000")
    export.comment("2", "<p>Deleted.</p>", status="deleted")
    export.comment("77", "<p>Below no page.</p>")
    one, two = '<property name="version">1</property>', '<property name="version">2</property>'
    export.objects[:] = [text.replace(one, two) if f">{edited}<" in text else text for text in export.objects]
    path = export.write(tmp_path / "export.zip")
    (found,), (live,) = comments(exported(path, comments=True)), comments(sync(wiki, tmp_path))
    of_the_site = {"url": "", "anchor_flavor": "", "content_hash": ""}
    assert {**found, **of_the_site} == {**live, **of_the_site}
    assert comments(exported(path)) == []
