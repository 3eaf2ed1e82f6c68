"""Signing in at an OpenID Connect provider: who is signed in, and what a provider, or a stranger, may not achieve."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from fastapi.testclient import TestClient
from httpx import Response
from support.api_client import QUESTION, TOKENS, bearer, client_of
from support.signed_in import COOKIE, OWN, cookies, set_cookies, value_of
from support.stand_in_provider import CLIENT, SECRET, StandInProvider, private_key, served_provider

from rag_serving.access import bounded_fetch as key_sets
from rag_serving.api.limits import FREE_GUESSES
from rag_serving.config.loading import ConfigError

TENANTS: dict[str, Any] = {"acme": {}, "other": {}}
PUBLIC = "http://127.0.0.1:8088"
FLOW = "citelock_sign_in"
SALARY = {"question": "How much is the salary bonus of the broker team?"}


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    with served_provider() as server:
        yield server


@dataclass
class Browser:
    """Somebody's browser before an app and a provider."""

    client: TestClient
    provider: StandInProvider

    def begin(self, back: str | None = None) -> tuple[str, dict[str, str]]:
        """Where the provider sends the reader back to, and the cookies of the way."""
        query = f"?{urlencode({'return': back})}" if back is not None else ""
        response = self.client.get(f"/v1/session/oidc{query}", follow_redirects=False)
        assert response.status_code == 302, response.text
        self.client.cookies.clear()
        location = response.headers["location"]
        assert location.startswith(f"{self.provider.url}/authorize?")
        there = httpx.get(location, follow_redirects=False, verify=False)
        return there.headers["location"], cookies((FLOW, value_of(set_cookies(response)[FLOW])))

    def come_back(self, location: str, kept: dict[str, str], **change: str | None) -> Response:
        parts = urlsplit(location)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        query = {name: value for name, value in {**query, **change}.items() if value is not None}
        response = self.client.get(f"{parts.path}?{urlencode(query)}", headers=kept, follow_redirects=False)
        self.client.cookies.clear()
        return response

    def sign_in(self, back: str | None = None) -> Response:
        return self.come_back(*self.begin(back))

    def headers(self) -> dict[str, str]:
        """What a page of ours sends for who signed in."""
        response = self.sign_in()
        assert response.status_code == 303, response.text
        shown = cookies((COOKIE, value_of(set_cookies(response)[COOKIE])))
        return {**shown, **OWN, "X-Citelock-CSRF": self.client.get("/v1/session", headers=shown).json()["csrf"]}


@pytest.fixture
def opened(wiki_home: Path, provider: StandInProvider, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Browser]:
    monkeypatch.setenv("OIDC_SECRET", SECRET)

    def opened(public_url: str = PUBLIC, groups: str = "claims", **more: Any) -> Browser:
        oidc = {"issuer": provider.url, "client_id": CLIENT, "client_secret_env": "OIDC_SECRET", **more}
        serving = {"auth": "tokens", "public_url": public_url, "groups": groups, "oidc": oidc}
        return Browser(client_of(wiki_home, tenants=TENANTS, serving=serving), provider)

    return opened


@pytest.fixture
def browser(opened: Callable[..., Browser]) -> Browser:
    return opened()


def refused(response: Response, status: int) -> bool:
    """Whether nobody was signed in, and was told so on a page that runs nothing."""
    assert response.status_code == status, response.text
    assert COOKIE not in set_cookies(response)
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert response.headers["Cache-Control"] == "no-store"
    assert "Traceback" not in response.text
    return "<h1>Not signed in</h1>" in response.text


# Who is signed in


def test_a_reader_signs_in_and_asks_as_who_the_provider_says(browser: Browser) -> None:
    told = browser.client.get("/v1/session").json()
    assert (told["signed_in"], told["oidc"]) == (False, {"label": "Sign in"})
    headers = browser.headers()
    told = browser.client.get("/v1/session", headers=headers).json()
    assert (told["user"], told["tenant"], told["roles"]) == ("ann", "acme", ["reader"])
    assert browser.client.post("/v1/ask", json=SALARY, headers=headers).json()["citations"]
    browser.provider.user = {"sub": "bob", "tenant": "acme"}
    assert not browser.client.post("/v1/ask", json=SALARY, headers=browser.headers()).json()["citations"]


@pytest.mark.parametrize("kid", ["r1", "e1"])
def test_rsa_and_elliptic_signatures_are_believed(browser: Browser, kid: str) -> None:
    browser.provider.signs_with = kid
    assert browser.sign_in().status_code == 303


