"""A server with a token of its own asks in the name of its users; nobody else can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.api_client import bearer, client_of
from support.recognized import recognized
from support.wiki import configuration

from rag_serving.api.auth import Authenticator, AuthError, Request
from rag_serving.config.loading import ConfigError

HEADER = "X-OpenWebUI-User-Email"
TOKENS = {
    "webui": {"tenant": "acme", "user_header": HEADER, "groups": ["staff"]},
    "ann": {"tenant": "acme", "user": "ann"},
}


@pytest.fixture
def authenticator(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> Authenticator:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    return Authenticator(configuration(wiki_home, serving={"auth": "tokens"}))


def user_of(authenticator: Authenticator, token: str, headers: dict[str, str]) -> tuple[str | None, frozenset[str]]:
    principal = recognized(authenticator, Request("10.0.0.1", "x", f"Bearer {token}", headers=headers))
    return principal.user, principal.groups


def test_the_header_names_the_user_for_its_token_alone(authenticator: Authenticator) -> None:
    named = {HEADER: "bob@acme.example"}
    assert user_of(authenticator, "webui", named) == ("bob@acme.example", {"staff"})
    assert user_of(authenticator, "ann", named) == ("ann", frozenset())
    assert user_of(authenticator, "webui", {}) == (None, {"staff"})
    assert user_of(authenticator, "webui", {"X-Other-User": "bob"}) == (None, {"staff"})


@pytest.mark.parametrize("name", ["x" * 501, "bob\x00", "bob\nann"])
def test_what_is_no_name_is_refused(authenticator: Authenticator, name: str) -> None:
    with pytest.raises(AuthError, match="does not hold the name of a user"):
        user_of(authenticator, "webui", {HEADER: name})


def test_over_http_the_header_is_found_in_any_case(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    with client_of(wiki_home, serving={"auth": "tokens"}) as client:
        headers = {**bearer("webui"), HEADER.upper(): "bob"}
        assert client.get("/v1/models", headers=headers).status_code == 200
        body = {"question": "What is consumer lag?", "stream": True}
        assert client.post("/v1/ask", json=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "holder", [{"user": "ann", "user_header": HEADER}, {"user_header": "a b"}, {"user_header": ""}]
)
def test_a_token_that_is_not_plain_is_refused(
    wiki_home: Path, monkeypatch: pytest.MonkeyPatch, holder: dict[str, str]
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"t": {"tenant": "acme", **holder}}))
    with pytest.raises(ConfigError, match="CITELOCK_TOKENS is not a JSON object"):
        Authenticator(configuration(wiki_home, serving={"auth": "tokens"}))
