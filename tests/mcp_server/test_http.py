"""The official client over streamable HTTP, at the door of the API: the same callers, the same limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client
from support.api_client import QUESTION, bearer
from support.mcp_calls import Talk, talk, talk_over_http
from support.running import running
from support.wiki import SALARIES, configuration

from rag_serving.api.app import MAX_BODY_BYTES, create_app
from rag_serving.config.loading import ConfigError
from rag_serving.mcp.reading import NOTHING

PUBLIC = "https://citelock.acme.example"
TOKENS = {
    "all": {"tenant": "acme"},
    "hr": {"tenant": "acme", "user": "ann", "groups": ["hr"]},
    "editor": {"tenant": "acme", "user": "eve", "roles": ["editor"]},
    "bound": {"tenant": "acme", "resource": f"{PUBLIC}/mcp"},
    "elsewhere": {"tenant": "acme", "resource": "https://other.example/mcp"},
    "other": {"tenant": "other"},
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


@pytest.fixture(scope="module")
def local(wiki_home: Path) -> Iterator[str]:
    with running(create_app(configuration(wiki_home, serving={"mcp": True}))) as address:
        yield address


@pytest.fixture(scope="module")
def secured(wiki_home: Path) -> Iterator[str]:
    """A server that asks for tokens, and lets a caller stream one answer at a time."""
    serving = {"mcp": True, "auth": "tokens", "public_url": PUBLIC, "streams": 8}
    tenants: dict[str, Any] = {"acme": {"requests_at_once": 0}, "other": {}}  # answers overlap
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
        with running(create_app(configuration(wiki_home, serving=serving, tenants=tenants))) as address:
            yield address


def as_caller(address: str, token: str, work: Talk[Any], **options: Any) -> Any:
    return talk_over_http(f"{address}/mcp", bearer(token), work, **options)


def post(address: str, headers: dict[str, str] | None = None, body: Any = LIST) -> httpx.Response:
    return httpx.post(f"{address}/mcp", json=body, headers={**HEADERS, **(headers or {})}, timeout=30)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_asks_over_http_and_hears_the_stages(local: str, mode: str) -> None:
    stages: list[str] = []

    async def note(*told: Any) -> None:
        stages.append(str(told[2]))

    async def work(client: Client) -> Any:
        return (await client.call_tool("ask", QUESTION, progress_callback=note)).structured_content

    assert talk(f"{local}/mcp", work, mode=mode)["status"] == "answered"
    assert "search" in {stage.partition(":")[0] for stage in stages}


def test_the_protocol_is_the_stateless_one(local: str) -> None:
    async def work(client: Client) -> str:
        return client.protocol_version

    assert talk(f"{local}/mcp", work) == "2026-07-28"
    begun = post(local, body={**LIST, "method": "initialize", "params": INITIALIZE})
    assert begun.status_code == 200
    assert "mcp-session-id" not in begun.headers


INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_each_token_reads_what_it_may(secured: str) -> None:
    async def read(client: Client) -> str:
        return str((await client.call_tool("fetch", {"id": "14"})).content[0].text)

    assert SALARIES in as_caller(secured, "hr", read)
    assert as_caller(secured, "all", read).endswith(NOTHING)
    assert SALARIES not in as_caller(secured, "other", read)


def test_tools_that_write_are_for_editors(secured: str) -> None:
    async def names(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    async def write(client: Client) -> str:
        return str((await client.call_tool("reindex_with_context", {})).content[0].text)

    writing = {"generate_context", "reindex_with_context"}
    assert as_caller(secured, "editor", names) - as_caller(secured, "hr", names) == writing
    assert as_caller(secured, "hr", write) == "Unknown tool: reindex_with_context"


@pytest.mark.parametrize("token", [None, "unknown", "elsewhere"])
def test_who_may_not_ask_is_refused(secured: str, token: str | None) -> None:
    refused = post(secured, bearer(token) if token else {})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


def test_a_token_of_one_address_opens_no_other(secured: str) -> None:
    assert post(secured, bearer("bound")).status_code == 200
    asked = httpx.post(f"{secured}/v1/ask", json=QUESTION, headers=bearer("bound"))
    signed_in = httpx.post(f"{secured}/v1/session", json={"token": "bound"}, headers={"Origin": PUBLIC})
    assert (asked.status_code, signed_in.status_code) == (401, 401)


def test_a_bound_token_needs_the_address_that_people_use(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"bound": TOKENS["bound"]}))
    with pytest.raises(ConfigError, match="public_url"):
        create_app(configuration(wiki_home, serving={"auth": "tokens"}))


def test_the_web_pages_cookie_opens_nothing(secured: str) -> None:
    page = {"Origin": PUBLIC, "Sec-Fetch-Site": "same-origin"}
    session = httpx.post(f"{secured}/v1/session", json={"token": "hr"}, headers=page)
    assert session.json()["signed_in"], session.text
    cookie = {"Cookie": session.headers["set-cookie"].partition(";")[0], "X-Citelock-CSRF": session.json()["csrf"]}
    assert httpx.get(f"{secured}/v1/session", headers=cookie).json()["signed_in"], "the cookie is good for the page"
    assert post(secured, {**page, **cookie}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8088", "Origin": "http://evil.example:8088"},
    ],
)
def test_a_page_of_another_site_is_refused(local: str, headers: dict[str, str]) -> None:
    assert post(local, headers).status_code == 403


def test_another_sites_page_with_a_token_is_refused(secured: str) -> None:
    assert post(secured, {**bearer("all"), "Origin": "https://evil.example"}).status_code == 403
    assert post(secured, {**bearer("all"), "Origin": PUBLIC}).status_code == 200


def test_only_posts_are_answered(local: str) -> None:
    for method in ("GET", "DELETE", "PUT"):
        assert httpx.request(method, f"{local}/mcp", headers=HEADERS).status_code == 405


@pytest.mark.parametrize("body", ["[", "[]", "null", "7", '{"jsonrpc": "2.0"}', "[" * 100_000, '{"id": 1e999}'])
def test_what_is_no_request_is_an_error(local: str, body: str) -> None:
    for version in ("2025-06-18", "2026-07-28", "1999-01-01", "x" * 5000):
        headers = {**HEADERS, "MCP-Protocol-Version": version, "Content-Type": "application/json"}
        answered = httpx.post(f"{local}/mcp", content=body, headers=headers)
        assert 400 <= answered.status_code < 500, (version, answered.text)


def test_a_body_is_bounded(local: str) -> None:
    params = {"name": "ask", "arguments": {"question": "a" * MAX_BODY_BYTES}}
    assert post(local, body={**LIST, "method": "tools/call", "params": params}).status_code == 413


def test_a_caller_has_so_many_answers_at_once(secured: str) -> None:
    async def work(client: Client) -> list[bool]:
        refused: list[bool] = []

        async def ask() -> None:
            result = await client.call_tool("ask", QUESTION)
            refused.append(result.is_error and "streamed to one caller" in result.content[0].text)

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(ask)
        return refused

    told = as_caller(secured, "all", work)
    assert len(told) == 8
    assert True in told
    assert False in told
    assert as_caller(secured, "all", work).count(False) >= 1, "slots come back"


def test_requests_of_a_token_are_limited(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"all": TOKENS["all"]}))
    serving = {"mcp": True, "auth": "tokens", "rate_limit_per_minute": 3}
    with running(create_app(configuration(wiki_home, serving=serving))) as address:
        assert [post(address, bearer("all")).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_nothing_is_served_where_it_is_not_asked_for(wiki_home: Path) -> None:
    with running(create_app(configuration(wiki_home))) as address:
        assert post(address).status_code == 404


def test_without_the_package_a_line_says_what_to_install(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_serving.plugins.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'citelock\[mcp\]'"):
        create_app(configuration(wiki_home, serving={"mcp": True}))