def test_a_public_client_and_one_with_its_secret_in_the_body(
    opened: Callable[..., Browser], provider: StandInProvider
) -> None:
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert opened().sign_in().status_code == 303
    provider.metadata, provider.secret = {}, None
    assert opened(client_secret_env=None).sign_in().status_code == 303


def test_keys_that_the_provider_changed_are_read_again(
    browser: Browser, provider: StandInProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert browser.sign_in().status_code == 303
    provider.kids, provider.signs_with = ["r2"], "r2"
    assert refused(browser.sign_in(), 403), "not so soon after the last look"
    monkeypatch.setattr(key_sets, "PAUSE_S", 0)
    assert browser.sign_in().status_code == 303
    assert provider.asked.count("/.well-known/openid-configuration") == 1
    asked = provider.asked.count("/keys")
    assert browser.sign_in().status_code == 303
    assert provider.asked.count("/keys") == asked


def test_tokens_of_programs_count_beside_the_provider(
    opened: Callable[..., Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opened().client.get("/v1/models", headers=bearer("hr")).status_code == 401
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    assert opened().client.get("/v1/models", headers=bearer("hr")).status_code == 200


def test_other_settings_end_the_sessions_of_the_provider(opened: Callable[..., Browser]) -> None:
    headers = opened().headers()
    assert opened().client.get("/v1/models", headers=headers).status_code == 200
    for change in ({"roles": {"x": ["editor"]}}, {"claims": {"user": "email"}}, {"tenant": "acme"}):
        assert opened(**change).client.get("/v1/models", headers=headers).status_code == 401


# Claims


@pytest.mark.parametrize(
    ("settings", "claims", "tenant", "roles"),
    [
        ({}, {"tenant": "other"}, "other", ["reader"]),
        ({"tenant": "other"}, {"tenant": None}, "other", ["reader"]),
        ({"tenant": "other"}, {"tenant": "acme"}, "acme", ["reader"]),
        ({"tenants": {"0-1": "other"}}, {"tenant": "0-1"}, "other", ["reader"]),
        ({"claims": {"tenant": None}, "tenant": "acme"}, {"tenant": "nobody"}, "acme", ["reader"]),
        ({"claims": {"roles": "realm.roles"}, "roles": {"ed": ["editor"]}}, {"realm": {"roles": ["ed", "operator"]}},
         "acme", ["editor", "reader"]),
        ({"claims": {"roles": "r"}, "roles": {"all": ["editor", "operator"]}}, {"r": "all"},
         "acme", ["editor", "operator", "reader"]),
        ({"roles": {"x": ["operator"]}}, {"roles": ["x", "operator"]}, "acme", ["reader"]),
    ],
)  # fmt: skip
def test_claims_become_a_principal_as_configured(
    opened: Callable[..., Browser], settings: Any, claims: Any, tenant: str, roles: list[str]
) -> None:
    browser = opened(**settings)
    browser.provider.claims = claims
    told = browser.client.get("/v1/session", headers=browser.headers()).json()
    assert (told["tenant"], told["roles"]) == (tenant, roles)


@pytest.mark.parametrize(
    ("settings", "claims"),
    [
        ({}, {"tenant": "unknown"}),
        ({}, {"tenant": None}),
        ({}, {"tenant": ["acme"]}),
        ({}, {"tenant": ""}),
        ({"tenant": "acme"}, {"tenant": "unknown"}),
        ({"tenant": "acme"}, {"tenant": 5}),
        ({}, {"tenant": "ACME"}),
        ({"claims": {"user": "email"}}, {}),
        ({"claims": {"user": "email"}}, {"email": "a@b.example"}),
        ({"claims": {"user": "email"}}, {"email": "a@b.example", "email_verified": False}),
        ({"claims": {"user": "email"}}, {"email": "a@b.example", "email_verified": "true"}),
        ({"claims": {"user": "name"}}, {"name": "x" * 501}),
        ({"claims": {"user": "name"}}, {"name": "a\nb"}),
        ({"claims": {"user": "name"}}, {"name": {"first": "a"}}),
        ({}, {"groups": {"hr": True}}),
        ({}, {"groups": ["hr", None]}),
        ({}, {"groups": [["hr"]]}),
        ({}, {"groups": ["g"] * 2001}),
        ({"claims": {"roles": "roles"}}, {"roles": 5}),
    ],
)
def test_odd_claims_let_nobody_in(opened: Callable[..., Browser], settings: Any, claims: Any) -> None:
    browser = opened(**settings)
    browser.provider.claims = claims
    response = browser.sign_in()
    assert refused(response, 403)
    assert "acme" not in response.text


def test_too_many_groups_for_a_cookie_are_told(browser: Browser) -> None:
    browser.provider.claims = {"groups": [secrets.token_hex(16) for _ in range(400)]}
    response = browser.sign_in()
    assert refused(response, 403)
    assert "more groups" in response.text


# Tokens that are not believed


def now(seconds: float) -> int:
    return int(time.time() + seconds)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": 5},
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"aud": [CLIENT, "another"]},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"azp": "another"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": now(-120)},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": now(36_000)},
        {"iat": now(36_000)},
        {"iat": None},
        {"sub": None},
        {"sub": 5},
    ],
    ids=lambda claims: ",".join(claims),  # the same in every process: times differ from one to the next
)
def test_a_token_for_others_or_another_time_is_refused(browser: Browser, claims: dict[str, Any]) -> None:
    browser.provider.claims = claims
    assert refused(browser.sign_in(), 403)


