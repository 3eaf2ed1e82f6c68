"""What was forgotten or erased is given from no running server's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.command_line import QUESTION, run, write_config
from support.server_process import serving
from support.wiki import configuration, embedder, publish

from citelock_governance.erasing import TenantErasure
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.caching.memory import FRESH_S, ForgottenMarks, mark_forgotten
from rag_serving.config.loading import Config

ANN, BOB = Principal("acme", "ann"), Principal("acme", "bob")
OTHER = "May I restart a consumer while partitions are under-replicated?"


def settings(home: Path, **more: Any) -> Config:
    return configuration(home, cache={"semantic": True}, serving={"auth": "tokens"}, **more)


def opened(config: Config) -> Pipeline:
    pipeline = Pipeline.open(config, "acme", embedder())
    pipeline.watch()
    return pipeline


@pytest.fixture
def home(tmp_path: Path) -> Path:
    publish(tmp_path)
    return tmp_path


@pytest.fixture
def asked(home: Path) -> Iterator[Pipeline]:
    """A pipeline that ann and bob have asked."""
    pipeline = opened(settings(home))
    for person in (ANN, BOB):
        assert pipeline.ask(person, QUESTION).status == "answered"
    assert held(pipeline) == (2, 2, 1)
    yield pipeline
    pipeline.close()


def held(pipeline: Pipeline) -> tuple[int, int, int]:
    """How many vectors, answers that are given again and earlier answers there are."""
    memory = pipeline.memory
    assert memory.earlier is not None
    return len(memory.vectors), len(memory.repeated.cache.entries), len(memory.earlier.kept.entries)


def is_hit(pipeline: Pipeline, person: Principal = ANN) -> bool:
    return "cached" in pipeline.ask(person, QUESTION).flags


def test_a_running_server_gives_no_answer_again_after_citelock_forget(
    copied_wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, copied_wiki, "cache: {semantic: true}\n")
    with serving(config, monkeypatch, processes=1) as server:

        def flags() -> list[str]:
            answer = httpx.post(f"{server.url}/v1/ask", json={"question": QUESTION}, timeout=60).json()
            assert answer["status"] == "answered"
            return list(answer["flags"])

        assert [flags(), flags()] == [[], ["cached"]]
        code, told, _ = run("forget", "--user", "ann", "--config", config)
        assert (code, told.startswith("acme: deleted ")) == (0, True)
        assert [flags(), flags()] == [[], ["cached"]]


def test_all_of_the_tenants_memory_goes_with_the_next_question(asked: Pipeline) -> None:
    assert is_hit(asked)
    mark_forgotten(asked.config, "acme")
    asked.search(ANN, OTHER)
    assert held(asked) == (1, 0, 0)
    assert not is_hit(asked, BOB)
    assert is_hit(asked, BOB)
    mark_forgotten(asked.config, "acme")
    asked.ask_selection(OTHER, "A broker may be restarted.", principal=ANN)
    assert held(asked)[1:] == (0, 0)


def test_another_tenants_mark_drops_nothing(asked: Pipeline) -> None:
    mark_forgotten(asked.config, "acme-b")
    assert is_hit(asked)


def test_a_question_under_way_leaves_nothing_of_before(asked: Pipeline) -> None:
    marked = []

    def listen(*_: object) -> None:
        if not marked:
            marked.append(True)
            mark_forgotten(asked.config, "acme")

    assert asked.ask(ANN, OTHER, listen=listen).status != "unavailable"
    assert marked
    assert held(asked) == (0, 0, 0)


def test_an_erased_tenant_is_in_no_memory(asked: Pipeline) -> None:
    TenantErasure(asked.config, "acme").erase()
    assert asked.ask(ANN, QUESTION).status == "unavailable"
    assert held(asked) == (0, 0, 0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_servers_with_homes_of_their_own_hear_of_it_by_the_database(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "s" * 40)
    shared = url or f"sqlite:///{tmp_path / 'shared.db'}"
    here, there = (settings(tmp_path / name, telemetry={"url": shared}) for name in ("here", "there"))
    clock = Clock()
    marks, others = ForgottenMarks(there, "acme", clock), ForgottenMarks(there, "acme-b", clock)
    before = marks.newest(), others.newest()
    mark_forgotten(here, "acme")
    assert marks.newest() == before[0]
    clock.now = FRESH_S
    after = marks.newest()
    assert after != before[0]
    assert others.newest() == before[1]
    mark_forgotten(here, "acme")
    clock.now += FRESH_S
    assert marks.newest() not in (after, before[0])
    marks.close()
    others.close()


def test_a_database_that_is_away_stops_no_question_and_drops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    config = settings(tmp_path, telemetry={"url": "postgresql+psycopg://nobody@127.0.0.1:1/none"})
    marks = ForgottenMarks(config, "acme", clock)
    first = marks.newest()
    clock.now = 10 * FRESH_S
    assert marks.newest() == first
    assert caplog.text.count("whether something of acme was forgotten cannot be told") == 1
    marks.close()
