"""The client against a stand-in of both flavors: pages to the end, waits as told, blames the right thing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_faults import Answer, Fault, broken, cut, emptied, poisoned, slow, throttled
from sources.stand_in_site import page

from rag_assets.sources.base import SourceError
from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.transport import AccessRefused, AtlassianTransport, ServerFault
from rag_serving.config.sources import Auth, BasicAuth, BearerAuth, NoAuth

ALL = {"spaceKey": "ENG", "type": "page", "status": "current", "limit": 200, "expand": "version"}


@pytest.fixture
def pages() -> int:
    return 7


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(wiki: StandIn, waits: list[float]) -> Iterator[ConfluenceClient]:
    with open_client(wiki.url, waits) as opened:
        yield opened


def open_client(url: str, waits: list[float], auth: Auth | None = None, **more: Any) -> ConfluenceClient:
    transport = AtlassianTransport(url, auth or NoAuth(), more.pop("timeout_s", 5))
    return ConfluenceClient(url, transport, sleep=waits.append, **more)


def listed(client: ConfluenceClient) -> list[str]:
    return [entry["id"] for entry in client.collect("rest/api/content", ALL)]


@pytest.mark.parametrize("cap", [1, 2, 3, 7, 8])
def test_a_collection_is_read_to_its_end_whatever_the_server_caps(
    wiki: StandIn, client: ConfluenceClient, cap: int
) -> None:
    wiki.caps = (cap, cap, cap)
    assert listed(client) == [str(number) for number in range(1, 8)]


def test_an_empty_page_ends_a_collection_though_a_link_says_more() -> None:
    with StandIn("datacenter", caps=(2, 2, 2)) as wiki, open_client(wiki.url, []) as client:
        wiki.site.put(*(page(number) for number in range(1, 8)))
        wiki.faults.append(emptied(after=4, times=None))
        assert listed(client) == ["1", "2", "3", "4"]


def test_an_empty_page_before_the_end_is_asked_for_again(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.caps = (2, 2, 2)
    wiki.faults.append(emptied())
    assert listed(client) == ["1", "2", "3", "4", "5", "6", "7"]


def test_a_server_that_loops_is_found_out(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.caps = (2, 2, 2)
    first = wiki.answer.__func__  # type: ignore[attr-defined]

    def same(request: Any, authorization: str | None) -> Answer:
        params = {name: value for name, value in request.params.items() if name not in ("start", "cursor")}
        answer: Answer = first(wiki, type(request)(request.path, params), authorization)
        return answer

    wiki.answer = same  # type: ignore[method-assign]
    with pytest.raises(SourceError, match="again and again"):
        listed(client)


@pytest.mark.parametrize("status", [429, 503, 403])
def test_throttling_is_waited_out_as_told(
    wiki: StandIn, client: ConfluenceClient, waits: list[float], status: int
) -> None:
    wiki.faults.append(throttled(3, "7", status))
    assert len(listed(client)) == 7
    assert len(waits) == 3
    assert all(7 <= wait <= 8 for wait in waits)


def test_a_date_to_retry_after_is_understood(wiki: StandIn, client: ConfluenceClient, waits: list[float]) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=30)
    wiki.faults.append(throttled(1, format_datetime(moment, usegmt=True)))
    listed(client)
    assert 25 < waits[0] < 32


def test_a_spent_rate_limit_is_throttling_without_a_time(
    wiki: StandIn, client: ConfluenceClient, waits: list[float]
) -> None:
    wiki.faults.append(throttled(1, None, 403, X_RateLimit_Remaining="0"))
    assert len(listed(client)) == 7
    assert len(waits) == 1


def test_waits_grow_and_differ(wiki: StandIn, client: ConfluenceClient, waits: list[float]) -> None:
    wiki.faults.append(throttled(5, "soon"))
    listed(client)
    assert len(set(waits)) == 5
    assert all(wait <= 0.5 * 2**tried for tried, wait in enumerate(waits))


def test_endless_throttling_ends_and_says_that_the_sync_can_go_on(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.faults.append(throttled(99, "1"))
    with pytest.raises(SourceError, match="throttled; run the sync again later"):
        listed(client)
    assert len(wiki.requests) == 6


def test_a_pause_of_hours_is_not_waited_for(wiki: StandIn, client: ConfluenceClient, waits: list[float]) -> None:
    wiki.faults.append(throttled(1, "7200"))
    with pytest.raises(SourceError, match="throttled"):
        listed(client)
    assert waits == []


@pytest.mark.parametrize("fault", [broken(4), broken(2, 502), cut(2)])
def test_passing_failures_are_tried_again(wiki: StandIn, client: ConfluenceClient, fault: Fault) -> None:
    wiki.faults.append(fault)
    assert len(listed(client)) == 7


def test_a_slow_answer_is_asked_for_again(wiki: StandIn) -> None:
    wiki.faults.append(slow(5))
    with open_client(wiki.url, [], timeout_s=1) as client:
        assert len(listed(client)) == 7


def test_failures_that_stay_are_the_requests_fault(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.faults.append(broken(None))
    with pytest.raises(ServerFault, match="answered 500"):
        listed(client)


@pytest.mark.parametrize(
    ("status", "error"), [(404, AccessRefused), (410, AccessRefused), (400, AccessRefused), (401, SourceError)]
)
def test_a_refusal_is_not_tried_again(
    wiki: StandIn, client: ConfluenceClient, status: int, error: type[SourceError]
) -> None:
    wiki.faults.append(broken(None, status))
    with pytest.raises(error, match=str(status)):
        listed(client)
    assert len(wiki.requests) == 1


def test_a_web_page_is_not_taken_for_an_answer(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.faults.append(Fault(lambda *_: Answer(200, b"<html>Log in</html>", {"Content-Type": "text/html"})))
    with pytest.raises(SourceError, match="web page, not JSON; check base_url and auth"):
        listed(client)


def test_a_site_that_is_not_there_says_so() -> None:
    waits: list[float] = []
    with open_client("http://127.0.0.1:9", waits, max_retries=2) as client, pytest.raises(SourceError) as caught:
        listed(client)
    assert "check base_url and network" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(waits) == 2


@pytest.mark.parametrize("auth", [BasicAuth(kind="basic"), BearerAuth(kind="bearer")])
def test_signing_in(wiki: StandIn, monkeypatch: pytest.MonkeyPatch, auth: BasicAuth | BearerAuth) -> None:
    wiki.require(auth.kind)
    monkeypatch.setenv("CONFLUENCE_USER", USER)
    monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
    with open_client(wiki.url, [], auth) as client:
        assert len(listed(client)) == 7
    monkeypatch.setenv("CONFLUENCE_TOKEN", "wrong")
    with open_client(wiki.url, [], auth) as client, pytest.raises(SourceError, match="not signed in") as caught:
        listed(client)
    assert "wrong" not in str(caught.value)


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONFLUENCE_TOKEN", raising=False)
    with pytest.raises(SourceError, match="CONFLUENCE_TOKEN is not set"):
        AtlassianTransport("http://127.0.0.1:9", BearerAuth(kind="bearer"), 1)


def test_credentials_stay_with_the_site_whatever_a_link_says() -> None:
    with StandIn("datacenter", caps=(3, 3, 3)) as wiki, open_client(wiki.url, []) as client:
        wiki.site.put(*(page(number) for number in range(1, 8)))
        answer = wiki.page

        def elsewhere(request: Any, found: Any, show: Any) -> Answer:
            content = answer(request, found, show).content
            return Answer(200, content.replace(b"/rest/api/content?", b"http://evil.example/rest/api/content?"))

        wiki.page = elsewhere  # type: ignore[method-assign]
        assert len(listed(client)) == 7


def test_a_batch_is_one_request(wiki: StandIn, client: ConfluenceClient) -> None:
    batch = client.by_ids(["1", "3", "5"], "body.storage,version")
    assert list(batch.found) == ["1", "3", "5"]
    assert len(wiki.requests) == 1
    assert batch.found["3"]["_links"]["base"] == wiki.url


def test_one_bad_page_is_found_by_halving(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.faults.append(poisoned("4"))
    batch = client.by_ids([str(number) for number in range(1, 8)], "body.storage")
    assert sorted(batch.found) == ["1", "2", "3", "5", "6", "7"]
    assert list(batch.faulty) == ["4"]
    assert len(wiki.requests) < 25


def test_a_page_that_may_not_be_read_is_refused_alone(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.site.forbidden.add("2")
    batch = client.by_ids(["1", "2", "3"], "body.storage")
    assert (sorted(batch.found), list(batch.refused)) == (["1", "3"], ["2"])


def test_without_search_pages_are_fetched_one_by_one(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.faults.append(broken(None, 410, "search"))
    for _ in range(2):
        assert len(client.by_ids(["1", "2", "3"], "version").found) == 3
    assert len(wiki.asked("search")) == 1


def test_a_failing_site_is_not_asked_for_every_page(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.faults.append(broken(None))
    with pytest.raises(SourceError, match="pages in a row failed"):
        client.by_ids([str(number) for number in range(1, 200)], "version")
    assert len(wiki.requests) < 120


def test_an_attachment_is_listed_and_downloaded(wiki: StandIn, client: ConfluenceClient) -> None:
    wiki.site.attach("1", "a b.txt", b"bytes \xff", "application/octet-stream")
    files = list(client.collect("rest/api/content/1/child/attachment", {"expand": "version", "limit": 50}))
    assert [(file["title"], file["extensions"]["fileSize"]) for file in files] == [("a b.txt", 7)]
    wiki.faults.append(throttled(1, "1"))
    assert client.download("http://evil.example" + files[0]["_links"]["download"]) == b"bytes \xff"
    wiki.site.forbidden.add("1")
    with pytest.raises(AccessRefused):
        client.download(files[0]["_links"]["download"])


def test_requests_keep_to_a_rate_that_sources_of_a_site_share(wiki: StandIn, waits: list[float]) -> None:
    with open_client(wiki.url, waits, per_second=4) as one, open_client(wiki.url, waits, per_second=4) as other:
        for client in (one, other) * 5:
            client.get("rest/api/content/1", {})
    assert len(waits) == 6
    assert waits == sorted(waits)
    assert 1.0 < waits[-1] < 1.6


def test_a_site_that_limits_its_rate_is_waited_for(wiki: StandIn) -> None:
    wiki.per_second = 3
    wiki.caps = (1, 1, 1)
    transport = AtlassianTransport(wiki.url, NoAuth(), 5)
    with ConfluenceClient(wiki.url, transport) as client:
        assert len(listed(client)) == 7
    assert len(wiki.requests) > 8