def test_clocks_may_differ_a_little_and_several_audiences_name_us(browser: Browser) -> None:
    browser.provider.claims = {"exp": now(-30), "nbf": now(30), "aud": [CLIENT, "another"], "azp": CLIENT}
    assert browser.sign_in().status_code == 303


def test_no_signature_but_a_known_key_s_is_believed(browser: Browser, provider: StandInProvider) -> None:
    def answer(token: Callable[[str], str]) -> Response:
        location, kept = browser.begin()
        (asked,) = (query for query in provider._codes.values() if query["state"] in location)
        provider.token = token(asked["nonce"])
        response = browser.come_back(location, kept)
        provider.token = None
        return response

    def altered(nonce: str) -> str:
        header, claims, signature = provider.id_token(nonce).split(".")
        return f"{header}.{claims}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"

    def another_key(nonce: str) -> str:
        provider.signs_with = "r9"
        token = provider.id_token(nonce)
        provider.signs_with = "r1"
        return token

    def under_a_known_name(nonce: str) -> str:
        import jwt

        return jwt.encode(provider._usual(nonce), private_key("r9"), "RS256", {"kid": "r1", "jwk": {"kty": "oct"}})

    def named_elsewhere(nonce: str) -> str:
        import jwt

        header = {"kid": "../../r1", "jku": f"{provider.url}/keys"}
        return jwt.encode(provider._usual(nonce), private_key("r1"), "RS256", header)

    for token in (
        provider.unsigned,
        provider.confused,
        altered,
        another_key,
        under_a_known_name,
        named_elsewhere,
        lambda _: "x" * 100_000,
        lambda _: "a.b.c",
        lambda _: "",
        lambda nonce: provider.id_token(nonce)[:-50],
    ):
        assert refused(answer(token), 403)
        browser.client.app.state.guesses._wrong.clear()  # type: ignore[attr-defined]
    assert answer(provider.id_token).status_code == 303


def test_a_short_key_and_one_for_something_else_sign_nothing(browser: Browser, provider: StandInProvider) -> None:
    provider.kids, provider.signs_with = ["short1"], "short1"
    assert refused(browser.sign_in(), 403)


# The way there and back


def test_a_way_back_counts_once_and_for_who_began_it(browser: Browser, provider: StandInProvider) -> None:
    location, kept = browser.begin()
    assert refused(browser.client.get(f"{location}&iss=x".removeprefix(PUBLIC), headers=kept), 400)
    for change in ({"state": "x"}, {"state": None}, {"state": ""}):
        assert refused(browser.come_back(location, kept, **change), 400)
    assert refused(browser.come_back(location, {}), 400)
    other_location, other_kept = browser.begin()
    assert refused(browser.come_back(location, other_kept), 400)
    response = browser.client.get(f"{location}&state=y".removeprefix(PUBLIC), headers=kept, follow_redirects=False)
    assert refused(response, 400)
    assert "/token" not in provider.asked
    response = browser.come_back(location, kept)
    assert response.status_code == 303
    assert "Max-Age=0" in set_cookies(response)[FLOW]
    assert refused(browser.come_back(location, kept), 403), "the provider takes a code once"
    assert browser.come_back(other_location, other_kept).status_code == 303


