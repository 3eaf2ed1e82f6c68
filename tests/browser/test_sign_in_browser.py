"""Signing in with a real browser: it keeps the cookie from scripts and other sites, and says who sends what."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from support.api_client import QUESTION, TOKENS
from support.running import running
from support.stand_in_provider import CLIENT, SECRET, StandInProvider, served_provider
from support.wiki import configuration

from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser

ASK = f"""async ([url, headers]) => (await fetch(url + "/v1/ask", {{method: "POST", credentials: "include", headers,
  body: JSON.stringify({json.dumps(QUESTION)})}})).status"""
FROM_ELSEWHERE = """async ([url, method]) => {
  try { await fetch(url, {method, mode: "no-cors", credentials: "include", body: method == "POST" ? "{}" : undefined}) }
  catch (error) { return String(error) }
  return "sent" }"""


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    """A provider of another site than the app: for a browser `localhost` and 127.0.0.1 are two."""
    with served_provider() as server:
        server.host = "localhost"
        server.pages["/elsewhere"] = (200, b"<!doctype html><title>elsewhere</title>")
        yield server


@pytest.fixture
def address(wiki_home: Path, provider: StandInProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    oidc = {"issuer": provider.url, "client_id": CLIENT, "client_secret_env": "OIDC_SECRET"}
    serving = {"auth": "tokens", "public_url": f"http://127.0.0.1:{port}", "oidc": oidc}
    with running(create_app(configuration(wiki_home, tenants={"acme": {}, "other": {}}, serving=serving)), port) as url:
        yield url


def told(page: Page) -> dict[str, Any]:
    content: dict[str, Any] = page.evaluate("async () => (await fetch('/v1/session')).json()")
    return content


def statuses(page: Page, path: str) -> list[int]:
    """What a path answers to this page from now on."""
    seen: list[int] = []
    page.on("response", lambda response: seen.append(response.status) if path in response.url else None)
    return seen


def test_a_reader_signs_in_at_the_provider_and_no_other_site_speaks_for_him(
    page: Page, address: str, provider: StandInProvider
) -> None:
    page.goto(f"{address}/v1/session/oidc?return=/documents")
    assert page.url == f"{address}/documents"
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("citelock_session", True, "Strict")
    assert page.evaluate("document.cookie") == ""
    session = told(page)
    assert (session["user"], session["tenant"]) == ("ann", "acme")
    headers = {"Content-Type": "application/json"}
    assert page.evaluate(ASK, ["", headers]) == 403
    assert page.evaluate(ASK, ["", {**headers, "X-Citelock-CSRF": session["csrf"]}]) == 200

    page.goto(f"{provider.url}/elsewhere")
    asked, looked = statuses(page, "/v1/ask"), statuses(page, "/v1/models")
    assert page.evaluate(FROM_ELSEWHERE, [f"{address}/v1/ask", "POST"]) == "sent"
    assert page.evaluate(FROM_ELSEWHERE, [f"{address}/v1/models", "GET"]) == "sent"
    assert (asked, looked) == ([401], [401]), "the browser sends no cookie"

    page.goto(f"{address}/status")
    assert told(page)["signed_in"] is True
    assert page.evaluate(
        "async csrf => (await fetch('/v1/session', {method: 'DELETE', headers: {'X-Citelock-CSRF': csrf}})).status",
        session["csrf"],
    ) == 204  # fmt: skip
    assert told(page)["signed_in"] is False
    assert page.context.cookies() == []


def test_a_token_is_signed_in_with_from_our_page_alone(page: Page, address: str, provider: StandInProvider) -> None:
    sign_in = """async url => (await fetch(url + "/v1/session", {method: "POST", body: '{"token": "hr"}',
      headers: {"Content-Type": "application/json"}})).status"""
    page.goto(address)
    assert page.evaluate(sign_in, "") == 200
    assert told(page)["user"] == "ann"
    page.context.clear_cookies()
    page.goto(f"{provider.url}/elsewhere")
    seen = statuses(page, "/v1/session")
    assert page.evaluate(FROM_ELSEWHERE, [f"{address}/v1/session", "POST"]) == "sent"
    assert seen == [403]
    page.set_content(f"""<form method="post" enctype="text/plain" action="{address}/v1/session">
      <input name='{{"token": "hr", "x' value='"}}'><button>Win</button></form>""")
    page.click("button")
    assert "CSRF" in page.content()
    assert page.context.cookies() == []


def test_no_page_elsewhere_uses_a_server_of_this_machine(
    page: Page, wiki_home: Path, provider: StandInProvider
) -> None:
    with running(create_app(configuration(wiki_home))) as address:
        page.goto(f"{provider.url}/elsewhere")
        seen = statuses(page, "/v1/")
        for path, method in (("/v1/ask", "POST"), ("/v1/models", "GET"), ("/v1/session", "DELETE")):
            page.evaluate(FROM_ELSEWHERE, [address + path, method])
        assert seen
        assert set(seen) <= {403}
        page.goto(address)
        assert page.evaluate(ASK, ["", {"Content-Type": "application/json"}]) == 200
