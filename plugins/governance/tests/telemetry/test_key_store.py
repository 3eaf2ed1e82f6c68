"""Keys of machines in the installation's database: what is kept, and what somebody who writes there cannot do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from support.wiki import configuration

from citelock_governance.api_keys import KEYS, METADATA, ApiKey, KeyStore, KeyStoreError, new_key, parts_of
from rag_serving.telemetry.tables import open_engine

NOW = int(time.time())
SCOPE = ApiKey(
    id="",
    tenant="acme",
    name="nightly",
    digest="",
    user="ann",
    groups=frozenset({"hr"}),
    roles=frozenset({"reader"}),
    resource=None,
    created=NOW,
    expires=NOW + 1000,
)


@pytest.fixture
def store(url: str | None, tmp_path: Path) -> Iterator[KeyStore]:
    engine = open_engine(url, tmp_path / "serving.db")
    METADATA.drop_all(engine)
    engine.dispose()
    with closing(KeyStore(configuration(tmp_path, telemetry={"url": url}))) as opened:
        yield opened


def written(store: KeyStore, **changed: Any) -> ApiKey:
    key, _ = new_key(replace(SCOPE, **changed))
    store.add(key)
    return key


def rows(store: KeyStore) -> list[dict[str, Any]]:
    with store._database._engine.begin() as connection:
        return [dict(row) for row in connection.execute(select(KEYS)).mappings()]


def test_a_key_is_found_as_it_was_made_and_its_secret_is_nowhere(store: KeyStore) -> None:
    key, text = new_key(SCOPE)
    store.add(key)
    parts = parts_of(text)
    assert parts is not None
    found = store.find(parts[0])
    assert found == key
    assert found.holds(parts[1])
    assert not found.holds(parts[1][:-1] + "_")
    assert parts[1] not in str(rows(store))
    assert store.list("acme") == [key]
    assert store.list("other") == []


def test_a_revoked_key_stays_revoked_as_of_the_first_time(store: KeyStore) -> None:
    key = written(store)
    store.revoke(key)
    found = store.find(key.id)
    assert found is not None
    assert found.revoked is not None
    assert not found.is_in_force(NOW)
    store._clock = lambda: NOW + 500
    store.revoke(key)
    assert store.find(key.id) == found


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "other"},
        {"user": "bob"},
        {"user": None},
        {"groups": ["hr", "board"]},
        {"roles": ["operator", "reader"]},
        {"expires": 4_000_000_000},
        {"digest": "0" * 64},
        {"resource": "https://other.example"},
        {"name": "another"},
        {"signature": ""},
    ],
    ids=str,
)
def test_who_can_write_the_database_widens_no_key(store: KeyStore, change: dict[str, Any]) -> None:
    key = written(store)
    with store._database._engine.begin() as connection:
        connection.execute(update(KEYS).where(KEYS.c.id == key.id).values(**change))
    assert store.find(key.id) is None
    assert store.list("acme") == []


def test_who_can_write_the_database_adds_no_key_nor_moves_a_signature(store: KeyStore) -> None:
    key = written(store)
    row = rows(store)[0]
    with store._database._engine.begin() as connection:
        connection.execute(insert(KEYS), {**row, "id": "0" * 16})
    assert store.find("0" * 16) is None
    store.revoke(key)
    with store._database._engine.begin() as connection:
        connection.execute(update(KEYS).where(KEYS.c.id == key.id).values(revoked=None))
    assert store.find(key.id) is None, "neither is one that is no longer said to be revoked"


def test_keys_of_another_secret_open_nothing(
    store: KeyStore, url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = written(store)
    monkeypatch.setenv("CITELOCK_SECRET", "another secret of 32 characters..")
    with closing(KeyStore(configuration(tmp_path, telemetry={"url": url}))) as other:
        assert other.find(key.id) is None


def test_looking_makes_no_database_and_one_that_is_away_is_told(tmp_path: Path) -> None:
    with closing(KeyStore(configuration(tmp_path))) as store:
        assert store.find("0" * 16) is None
        assert store.list("acme") == []
    assert not (tmp_path / "serving.db").exists()
    away = configuration(tmp_path, telemetry={"url": "postgresql://nobody@127.0.0.1:9/none"})
    with closing(KeyStore(away)) as store, pytest.raises(KeyStoreError, match="cannot be read"):
        store.find("0" * 16)


@pytest.mark.parametrize(
    "text",
    ["", "ck_", "ck_" + "0" * 16, "ck_" + "0" * 16 + "_" + "a" * 42, "ck_" + "0" * 16 + "_" + "a" * 44,
     "ck_" + "G" * 16 + "_" + "a" * 43, "ck_" + "0" * 16 + "-" + "a" * 43, "CK_" + "0" * 16 + "_" + "a" * 43,
     "ck_" + "0" * 16 + "_" + "ä" * 43, "ck_" + "0" * 16 + "_" + "'" * 43],
)  # fmt: skip
def test_what_is_not_written_as_a_key_is_none(text: str) -> None:
    assert parts_of(text) is None