def test_another_s_code_is_of_no_use(browser: Browser) -> None:
    """The verifier of the browser that began does not fit the code of another."""
    theirs, _ = browser.begin()
    code = parse_qs(urlsplit(theirs).query)["code"][0]
    assert refused(browser.come_back(*browser.begin(), code=code), 403)


@pytest.mark.parametrize(
    "change",
    [{"iss": "https://evil.example"}, {"iss": None}, {"error": "access_denied"}, {"code": None}, {"code": ""},
     {"code": "x" * 5000}],
    ids=lambda change: str(change)[:40],
)  # fmt: skip
def test_a_mixed_up_or_refused_way_back_asks_nothing(
    browser: Browser, provider: StandInProvider, change: dict[str, str | None]
) -> None:
    assert refused(browser.come_back(*browser.begin(), **change), 403)
    assert "/token" not in provider.asked


def test_a_sign_in_that_takes_too_long_is_begun_anew(browser: Browser) -> None:
    location, kept = browser.begin()
    browser.client.app.state.service.authenticator.sessions._clock = lambda: time.time() + 601  # type: ignore[attr-defined]
    assert refused(browser.come_back(location, kept), 400)


def test_a_session_s_cookie_is_no_way_back(browser: Browser) -> None:
    location, _ = browser.begin()
    shown = browser.headers()["Cookie"].partition("=")[2]
    assert refused(browser.come_back(location, cookies((FLOW, shown))), 400)


@pytest.mark.parametrize("back", ["/", "/a/r-12", "/p/eng.12?x=1#Rolling-Back", "/documents", "/status", "/?q=a%20b"])
def test_a_reader_comes_back_to_a_page_of_ours(browser: Browser, back: str) -> None:
    assert browser.sign_in(back).headers["location"] == PUBLIC + back


@pytest.mark.parametrize(
    "back",
    ["//evil.example", "\\evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "https://evil.example",
     "/\t/evil.example", "/%09/evil.example", " //evil.example", "///evil.example", "/a//evil.example",
     "http:evil.example",
     "//evil.example/a/x", "/a/../../evil", "/.//evil.example", "evil.example", "", "/a/\r\nSet-Cookie: x=1", "/a/é",
     "/v1/session/oidc", "/v1/ask", "/a/" + "x" * 2000, "//[", "/a/%2e%2e//evil.example", "@evil.example", "?x", "#x"],
)  # fmt: skip
def test_nobody_is_sent_elsewhere(browser: Browser, back: str) -> None:
    assert browser.sign_in(back).headers["location"] == f"{PUBLIC}/"


def test_the_host_that_a_request_names_is_sent_nowhere(
    opened: Callable[..., Browser], provider: StandInProvider
) -> None:
    browser = opened("https://cite.example/kb")
    asked = browser.client.get("/v1/session/oidc", headers={"Host": "evil.example"}, follow_redirects=False)
    query = parse_qs(urlsplit(asked.headers["location"]).query)
    assert query["redirect_uri"] == ["https://cite.example/kb/v1/session/oidc/callback"]
    line = set_cookies(asked)[f"__Host-{FLOW}"]
    assert line.endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure")
    assert provider.url not in line


