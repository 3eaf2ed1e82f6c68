"""Keys of machines over HTTP: what they open, until when, and what is tried with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, bearer, client_of
from support.wiki import configuration

from citelock_governance import api_keys as lookup
from citelock_governance.api_keys import ApiKey, KeyStore, KeyStoreError, new_key
from rag_serving.api.limits import FREE_GUESSES

TENANTS: dict[str, Any] = {"acme": {}, "other": {}}
PUBLIC = "http://127.0.0.1:8088"
NOW = int(time.time())
READER = frozenset({"reader"})
SCOPE = ApiKey("", "acme", "nightly", "", None, frozenset(), READER, None, NOW, NOW + 86_400)
OWN = {"Sec-Fetch-Site": "same-origin", "Origin": PUBLIC}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    with closing(KeyStore(configuration(tmp_path))) as opened:
        yield opened


@pytest.fixture
def client(wiki_home: Path, store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """An app that looks keys up in `store`, and at each request."""
    monkeypatch.setenv("CITELOCK_TOKENS", "{}")
    monkeypatch.setattr(lookup, "FRESH_S", 0)
    serving = {"auth": "tokens", "public_url": PUBLIC, "mcp": True}
    with client_of(wiki_home, tenants=TENANTS, serving=serving) as opened:
        keys_of(opened)._store = store
        yield opened


def keys_of(client: TestClient) -> lookup.KeyLookup:
    found: lookup.KeyLookup = client.app.state.service.authenticator._keys  # type: ignore[attr-defined]
    return found


def made(store: KeyStore, **scope: Any) -> tuple[ApiKey, str]:
    key, written = new_key(replace(SCOPE, **scope))
    store.add(key)
    return key, written


def status(client: TestClient, token: str, path: str = "/v1/models") -> int:
    return client.get(path, headers=bearer(token)).status_code


def test_a_key_opens_what_its_scope_says(client: TestClient, store: KeyStore) -> None:
    _, plain = made(store)
    _, hr = made(store, user="ann", groups=frozenset({"hr"}))
    salary = {"question": "How much is the salary bonus of the broker team?"}
    assert client.post("/v1/ask", json=QUESTION, headers=bearer(plain)).json()["citations"]
    assert not client.post("/v1/ask", json=salary, headers=bearer(plain)).json()["citations"]
    assert client.post("/v1/ask", json=salary, headers=bearer(hr)).json()["citations"]
    assert status(client, plain, "/v1/status") == 403
    assert status(client, made(store, roles=frozenset({"operator"}))[1], "/v1/status") == 200
    assert status(client, plain, "/v1/models?tenant=other") == 403


def test_a_revoked_and_an_expired_key_are_refused_by_the_next_request(client: TestClient, store: KeyStore) -> None:
    key, written = made(store)
    assert status(client, written) == 200
    store.revoke(key)
    assert status(client, written) == 401
    assert status(client, made(store, expires=NOW - 1)[1]) == 401


def test_a_session_that_a_key_began_ends_with_it(client: TestClient, store: KeyStore) -> None:
    key, written = made(store, user="robot")
    assert client.post("/v1/session", json={"token": written}, headers=OWN).status_code == 200
    assert client.get("/v1/session").json()["user"] == "robot"
    store.revoke(key)
    assert client.get("/v1/session").json()["signed_in"] is False


def test_a_key_of_one_address_opens_no_other(client: TestClient, store: KeyStore) -> None:
    _, written = made(store, resource=f"{PUBLIC}/v1/search")
    assert client.post("/v1/search", json={"query": "broker"}, headers=bearer(written)).status_code == 200
    assert status(client, written) == 401
    assert client.post("/v1/session", json={"token": written}, headers=OWN).status_code == 401


def test_parts_of_keys_open_nothing(client: TestClient, store: KeyStore) -> None:
    (key, written), (other, _) = made(store), made(store)
    identifier, secret = key.id, written[-43:]
    wrong = [
        f"ck_{other.id}_{secret}",
        f"ck_{identifier}_{'a' * 43}",
        identifier,
        secret,
        f"ck_{identifier}_{key.digest[:43]}",
    ]
    assert [status(client, token) for token in wrong] == [401] * 5
    assert status(client, f"ck_{'0' * 16}_{secret}") == 401
    for _ in range(FREE_GUESSES):
        status(client, f"ck_{'0' * 16}_{'b' * 43}")
    assert status(client, f"ck_{'1' * 16}_{'b' * 43}") == 429


def test_a_key_of_a_tenant_that_is_gone_opens_nothing(client: TestClient, store: KeyStore) -> None:
    assert status(client, made(store, tenant="gone")[1]) == 401


def test_a_database_that_is_away_keeps_known_keys_for_a_while(
    client: TestClient, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, known), (_, unknown) = made(store), made(store)
    assert status(client, known) == 200

    def away(_: str) -> None:
        raise KeyStoreError("away")

    monkeypatch.setattr(store, "find", away)
    assert status(client, known) == 200
    refused = client.get("/v1/models", headers=bearer(unknown))
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    keys_of(client)._clock = lambda: time.monotonic() + lookup.KEPT_S + 1
    assert status(client, known) == 503


def test_a_key_is_looked_up_at_most_every_two_seconds(
    client: TestClient, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "FRESH_S", 2.0)
    now = [0.0]
    keys_of(client)._clock = lambda: now[0]
    key, written = made(store)
    assert status(client, written) == 200
    store.revoke(key)
    assert status(client, written) == 200
    now[0] += 2.1
    assert status(client, written) == 401
