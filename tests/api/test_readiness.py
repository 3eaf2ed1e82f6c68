"""When a process may be sent questions: at its start every tenant counts, later any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.api_client import client_of

from rag_serving.api import status as readiness
from rag_serving.api.status import Readiness, TenantState
from rag_serving.artifacts.store import StoreError

ANSWERS = TenantState(None)
UNPUBLISHED = TenantState("nothing is published for tenant 'b' yet")
DAMAGED = TenantState("generation 1 cannot be opened")
FETCHED = TenantState("nothing is published for tenant 'b' yet", fetching="being fetched")
OPENED = TenantState("being opened", is_opening=True)
AWAY = TenantState("the database cannot answer", still_answers=True)


@pytest.mark.parametrize(
    ("other", "is_ready"),
    [(ANSWERS, True), (UNPUBLISHED, True), (DAMAGED, True), (FETCHED, False), (OPENED, False), (AWAY, True)],
)
def test_a_process_that_starts_waits_for_what_is_fetched_or_opened(other: TenantState, is_ready: bool) -> None:
    assert Readiness().of({"a": ANSWERS, "b": other}) is is_ready


@pytest.mark.parametrize("only", [UNPUBLISHED, DAMAGED, FETCHED, OPENED])
def test_a_process_that_can_answer_nobody_is_not_ready(only: TenantState) -> None:
    started = Readiness()
    assert not started.of({"a": only})
    assert started.of({"a": ANSWERS})
    assert not started.of({"a": only})


@pytest.mark.parametrize("later", [UNPUBLISHED, DAMAGED, FETCHED, OPENED])
def test_a_process_that_was_ready_stays_so_while_it_can_answer_anybody(later: TenantState) -> None:
    started = Readiness()
    assert started.of({"a": ANSWERS})
    assert started.of({"a": ANSWERS, "b": later})
    assert not Readiness().of({})


def test_a_disk_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "OPEN_WAIT_S", 0.0)
    assert Readiness().of({"a": ANSWERS, "b": OPENED})


class DatabaseAway:
    """A source whose database stopped answering."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def current(self) -> str:
        raise StoreError("connection refused")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def test_a_database_of_pages_that_is_away_makes_nobody_unready(wiki_home: Path) -> None:
    with client_of(wiki_home) as client:
        assert client.get("/readyz").status_code == 200
        published = client.app.state.service.pipelines["acme"].published  # type: ignore[attr-defined]
        plain = published._source
        published._source = DatabaseAway(plain)
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        assert "cannot be read" in ready.json()["tenants"]["acme"] or "connection" in ready.json()["tenants"]["acme"]
        published._source = plain
        assert client.get("/readyz").json()["tenants"] == {"acme": "ok"}