def test_no_page_and_no_log_shows_a_code_or_a_token(
    browser: Browser, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    browser.provider.claims = {"aud": "another"}
    location, kept = browser.begin()
    code = parse_qs(urlsplit(location).query)["code"][0]
    response = browser.come_back(location, kept)
    assert refused(response, 403)
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    lines = "\n".join([*ours, *capfd.readouterr(), response.text])
    hidden = [code, SECRET, kept["Cookie"].partition("=")[2], browser.provider.forms[-1]["code_verifier"]]
    assert not [secret for secret in hidden if secret in lines]
    assert response.headers["Referrer-Policy"] == "no-referrer"


# A provider that is down, slow, or odd


@pytest.mark.parametrize(
    "page",
    [(500, b"{}"), (503, b""), (200, b"<html>"), (200, b"[]"), (200, b"{}"), (404, b"{}"), (302, b"{}"),
     (200, b"[" * 100_000), (200, b'{"x": "' + b"y" * 300_000 + b'"}'), (200, b'{"issuer": "https://evil.example"}')],
    ids=lambda page: f"{page[0]} {page[1][:12]!r}",
)  # fmt: skip
def test_without_usable_metadata_a_reader_is_told_so(
    browser: Browser, provider: StandInProvider, page: tuple[int, bytes]
) -> None:
    provider.pages["/.well-known/openid-configuration"] = page
    response = browser.client.get("/v1/session/oidc", follow_redirects=False)
    assert refused(response, 503)
    assert "does not answer" in response.text
    assert browser.client.get("/v1/session").status_code == 200
    assert "/elsewhere" not in provider.asked


@pytest.mark.parametrize(
    "metadata",
    [{"issuer": "http://127.0.0.1:1"}, {"token_endpoint": "http://evil.example/token"}, {"jwks_uri": "file:///etc/passwd"},
     {"authorization_endpoint": "javascript:alert(1)"}, {"token_endpoint": None}, {"jwks_uri": ["x"]}],
    ids=str,
)  # fmt: skip
def test_metadata_that_leads_elsewhere_is_not_used(browser: Browser, metadata: dict[str, Any]) -> None:
    browser.provider.metadata = metadata
    assert refused(browser.client.get("/v1/session/oidc", follow_redirects=False), 503)


@pytest.mark.parametrize("path", ["/token", "/keys"])
@pytest.mark.parametrize("page", [(500, b"{}"), (200, b"no"), (200, b"x" * 300_000)], ids=["500", "no JSON", "large"])
def test_a_provider_that_fails_after_the_way_back_is_told(browser: Browser, path: str, page: tuple[int, bytes]) -> None:
    browser.provider.pages[path] = page
    assert refused(browser.sign_in(), 503)


@pytest.mark.parametrize("path", ["/token", "/keys", "/.well-known/openid-configuration"])
@pytest.mark.parametrize("fault", ["hang_s", "drip"])
def test_a_slow_provider_is_waited_for_as_long_as_configured(
    opened: Callable[..., Browser], provider: StandInProvider, path: str, fault: str
) -> None:
    browser = opened(timeout_s=0.3)
    if fault == "drip":
        provider.drip.add(path)
    else:
        provider.hang_s[path] = 20
    begun = time.monotonic()
    if "well-known" in path:
        response = browser.client.get("/v1/session/oidc", follow_redirects=False)
    else:
        response = browser.sign_in()
    assert refused(response, 503)
    assert time.monotonic() - begun < 15
    provider.drip.clear()


def test_a_provider_that_went_away_ends_no_session(browser: Browser, provider: StandInProvider) -> None:
    headers = browser.headers()
    for path in ("/token", "/keys", "/.well-known/openid-configuration"):
        provider.pages[path] = (500, b"")
    assert browser.client.post("/v1/ask", json=QUESTION, headers=headers).status_code == 200


def test_made_up_codes_are_slowed(browser: Browser) -> None:
    statuses = [browser.come_back(*browser.begin(), code="made-up").status_code for _ in range(FREE_GUESSES + 2)]
    assert statuses == [403] * FREE_GUESSES + [429] * 2
    assert browser.provider.asked.count("/token") == FREE_GUESSES


def test_without_a_provider_there_is_no_way_to_one(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    client = client_of(wiki_home, tenants=TENANTS, serving={"auth": "tokens"})
    for path in ("/v1/session/oidc", "/v1/session/oidc/callback?code=x&state=y"):
        assert client.get(path, follow_redirects=False).status_code == 404
    assert json.loads(client.get("/v1/session").text)["oidc"] is None


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"auth": "loopback"}, "set serving.auth to tokens"),
        ({"public_url": None}, "set serving.public_url"),
        ({"public_url": "http://cite.example"}, "with https"),
        ({"oidc": {"scopes": ["profile"]}}, "openid"),
        ({"oidc": {"tenant": "unknown"}}, "not configured"),
        ({"oidc": {"tenants": {"x": "unknown"}}}, "not configured"),
        ({"oidc": {"client_secret_env": "NOT_SET_ANYWHERE"}}, "NOT_SET_ANYWHERE"),
        ({"oidc": {"issuer": "http://id.example"}}, "https"),
        ({"oidc": {"roles": {"x": ["admin"]}}}, "roles"),
    ],
    ids=str,
)
def test_settings_that_would_let_in_too_many_are_refused(wiki_home: Path, serving: dict[str, Any], words: str) -> None:
    oidc = {"issuer": "https://id.example", "client_id": CLIENT, **serving.get("oidc", {})}
    usual = {"auth": "tokens", "public_url": "https://cite.example"}
    with pytest.raises(ConfigError, match=words):
        client_of(wiki_home, tenants=TENANTS, serving={**usual, **serving, "oidc": oidc})
