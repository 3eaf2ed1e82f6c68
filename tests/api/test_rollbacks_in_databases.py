"""An operator's rollback over HTTP where the pointer is in a database: servers without a folder follow it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, bearer, client_of
from support.index_backends import REMOTE, Backends, Settings
from support.waiting import wait_until
from support.wiki import PASSAGES, configuration, publish

from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.artifacts.store import Store
from rag_serving.indexes.catalog import published_generation

ROLLBACK = "/v1/generations/rollback"
TENANTS: dict[str, Any] = {"acme": {}, "other": {}}
TOKENS = {
    "reader": {"tenant": "acme", "user": "rita"},
    "boss": {"tenant": "acme", "user": "bea", "roles": ["operator"]},
    "other": {"tenant": "other", "user": "oz", "roles": ["operator"]},
}


@dataclass(frozen=True)
class Published:
    """Two generations in a database: first and second, and the machine that built them."""

    name: str
    built: Path
    settings: Settings
    first: str
    second: str

    def pointer(self) -> str | None:
        """Return the generation that the database names."""
        return published_generation(Store(self.built), "acme", configuration(self.built, **self.settings))


@pytest.fixture(params=REMOTE)
def published(
    request: pytest.FixtureRequest, backends: Backends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Published:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    monkeypatch.setenv(SECRET_ENV, "a secret of all machines")
    built = tmp_path / "built"
    backend = backends.get(request.param)
    settings = backend.settings(built)
    config = configuration(built, **settings)
    found = []
    for passages in (PASSAGES, PASSAGES[1:]):
        found.append(publish(built, passages))
        backend.publish(config, "acme", found[-1])
    return Published(request.param, built, settings, *found)


@pytest.fixture
def servers(published: Published, tmp_path: Path) -> Iterator[list[TestClient]]:
    """Two machines that serve the database and have no generation in a folder."""
    more: Settings = {"serving": {"auth": "tokens"}, "tenants": TENANTS, **published.settings}
    first = client_of(tmp_path / "serves", audit={"mode": "required"}, **more)
    with first, client_of(tmp_path / "serves-too", **more) as second:
        yield [first, second]


def answered_from(client: TestClient) -> str:
    return str(client.post("/v1/ask", json=QUESTION, headers=bearer("reader")).json()["generation"])


def test_every_server_answers_from_the_generation_that_an_operator_chose(
    published: Published, servers: list[TestClient], tmp_path: Path
) -> None:
    here, there = servers
    assert [answered_from(each) for each in servers] == [published.second] * 2
    done = here.post(ROLLBACK, json={}, headers=bearer("boss"))
    assert done.status_code == 200, done.text
    assert done.json() == {"tenant": "acme", "previous": published.second, "current": published.first}
    assert answered_from(here) == published.pointer() == published.first
    wait_until(lambda: answered_from(there) == published.first)
    again = there.post(ROLLBACK, json={"generation": published.second}, headers=bearer("boss"))
    assert again.json() == {"tenant": "acme", "previous": published.first, "current": published.second}
    assert answered_from(there) == published.pointer() == published.second
    assert not (tmp_path / "serves" / "tenants" / "acme" / "generations").exists()


def test_what_was_never_published_there_and_other_tenants_generations_are_refused(
    published: Published, servers: list[TestClient]
) -> None:
    only_in_the_folder = publish(published.built, PASSAGES[2:])
    for token, body, status in (
        ("boss", {"generation": only_in_the_folder}, 409),
        ("boss", {"generation": "../other"}, 409),
        ("other", {}, 409),
        ("other", {"generation": published.first}, 409),
        ("reader", {}, 403),
    ):
        refused = servers[0].post(ROLLBACK, json=body, headers=bearer(token))
        assert refused.status_code == status, (token, body, refused.text)
    assert published.pointer() == published.second


def test_while_the_database_is_away_nothing_moves_and_no_address_is_told(
    published: Published, servers: list[TestClient], backends: Backends
) -> None:
    assert answered_from(servers[0]) == published.second
    server = backends.servers[published.name]
    server.stop()
    try:
        refused = servers[0].post(ROLLBACK, json={}, headers=bearer("boss"))
    finally:
        server.start()
    assert (refused.status_code, refused.json()["code"]) == (503, "UNAVAILABLE"), refused.text
    assert "127.0.0.1" not in refused.text
    wait_until(lambda: published.pointer() == published.second)
    done = servers[0].post(ROLLBACK, json={}, headers=bearer("boss"))
    assert done.json()["current"] == published.first
