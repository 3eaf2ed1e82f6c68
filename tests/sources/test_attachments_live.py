"""Files of a live space: fetched once, under their page's readers, and never lost to a fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, broken
from sources.stand_in_site import page
from support.constants import section_of

from rag_assets.sources import SyncResult, open_source
from rag_serving.config.sources import Confluence


@pytest.fixture(params=["datacenter", "cloud"])
def wiki(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    with StandIn(request.param) as stand_in:
        stand_in.site.put(page(1), page(2, parents=[1], groups=["ops"]), page(3))
        stand_in.site.attach("2", "notes.txt", b"Cranes stop at 20 m/s.")
        stand_in.site.attach("2", "photo.png", b"\x89PNG", "image/png")
        stand_in.site.attach("3", "ports 2026.csv", b"port,berths\nBusan,40\n")
        yield stand_in


def sync(wiki: StandIn, folder: Path, last: SyncResult | None = None, **more: Any) -> SyncResult:
    given = {"tenant": "acme", "base_url": wiki.url, "space": "ENG", "readers": "everyone", "attachments": "text"}
    settings = section_of(
        Confluence, kind="confluence", **{**given, "max_retries": 1, "max_requests_per_s": 1000, **more}
    )
    result = open_source("eng", settings, folder).sync(last.pages if last else None, last.state if last else {})
    assert result.unaccounted == 0
    return result


def files(result: SyncResult) -> dict[str, dict[str, Any]]:
    return {row["title"].partition(" (")[0]: row for row in result.pages.to_pylist() if "attachment of" in row["title"]}


def test_files_of_pages_are_rows_under_their_readers(wiki: StandIn, tmp_path: Path) -> None:
    result = sync(wiki, tmp_path)
    found = files(result)
    assert set(found) == {"notes.txt", "ports 2026.csv"}
    assert found["notes.txt"]["readers"] == "group:ops"
    assert found["notes.txt"]["body"] == "Cranes stop at 20 m/s."
    assert found["ports 2026.csv"]["url"] == f"{wiki.url}/download/attachments/3/ports%202026.csv"
    assert [why.partition(" of page")[0] for _, why in result.excluded] == ["photo.png"]
    assert (result.seen, len(result.pages), result.failed) == (6, 5, 0)


def test_a_second_sync_fetches_no_file_again_and_follows_restrictions(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.requests.clear()
    wiki.site.restrict("2", groups=["hq"])
    second = sync(wiki, tmp_path, first)
    assert wiki.asked("download") == []
    assert files(second)["notes.txt"]["readers"] == "group:hq"
    assert second.deleted == 0
    assert second.changed == 2


def test_a_file_that_is_gone_goes_and_so_do_those_of_a_deleted_page(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    del wiki.site.hanging.files["3"]
    wiki.site.delete("2")
    second = sync(wiki, tmp_path, first)
    assert set(second.pages["page_id"].to_pylist()) == {"1", "3"}
    assert second.deleted == 3


def test_a_page_whose_files_cannot_be_listed_keeps_them(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.site.unsearchable.add("2")
    wiki.faults.append(broken(None, path="/2/child/attachment"))
    second = sync(wiki, tmp_path, first)
    assert second.pages.equals(first.pages)
    assert [page_id for page_id, _ in second.failures] == ["2"]
    assert "those of the last sync stay" in second.failures[0][1]


def test_files_of_a_space_are_listed_at_once(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.site.attach("1", "new.txt", b"Quays.")
    wiki.site.attach("2", "notes.txt", b"Cranes stop at 18 m/s.")
    wiki.site.edit("3", title="Ports")
    wiki.requests.clear()
    second = sync(wiki, tmp_path, first)
    assert [request.path.rpartition("/")[2] for request in wiki.asked("download")] == ["new.txt", "notes.txt"]
    assert wiki.asked("child") == []
    assert files(second)["notes.txt"]["body"] == "Cranes stop at 18 m/s."
    assert "ports 2026.csv (attachment of Ports)" in second.pages["title"].to_pylist()
    assert second.pages.equals(sync(wiki, tmp_path).pages)


@pytest.mark.parametrize("searches", [True, False])
def test_lists_of_files_are_read_to_their_end(wiki: StandIn, tmp_path: Path, searches: bool) -> None:
    wiki.caps = (1, 1, 1)
    for number in range(5):
        wiki.site.attach("1", f"file {number}.txt", b"Text.")
    if not searches:
        wiki.faults.append(broken(None, 410, "search"))
    assert len(files(sync(wiki, tmp_path))) == 7


def test_links_lead_to_the_site_that_people_see(wiki: StandIn, tmp_path: Path) -> None:
    """Scoped tokens ask by way of api.atlassian.com."""
    site = b'"base": "https://acme.atlassian.net/wiki"'
    told = f'"base": "{wiki.url}"'.encode()
    wiki.faults.append(Fault(lambda _, answer: Answer(200, answer.content.replace(told, site), answer.headers), None))
    urls = sync(wiki, tmp_path).pages["url"].to_pylist()
    assert len(urls) == 5
    assert all(url.startswith("https://acme.atlassian.net/wiki/") for url in urls)


def test_a_file_that_search_does_not_know_is_not_gone(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    wiki.site.unsearchable.add("2")
    wiki.requests.clear()
    second = sync(wiki, tmp_path, first)
    assert second.pages.equals(first.pages)
    assert {request.path for request in wiki.asked("child")} == {"/rest/api/content/2/child/attachment"}


@pytest.mark.parametrize("without", ["search", "containers", "pages as containers"])
def test_where_search_cannot_tell_every_page_is_asked(wiki: StandIn, tmp_path: Path, without: str) -> None:
    first = sync(wiki, tmp_path)
    fault = broken(None, 410, "search")
    if without == "containers":
        fault = Fault(lambda _, answer: Answer(200, answer.content.replace(b'"container"', b'"contained"')), None)
    elif without == "pages as containers":
        space = b'"container": {"key": "ENG", '
        fault = Fault(lambda _, answer: Answer(200, answer.content.replace(b'"container": {', space)), None)
    wiki.faults.append(fault)
    wiki.requests.clear()
    assert sync(wiki, tmp_path, first).pages.equals(first.pages)
    assert len({request.path for request in wiki.asked("child/attachment")}) == 3


def test_files_of_archived_pages_are_asked_for_by_page(wiki: StandIn, tmp_path: Path) -> None:
    wiki.site.archive("3")
    assert set(files(sync(wiki, tmp_path, also=["archived"]))) == {"notes.txt", "ports 2026.csv"}


def test_a_file_without_text_is_read_once(wiki: StandIn, tmp_path: Path) -> None:
    wiki.site.attach("1", "empty.txt", b"  ")
    first = sync(wiki, tmp_path)
    wiki.requests.clear()
    second = sync(wiki, tmp_path, first)
    assert wiki.asked("download") == []
    assert second.excluded == first.excluded
    assert "it is empty" in str(second.excluded)
    wiki.site.attach("1", "empty.txt", b"Not any more.")
    assert "empty.txt" in files(sync(wiki, tmp_path, second))


def test_a_file_that_cannot_be_fetched_fails_alone(wiki: StandIn, tmp_path: Path) -> None:
    wiki.faults.append(broken(None, path="notes"))
    result = sync(wiki, tmp_path)
    assert set(files(result)) == {"ports 2026.csv"}
    assert "cannot be fetched" in result.failures[0][1]


def test_switched_off_the_files_go_and_the_pages_stay(wiki: StandIn, tmp_path: Path) -> None:
    first = sync(wiki, tmp_path)
    second = sync(wiki, tmp_path, first, attachments="none")
    assert set(second.pages["page_id"].to_pylist()) == {"1", "2", "3"}
    assert (second.deleted, second.seen, second.failed) == (2, 3, 0)
    wiki.requests.clear()
    third = sync(wiki, tmp_path, second, attachments="none")
    assert (third.changed, wiki.asked("attachment")) == (0, [])
