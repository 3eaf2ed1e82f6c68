"""An operator's rollback over HTTP, on one of several servers whose home is in an object store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import ADDRESS, LOCAL, QUESTION, bearer
from support.s3_server import faulty
from support.waiting import wait_until
from support.wiki import PASSAGES, configuration, publish

from citelock_scale.object_home.home import object_home
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config

ROLLBACK, TENANT = "/v1/generations/rollback", "tenants/acme"
TOKENS = {
    "reader": {"tenant": "acme", "user": "rita"},
    "boss": {"tenant": "acme", "user": "bea", "roles": ["operator"]},
}


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))


def config_of(name: str, settings: dict[str, Any], tmp_path: Path) -> Config:
    """Return the configuration of a machine of that name; it polls the store only on request."""
    store = {"poll_s": 3600, **settings}
    url = store.pop("url")
    return configuration(url, object_store={**store, "cache": str(tmp_path / name)}, serving={"auth": "tokens"})


def published(config: Config) -> list[str]:
    """Publish two generations from a machine that builds; return their ids."""
    home = object_home(config)
    assert home
    generations = []
    for passages in (PASSAGES, PASSAGES[1:]):
        with home.writing(TENANT):
            generations.append(publish(home.home, passages))
    return generations


@contextmanager
def server(config: Config) -> Iterator[TestClient]:
    """Yield a server that has fetched the publication."""
    with TestClient(create_app(config), ADDRESS, client=LOCAL, raise_server_exceptions=False) as client:
        wait_until(lambda: answered_from(client) != "")
        yield client


def answered_from(client: TestClient) -> str:
    return str(client.post("/v1/ask", json=QUESTION, headers=bearer("reader")).json()["generation"])


def test_the_other_servers_and_the_machine_that_builds_follow(settings: dict[str, Any], tmp_path: Path) -> None:
    builder, here, there = (config_of(name, settings, tmp_path) for name in ("builder", "here", "there"))
    first, second = published(builder)
    with server(here) as client, server(there) as beside:
        assert answered_from(client) == answered_from(beside) == second
        done = client.post(ROLLBACK, json={}, headers=bearer("boss"))
        assert (done.status_code, done.json()) == (200, {"tenant": "acme", "previous": second, "current": first})
        assert answered_from(client) == first
        service = beside.app.state.service  # type: ignore[attr-defined]
        service.follower.fetch()
        service.follow()
        assert answered_from(beside) == first
        back = beside.post(ROLLBACK, json={"generation": second}, headers=bearer("boss"))
        assert (back.status_code, back.json()["previous"], back.json()["current"]) == (200, first, second)
    home = object_home(builder)
    assert home
    home.refresh(TENANT)
    assert Store(home.home).current("acme") == second


def test_while_another_machine_writes_nothing_moves(settings: dict[str, Any], tmp_path: Path) -> None:
    builder, here = (config_of(name, settings, tmp_path) for name in ("builder", "here"))
    _, second = published(builder)
    home = object_home(builder)
    assert home
    with server(here) as client, home.writing(TENANT):
        refused = client.post(ROLLBACK, json={}, headers=bearer("boss"))
        assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT"), refused.text
        assert refused.json()["message"] == "another machine writes to this tenant; try again when it has ended"
        assert answered_from(client) == second
    home.refresh(TENANT)
    assert Store(home.home).current("acme") == second


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_while_the_store_is_away_nothing_moves(settings: dict[str, Any], s3: str, tmp_path: Path) -> None:
    builder = config_of("builder", settings, tmp_path)
    first, second = published(builder)
    with faulty(s3) as proxy:
        here = config_of("here", {**settings, "endpoint": proxy.url}, tmp_path)
        with server(here) as client:
            proxy.fault = lambda _method, _path: "500"
            refused = client.post(ROLLBACK, json={}, headers=bearer("boss"))
            assert (refused.status_code, refused.json()["code"]) == (503, "UNAVAILABLE"), refused.text
            assert "127.0.0.1" not in refused.text
            assert answered_from(client) == second
            proxy.fault = lambda _method, _path: ""
            assert client.post(ROLLBACK, json={}, headers=bearer("boss")).json()["current"] == first
