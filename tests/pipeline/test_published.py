"""The published generation is the one that answers: at once, after a wait, or not at all, but never a wider one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.waiting import wait_until
from support.wiki import PASSAGES, RETENTION, Passage, configuration, embedder, publish

from rag_assets.publishing.repair import repair
from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Publication, Store, record_of
from rag_serving.ask import Pipeline
from rag_serving.indexes.catalog import move_current, rollback
from rag_serving.indexes.current import BEING_OPENED
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import Damage, publication_fault
from rag_serving.indexes.sources import FILE
from rag_serving.pipeline.tenant import STALE

EVERYONE = Principal("acme")
QUESTION = "How long does a broker keep logs?"
RESTRICTED = tuple(replace(one, readers="group:hr") if one.page_id == "12" else one for one in PASSAGES)
MORE = (*PASSAGES, Passage("17", "New", "A page about a new dashboard for the brokers."))


@pytest.fixture
def open_pipeline(tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """Opens pipelines over this test's home."""
    opened: list[Pipeline] = []

    def open_(**serving: Any) -> Pipeline:
        opened.append(Pipeline.open(configuration(tmp_path, serving=serving), "acme", embedder()))
        return opened[-1]

    yield open_
    for pipeline in opened:
        pipeline.close()


class SlowOpening:
    """Generations open only once they may: `Generation.open` as a large one would be on a slow disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may = threading.Event(), threading.Event()
        self._real = Generation.open
        monkeypatch.setattr("rag_serving.indexes.sources.Generation.open", self._open)

    def _open(self, *arguments: Any) -> Generation:
        self.begun.set()
        assert self.may.wait(30)
        return self._real(*arguments)


def break_file(home: Path, generation: str, name: str = "chunks.parquet") -> None:
    (Store(home).generation("acme", generation) / name).write_bytes(b"broken")


def test_the_next_question_after_a_restriction_is_published_does_not_see_the_page(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline]
) -> None:
    publish(tmp_path)
    pipelines = [open_pipeline() for _ in range(2)]  # as two processes would be
    assert {pipeline.ask(EVERYONE, QUESTION).status for pipeline in pipelines} == {"answered"}
    second = publish(tmp_path, RESTRICTED)
    for pipeline in pipelines:
        answer = pipeline.ask(EVERYONE, QUESTION, explain=True)
        assert (answer.status, answer.generation, answer.flags) == ("not_found", second, ())
        assert RETENTION not in str(answer.payload())
        assert pipeline.ask(Principal("acme", "ann", frozenset({"hr"})), QUESTION).status == "answered"


def test_the_next_search_after_a_rollback_is_of_the_generation_gone_back_to(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline]
) -> None:
    pipeline, config = open_pipeline(), configuration(tmp_path)
    first = publish(tmp_path, RESTRICTED)
    second = publish(tmp_path)
    for generation in (first, second):
        move_current(Store(tmp_path), "acme", generation, config)
    assert pipeline.search(EVERYONE, QUESTION).generation == second
    assert rollback(Store(tmp_path), "acme", config) == first
    found = pipeline.search(EVERYONE, QUESTION)
    assert (found.generation, found.degraded) == (first, ())
    assert "12" not in {candidate.chunk.page_id for candidate in found.results}


def test_a_server_opens_a_newer_generation_without_being_asked(tmp_path: Path) -> None:
    publish(tmp_path)
    app = create_app(configuration(tmp_path))
    published = app.state.service.pipelines["acme"].published
    with TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 50000)):
        wait_until(lambda: published._slot.held is not None)
        second = publish(tmp_path, MORE)
        wait_until(lambda: published._slot.held.generation.id == second)


def test_a_server_opens_anew_what_was_restored_or_built_again_under_its_id(tmp_path: Path) -> None:
    first = publish(tmp_path)
    store, config = Store(tmp_path), configuration(tmp_path)
    app = create_app(config)
    published = app.state.service.pipelines["acme"].published
    with TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 50000)) as client:
        wait_until(lambda: published._slot.held is not None)
        opened = published._slot.held.generation
        (store.generation("acme", first) / "codes.npy").unlink()
        time.sleep(1.5)  # the watcher looks, and opens nothing that is not whole
        assert published._slot.held.generation is opened
        assert repair(store, "acme", first, config).left == ()
        wait_until(lambda: published._slot.held.generation is not opened)
        opened = published._slot.held.generation
        (store.generation("acme", first) / "vectors.npy").write_bytes(b"broken")
        assert publish(tmp_path) == first
        wait_until(lambda: published._slot.held.generation is not opened)
        assert client.post("/v1/ask", json={"question": QUESTION}).json()["status"] == "answered"
        assert published._slot.held.generation.id == first


def test_a_question_waits_for_a_generation_that_opens_slowly(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path)
    pipeline = open_pipeline(open_wait_s=60)
    assert pipeline.ask(EVERYONE, QUESTION).status == "answered"
    second, slow = publish(tmp_path, RESTRICTED), SlowOpening(monkeypatch)
    answers: list[Any] = []
    asking = [threading.Thread(target=lambda: answers.append(pipeline.ask(EVERYONE, QUESTION))) for _ in range(3)]
    for thread in asking:
        thread.start()
    assert slow.begun.wait(20)
    assert pipeline.problem() is None
    assert answers == []
    slow.may.set()
    for thread in asking:
        thread.join(20)
    assert [(answer.status, answer.generation) for answer in answers] == [("not_found", second)] * 3


def test_beyond_the_bound_the_older_generation_answers_where_nobody_lost_a_page(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(tmp_path)
    pipeline = open_pipeline(open_wait_s=0.1)
    pipeline.ask(EVERYONE, QUESTION)
    second, slow = publish(tmp_path, MORE), SlowOpening(monkeypatch)
    answer = pipeline.ask(EVERYONE, QUESTION)
    assert (answer.status, answer.generation, answer.flags) == ("answered", first, (STALE,))
    slow.may.set()
    wait_until(lambda: pipeline.search(EVERYONE, QUESTION).generation == second)
    assert pipeline.ask(EVERYONE, QUESTION).flags == ()


@pytest.mark.parametrize("newer", [RESTRICTED, PASSAGES[2:]], ids=["restricted", "gone"])
def test_beyond_the_bound_nobody_is_answered_from_a_generation_that_shows_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: tuple[Passage, ...]
) -> None:
    publish(tmp_path)
    app = create_app(configuration(tmp_path, serving={"open_wait_s": 0.1}))
    client = TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 50000))
    requests = [("/v1/ask", {"question": QUESTION}), ("/v1/search", {"query": QUESTION})]
    assert [client.post(*request[:1], json=request[1]).status_code for request in requests] == [200, 200]
    publish(tmp_path, newer)
    slow = SlowOpening(monkeypatch)
    for path, body in requests:
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert (refused.json()["code"], refused.json()["message"]) == ("UNAVAILABLE", BEING_OPENED)
        assert RETENTION not in refused.text
    slow.may.set()
    wait_until(lambda: client.post("/v1/ask", json={"question": QUESTION}).status_code == 200)


@pytest.mark.parametrize(
    ("newer", "broken", "status"),
    [
        (MORE, "chunks.parquet", "answered"),
        (RESTRICTED, "chunks.parquet", "unavailable"),
        (MORE, FILE, "unavailable"),
        (MORE, "manifest.json", "unavailable"),
    ],
)
def test_in_place_of_a_broken_generation_the_last_good_one_answers_unless_it_may_show_more(
    tmp_path: Path,
    open_pipeline: Callable[..., Pipeline],
    newer: tuple[Passage, ...],
    broken: str,
    status: str,
) -> None:
    first = publish(tmp_path)
    store = Store(tmp_path)
    move_current(store, "acme", first, configuration(tmp_path))
    running, later = open_pipeline(), open_pipeline()
    running.ask(EVERYONE, QUESTION)
    second = publish(tmp_path, newer)
    break_file(tmp_path, second, broken)
    for pipeline in (running, later):  # the later one has nothing open when it is asked
        answer = pipeline.ask(EVERYONE, QUESTION)
        assert answer.status == status
        assert answer.flags == ((STALE,) if status == "answered" else ())
        assert second in (answer.answer if status == "unavailable" else str(pipeline.published.problem))
        assert (pipeline.problem() is None) == (status == "answered")
    store.point_current("acme", first)
    assert {one.ask(EVERYONE, QUESTION).generation for one in (running, later)} == {first}
    assert running.ask(EVERYONE, QUESTION).flags == ()


def test_without_a_pointer_nothing_that_was_published_answers(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline]
) -> None:
    publish(tmp_path)
    pipeline = open_pipeline()
    assert pipeline.ask(EVERYONE, QUESTION).status == "answered"
    Store(tmp_path).pointer("acme").unlink()
    assert pipeline.ask(EVERYONE, QUESTION).status == "unavailable"


def answering(pipeline: Pipeline) -> tuple[str, str]:
    answer = pipeline.ask(EVERYONE, QUESTION)
    return answer.status, answer.generation


def test_an_edited_pointer_does_not_bring_a_restricted_page_back(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline]
) -> None:
    first, running = publish(tmp_path), open_pipeline()
    assert answering(running) == ("answered", first)
    second = publish(tmp_path, RESTRICTED)
    store = Store(tmp_path)
    for name in (first, "f" * 16, "../../etc", "\0"):
        store.pointer("acme").write_text(name)
        for pipeline in (running, open_pipeline()):
            assert answering(pipeline) == ("not_found", second)
    assert str(publication_fault(store, "acme")).startswith("current names")
    move_current(store, "acme", first, configuration(tmp_path))  # who has the secret may
    assert answering(running) == answering(open_pipeline()) == ("answered", first)


@pytest.mark.parametrize(
    "edit",
    [
        lambda record, _: record.write_text(record.read_text().replace('"number": 1', '"number": 2')),
        lambda record, first: record.write_text(json.dumps({**json.loads(record.read_text()), "current": first})),
        lambda record, first: record.write_text(json.dumps({first: "2026-01-01T00:00:00+00:00"})),
        lambda record, _: record.write_text("[]"),
        lambda record, _: record.write_bytes(b"\xff{"),
        lambda record, _: record.unlink(),
    ],
)
def test_who_cannot_sign_cannot_say_what_is_published(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline], edit: Callable[[Path, str], object]
) -> None:
    first = publish(tmp_path)
    publish(tmp_path, RESTRICTED)
    running, store = open_pipeline(), Store(tmp_path)
    edit(store.publication_record("acme"), first)
    for pipeline in (running, open_pipeline()):
        assert pipeline.ask(EVERYONE, QUESTION).status == "unavailable"
        assert "published.json" in str(pipeline.published.refusal())
    assert (publication_fault(store, "acme") or Damage("", "")).part == "published.json"
    second = publish(tmp_path, RESTRICTED)  # what `citelock build` does with this damage
    assert answering(running) == ("not_found", second)


def test_an_older_record_put_back_does_not_turn_a_running_server_back(
    tmp_path: Path, open_pipeline: Callable[..., Pipeline]
) -> None:
    store, first = Store(tmp_path), publish(tmp_path)
    files = [store.publication_record("acme"), store.pointer("acme")]
    older = [file.read_bytes() for file in files]
    second = publish(tmp_path, RESTRICTED)
    running = open_pipeline()
    assert answering(running) == ("not_found", second)
    for file, content in zip(files, older, strict=True):
        file.write_bytes(content)
    assert answering(running) == ("not_found", second)
    assert answering(open_pipeline()) == ("answered", first)  # as after a backup was restored: nothing tells it
    third = publish(tmp_path, MORE)
    assert answering(running) == ("answered", third)


def test_a_record_of_another_tenant_says_nothing(tmp_path: Path, open_pipeline: Callable[..., Pipeline]) -> None:
    publish(tmp_path)
    record = record_of(Publication("f" * 16, 9), tmp_path, "other")
    Store(tmp_path).publication_record("acme").write_text(json.dumps(record))
    assert open_pipeline().ask(EVERYONE, QUESTION).status == "unavailable"
