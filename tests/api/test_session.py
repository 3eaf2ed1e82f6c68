"""Signing in on the web page: a cookie is its token's holder, no more and no longer, and only for pages of ours."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from support.api_client import LOCAL, QUESTION, TOKENS, bearer, client_of
from support.signed_in import COOKIE, OWN, cookies, set_cookies, signed_in, value_of, without
from support.wiki import configuration

from rag_serving.access import sessions
from rag_serving.access.sessions import SignInSessions
from rag_serving.api.limits import FREE_GUESSES

TENANTS: dict[str, Any] = {"acme": {}, "other": {}}
SALARY = {"question": "How much is the salary bonus of the broker team?"}


@pytest.fixture
def opened(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TestClient]:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)

    def opened(base_url: str = "http://127.0.0.1:8088", **serving: Any) -> TestClient:
        return client_of(wiki_home, base_url, tenants=TENANTS, serving={"auth": "tokens", **serving})

    return opened


@pytest.fixture
def client(opened: Callable[..., TestClient]) -> TestClient:
    return opened()


def test_who_is_not_signed_in_is_told_how_to(client: TestClient) -> None:
    response = client.get("/v1/session")
    told = response.json()
    assert response.status_code == 200
    assert (told["signed_in"], told["auth"], told["tenant"], told["tenants"], told["roles"], told["csrf"]) == (
        False, "tokens", None, [], [], None,
    )  # fmt: skip
    assert told["limits"]["question_chars"] == 4000
    assert response.headers["Cache-Control"] == "no-store"


def test_a_token_becomes_a_cookie_that_no_script_reads(client: TestClient) -> None:
    response = client.post("/v1/session", json={"token": "hr"}, headers=OWN)
    told = response.json()
    assert (response.status_code, told["signed_in"], told["user"], told["tenant"]) == (200, True, "ann", "acme")
    line = set_cookies(response)[COOKIE]
    assert line.endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")
    assert "hr" not in value_of(line).split(":")
    assert "ann" not in line
    assert told["csrf"] not in line


def test_a_cookie_is_its_tokens_holder(client: TestClient) -> None:
    reads, sends = signed_in(client, "hr")
    assert client.get("/v1/models", headers=reads).status_code == 200
    answer = client.post("/v1/ask", json=SALARY, headers=sends).json()
    assert answer == {**client.post("/v1/ask", json=SALARY, headers=bearer("hr")).json(), **_varying(answer)}
    assert answer["citations"]
    _, other = signed_in(client, "all")
    assert not client.post("/v1/ask", json=SALARY, headers=other).json()["citations"]
    assert client.get("/v1/session", headers=reads).json()["csrf"] == sends["X-Citelock-CSRF"]


def _varying(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("receipt_id", "timings_ms")}


def test_what_is_answered_to_a_cookie_is_kept_by_no_cache(client: TestClient) -> None:
    reads, _ = signed_in(client, "hr")
    headers = client.get("/v1/models", headers=reads).headers
    assert (headers["Cache-Control"], headers["Vary"]) == ("private, no-store", "Cookie")


def test_over_https_the_cookie_is_bound_to_the_host(opened: Callable[..., TestClient]) -> None:
    for client in (opened("https://127.0.0.1:8088"), opened(public_url="https://cite.example")):
        own = {"Sec-Fetch-Site": "same-origin", "Origin": "https://127.0.0.1:8088"}
        response = client.post("/v1/session", json={"token": "hr"}, headers=own)
        client.cookies.clear()
        line = set_cookies(response)[f"__Host-{COOKIE}"]
        assert line.endswith("; Secure")
        assert client.get("/v1/session", headers=cookies((COOKIE, value_of(line)))).json()["signed_in"] is False
        shown = cookies((f"__Host-{COOKIE}", value_of(line)))
        assert client.get("/v1/session", headers=shown).json()["signed_in"] is True


def test_signing_out_lets_the_browser_forget(client: TestClient) -> None:
    reads, sends = signed_in(client, "hr")
    assert client.delete("/v1/session", headers=reads).status_code == 403
    response = client.delete("/v1/session", headers=sends)
    assert response.status_code == 204
    assert set_cookies(response)[COOKIE].startswith(f"{COOKIE}=; Path=/; Max-Age=0;")
    assert client.delete("/v1/session", headers=OWN).status_code == 204


def test_a_token_taken_back_ends_its_sessions(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, sends = signed_in(opened(), "hr")
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"all": {"tenant": "acme"}}))
    later = opened()
    assert later.get("/v1/models", headers=reads).status_code == 401
    refused = later.post("/v1/ask", json=QUESTION, headers=sends)
    assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHENTICATED")
    shown = later.get("/v1/session", headers=reads)
    assert shown.json()["signed_in"] is False
    assert "Max-Age=0" in set_cookies(shown)[COOKIE]


def test_groups_and_roles_are_those_that_the_token_has_now(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sends = signed_in(opened(), "hr")
    holder = {"tenant": "acme", "user": "ann", "roles": ["reader", "operator"]}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"hr": holder}))
    later = opened()
    assert not later.post("/v1/ask", json=SALARY, headers=sends).json()["citations"], "no longer in the group"
    assert later.get("/v1/session", headers=sends).json()["roles"] == ["operator", "reader"]


def test_a_session_ends_and_one_in_use_goes_on_to_its_cap(wiki_home: Path) -> None:
    now = [1_000_000.0]
    config = configuration(wiki_home, serving={"session_hours": 2, "session_max_hours": 5})
    kept = SignInSessions(config, lambda: now[0])
    session = kept.begun("token", token="digest")
    sealed = kept.seal(session)
    assert kept.renewed(session) is None
    now[0] += 3600
    later = kept.renewed(session)
    assert later is not None
    assert (later.expires - session.begun, later.csrf) == (3 * 3600, session.csrf)
    now[0] += 3599
    assert kept.read(sealed) == session
    now[0] += 1
    assert kept.read(sealed) is None
    assert kept.read(kept.seal(later)) == later
    for _ in range(10):
        later = kept.renewed(later) or later
        now[0] += 1200
    assert later.expires == session.begun + 5 * 3600


def test_a_session_that_is_used_goes_on(opened: Callable[..., TestClient]) -> None:
    client = opened()
    reads, sends = signed_in(client, "hr")
    assert not set_cookies(client.get("/v1/session", headers=reads))
    client.app.state.service.authenticator.sessions._clock = lambda: time.time() + 6 * 3600  # type: ignore[attr-defined]
    assert "Max-Age=43" in set_cookies(client.get("/v1/session", headers=reads))[COOKIE]
    (line,) = set_cookies(client.get("/v1/models", headers=reads)).values()
    assert client.get("/v1/models", headers=cookies((COOKIE, value_of(line)))).status_code == 200
    answered = client.post("/v1/ask", json=QUESTION, headers=sends)
    assert COOKIE in set_cookies(answered)
    assert set_cookies(client.delete("/v1/session", headers=sends))[COOKIE].startswith(f"{COOKIE}=;")


# Cookies that nobody was given


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_no_bit_of_a_cookie_can_be_turned(wiki_home: Path, place: int, bit: int) -> None:
    kept = SignInSessions(configuration(wiki_home))
    sealed = kept.seal(kept.begun("token", token="digest")).encode()
    place %= len(sealed)
    altered = sealed[:place] + bytes([sealed[place] ^ 1 << bit]) + sealed[place + 1 :]
    assert kept.read(altered.decode("latin-1")) is None


@pytest.mark.parametrize("value", ["", "v1:", "x" * 100_000, "null", "é", "v1:AAAA", "\\", '"', "a=b", "../../etc"])
def test_a_made_up_cookie_is_nobody(client: TestClient, value: str) -> None:
    shown = {"Cookie": f"{COOKIE}={value}".encode()}
    assert client.get("/v1/models", headers=shown).status_code == 401  # type: ignore[arg-type]
    assert client.get("/v1/session", headers=shown).json()["signed_in"] is False  # type: ignore[arg-type]


def test_a_truncated_cookie_and_one_of_another_installation_are_nobody(client: TestClient, tmp_path: Path) -> None:
    reads, _ = signed_in(client, "hr")
    whole = reads["Cookie"].partition("=")[2]
    for end in random.Random(1).sample(range(len(whole)), 20):
        assert client.get("/v1/models", headers=cookies((COOKIE, whole[:end]))).status_code == 401
    foreign = SignInSessions(configuration(tmp_path))
    session = asyncio.run(client.app.state.service.authenticator.session_of("hr"))  # type: ignore[attr-defined]
    assert client.get("/v1/models", headers=cookies((COOKIE, foreign.seal(session)))).status_code == 401
    flow = client.app.state.service.authenticator.sessions.seal_flow({"state": "x"})  # type: ignore[attr-defined]
    assert client.get("/v1/models", headers=cookies((COOKIE, flow))).status_code == 401


def test_of_two_cookies_neither_is_believed(client: TestClient) -> None:
    mine, _ = signed_in(client, "hr")
    value = mine["Cookie"].partition("=")[2]
    assert client.get("/v1/models", headers=cookies((COOKIE, value), (COOKIE, value))).status_code == 401
    assert client.get("/v1/models", headers=cookies(("theme", "dark"), (COOKIE, value))).status_code == 200


def test_a_bearer_token_wins_over_a_cookie(client: TestClient) -> None:
    reads, _ = signed_in(client, "hr")
    assert client.get("/v1/session", headers={**reads, **bearer("all")}).json()["user"] is None
    for shown in (bearer("wrong"), {"Authorization": ""}, {"Authorization": "Basic eDp5"}, {"Authorization": "hr"}):
        assert client.get("/v1/models", headers={**reads, **shown}).status_code == 401
    assert client.post("/v1/ask", json=QUESTION, headers={**reads, **bearer("all")}).status_code == 200, "no CSRF asked"


# Requests that other sites' pages send


@pytest.mark.parametrize(
    "change",
    [
        {"X-Citelock-CSRF": None},
        {"X-Citelock-CSRF": "0" * 32},
        {"X-Citelock-CSRF": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": None, "Origin": None},
        {"Sec-Fetch-Site": None, "Origin": "null"},
        {"Sec-Fetch-Site": None, "Origin": "http://127.0.0.1:8089"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://[bad"},
    ],
)
@pytest.mark.parametrize("path", ["/v1/ask", "/v1/search", "/v1/feedback", "/v1/chat/completions", "/nowhere"])
def test_a_forged_request_is_refused_unread(client: TestClient, path: str, change: dict[str, str | None]) -> None:
    _, sends = signed_in(client, "hr")
    forged = {**without(sends, change), **{name: value for name, value in change.items() if value is not None}}
    refused = client.post(path, content=b"{not json", headers=forged)
    assert refused.status_code == 403
    assert "CSRF" in refused.text.upper() or "permission_error" in refused.text


@pytest.mark.parametrize("shown", [{"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://127.0.0.1:8088"}])
def test_one_word_of_the_browser_is_enough(client: TestClient, shown: dict[str, str]) -> None:
    _, sends = signed_in(client, "hr")
    assert client.post("/v1/ask", json=QUESTION, headers={**without(sends, OWN), **shown}).status_code == 200
    told = {**sends, "Origin": "null"}  # of a page without referrer
    assert client.post("/v1/ask", json=QUESTION, headers=told).status_code == 200


def test_nobody_is_signed_in_by_another_site(client: TestClient) -> None:
    for headers in ({}, {"Origin": "https://evil.example"}, {**OWN, "Sec-Fetch-Site": "cross-site"}):
        refused = client.post("/v1/session", json={"token": "hr"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "CSRF")
        assert not set_cookies(refused)
    form = client.post("/v1/session", content='{"token":"hr"}', headers={"Content-Type": "text/plain"})
    assert form.status_code == 403


def test_a_page_of_another_site_makes_this_machine_do_nothing(wiki_home: Path) -> None:
    with client_of(wiki_home) as client:
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
            {"Origin": "https://evil.example", "Authorization": "Bearer x"},
        ):
            for kind in ("application/json", "text/plain"):
                content = json.dumps(QUESTION)
                refused = client.post("/v1/ask", content=content, headers={**headers, "Content-Type": kind})
                assert (refused.status_code, refused.json()["code"]) == (403, "CROSS_SITE")
        assert client.post("/v1/ask", json=QUESTION).status_code == 200, "a program"
        assert client.post("/v1/ask", json=QUESTION, headers=OWN).status_code == 200
        embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        assert client.get("/v1/models", headers=embedded).status_code == 403
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert client.get("/v1/models", headers=link).status_code == 200


def test_a_cookie_s_session_is_not_read_from_elsewhere(client: TestClient) -> None:
    reads, _ = signed_in(client, "hr")
    for site in ("cross-site", "same-site"):
        shown = {**reads, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors", "Origin": "https://evil.example"}
        assert client.get("/v1/session", headers=shown).status_code == 403


def test_an_operator_s_cookie_opens_reports(opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch) -> None:
    holder = {"tenant": "acme", "user": "olga", "roles": ["reader", "operator"]}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"op": holder, "hr": {"tenant": "acme"}}))
    client = opened()
    assert client.get("/v1/reports", headers=signed_in(client, "op")[0]).status_code == 200
    assert client.get("/v1/reports", headers=signed_in(client, "hr")[0]).status_code == 403


# Limits


def test_signing_in_counts_as_a_guess(client: TestClient) -> None:
    def guess(token: str) -> int:
        return client.post("/v1/session", json={"token": token}, headers=OWN).status_code

    assert guess("all") == 200
    assert [guess(f"guess {n}") for n in range(FREE_GUESSES)] == [401] * FREE_GUESSES
    assert guess("hr") == 429, "a right guess is not told from a wrong"
    assert client.get("/v1/models", headers=bearer("hr")).status_code == 429
    assert guess("all") == 200


def test_a_token_s_limits_are_the_same_shown_and_signed_in_with(opened: Callable[..., TestClient]) -> None:
    client = opened(rate_limit_per_minute=4)
    reads, _ = signed_in(client, "hr")
    again, _ = signed_in(client, "hr")
    shown = [reads, bearer("hr"), again, bearer("hr"), reads, bearer("hr")]
    assert [client.get("/v1/models", headers=each).status_code for each in shown] == [200] * 4 + [429] * 2
    assert client.get("/v1/models", headers=bearer("all")).status_code == 200


def test_what_is_sent_to_sign_in_is_bounded(client: TestClient) -> None:
    assert client.post("/v1/session", json={"token": "x" * 20_000}, headers=OWN).status_code == 413
    assert client.post("/v1/session", json={"token": "x" * 10_000}, headers=OWN).status_code == 400
    for body in ({}, {"token": ""}, {"token": 5}, {"token": "a\0b"}, {"token": "x", "y": 1}, [], None):
        assert client.post("/v1/session", json=body, headers=OWN).status_code == 400


def test_another_tenant_is_not_asked_by_a_cookie(client: TestClient) -> None:
    reads, sends = signed_in(client, "hr")
    assert client.get("/v1/models?tenant=other", headers=reads).status_code in (200, 403)
    assert client.post("/v1/ask?tenant=other", json=QUESTION, headers=sends).status_code == 403
    told = client.get("/v1/session?tenant=other", headers=reads)
    assert (told.json()["signed_in"], set_cookies(told)) == (False, {})


def test_no_token_holder_is_told_which_tenants_there_are(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = {"tenant": "acme", "user_header": "X-User"}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"chat": holder}))
    for more in ({"X-User": "x" * 1000}, {"X-User": "a\x7fb"}, {}):
        told = opened().get("/v1/session?tenant=other", headers={**bearer("chat"), **more}).json()
        assert (told["signed_in"], told["tenants"]) == (False, [])
        told = opened().get("/v1/session", headers={**bearer("chat"), **more}).json()
        assert told["tenants"] == []


# This machine's own reader


def test_in_loopback_mode_nobody_signs_in(wiki_home: Path) -> None:
    with client_of(wiki_home) as client:
        told = client.get("/v1/session").json()
        assert (told["signed_in"], told["auth"], told["tenant"], told["tenants"]) == (True, "loopback", "acme", [])
        assert told["roles"] == ["auditor", "editor", "operator", "reader"]
        assert client.post("/v1/session", json={"token": "x"}, headers=OWN).json()["code"] == "NOT_NEEDED"
    with client_of(wiki_home, tenants=TENANTS) as client:
        told = client.get("/v1/session").json()
        assert (told["signed_in"], told["tenant"], told["tenants"]) == (True, None, ["acme", "other"])
        chosen = client.get("/v1/session?tenant=other").json()
        assert (chosen["tenant"], chosen["tenants"]) == ("other", ["acme", "other"])
    with client_of(wiki_home, "http://evil.example", tenants=TENANTS) as client:
        told = client.get("/v1/session").json()
        assert (told["signed_in"], told["tenants"], LOCAL[0]) == (False, [], "127.0.0.1")


def test_a_session_too_long_for_a_cookie_is_refused(wiki_home: Path) -> None:
    from rag_serving.access.principals import Principal

    kept = SignInSessions(configuration(wiki_home))
    rng = random.Random(2)
    few = frozenset(f"{rng.getrandbits(128):032x}" for _ in range(100))
    session = kept.begun("oidc", settings="settings", principal=Principal("acme", "ann", few))
    assert kept.read(kept.seal(session)) == session
    many = frozenset(f"{rng.getrandbits(128):032x}" for _ in range(400))
    with pytest.raises(sessions.SessionTooLongError):
        kept.seal(kept.begun("oidc", settings="settings", principal=Principal("acme", "ann", many)))
