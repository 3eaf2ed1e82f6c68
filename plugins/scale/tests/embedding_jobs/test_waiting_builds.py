"""A build that waits for workers: the same vectors as its own, whatever becomes of the workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.counting_embedder import Counting
from support.forked import forked
from support.job_queues import MODEL, TENANTS, Installation, Refusing, work_in_process
from support.waiting import wait_until

from citelock_scale.embedding_jobs import waiting
from citelock_scale.embedding_jobs.queue import JobQueue
from rag_assets.embedding_usage import DeadTextsError, PageUsage, WaitFigures, add_usage, build_vectors, read_usage
from rag_assets.state.content_cache import EmbeddedTexts
from rag_serving.hooks import BudgetError
from rag_serving.models.protocols import ModelError

TEXTS = [f"text {number:03} {'and more ' * (number % 7)}" for number in range(200)]
PAGES = [f"page {number // 10}" for number in range(200)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.02)


class Figures:
    """The calls received by a build's observer, log and progress."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        self.counted: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.done: list[tuple[int, int, float]] = []
        self.waits: WaitFigures | None = None
        self.usage: dict[str, PageUsage] = {}

    def expect(self, pages: Sequence[str]) -> None:
        self.expected += pages

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        self.counted += computed

    def flush(self) -> None:
        self.lines = [*self.lines]


def embed(home: Installation, figures: Figures | None = None, texts: Sequence[str] = TEXTS) -> EmbeddedTexts:
    figures = figures or Figures()
    with build_vectors(home.config, "large", Counting(), figures, figures.lines.append) as build:
        figures.waits = build.waits
        embedded = build.vectors.embed(Counting(), texts, lambda *done: figures.done.append(done), PAGES[: len(texts)])
        figures.usage = build.usage()
    return embedded


def own_vectors(folder: Path, texts: Sequence[str] = TEXTS) -> EmbeddedTexts:
    return embed(Installation(folder, None, {"embedding": "in_process"}), texts=texts)


def same(one: EmbeddedTexts, other: EmbeddedTexts) -> bool:
    return one.keys == other.keys and one.computed == other.computed and np.array_equal(one.vectors, other.vectors)


class Building(threading.Thread):
    """A build in a thread, whose result or error is collected when needed."""

    def __init__(self, work: Callable[[], EmbeddedTexts]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._outcome: EmbeddedTexts | BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._outcome = self._work()
        except BaseException as error:
            self._outcome = error

    def result(self) -> EmbeddedTexts:
        self.join(60)
        assert isinstance(self._outcome, EmbeddedTexts), self._outcome
        return self._outcome


def test_workers_that_are_killed_amid_a_batch_three_times_change_nothing(tmp_path: Path) -> None:
    settings = {"texts_per_job": 16, "lease_s": 0.6, "without_workers_s": 300, "max_waiting": 5, "attempts": 20}
    home = Installation(tmp_path / "home", None, settings)
    figures = Figures()
    building = Building(lambda: embed(home, figures))
    queue = JobQueue.of(home.config)
    for _ in range(3):
        worker = forked(work_in_process, home.content)
        wait_until(lambda: queue.state("large", MODEL).running > 0)
        time.sleep(0.02)  # a batch takes 0.08 s
        worker.kill()
        worker.join()
        assert building.is_alive()
    workers = [forked(work_in_process, home.content) for _ in range(2)]
    try:
        embedded = building.result()
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
    assert same(embedded, own_vectors(tmp_path / "own"))
    assert queue.state("large", MODEL).open == {}
    assert sum(page.texts for page in figures.usage.values()) <= len(TEXTS)
    assert figures.waits is not None
    assert (figures.waits.jobs, figures.waits.own_jobs) == (13, 0)
    assert figures.waits.held_up_s > 0
    assert any("is full (5 jobs)" in line for line in figures.lines)
    queue.database.close()


def test_a_build_without_workers_says_so_and_embeds_itself_to_the_same_end(tmp_path: Path) -> None:
    home, figures = Installation(tmp_path / "home", None, {"without_workers_s": 0}), Figures()
    embedded = embed(home, figures)
    assert same(embedded, own_vectors(tmp_path / "own"))
    assert figures.lines == [f"no worker embeds with {MODEL}: this build embeds itself until one comes"]
    assert figures.waits is not None
    assert (figures.waits.jobs, figures.waits.own_jobs) == (4, 4)
    assert sorted(figures.expected) == sorted(PAGES)
    assert sorted(figures.counted) == sorted(zip(PAGES, TEXTS, strict=True))
    assert figures.done[-1] == (200, 200, 1.0)
    assert {page: usage.texts for page, usage in figures.usage.items()} == dict.fromkeys(set(PAGES), 10)
    again = Figures()
    assert embed(home, again).computed == 0
    assert (again.usage, again.lines, again.expected) == ({}, [], [])


def test_a_build_goes_on_where_a_killed_one_was(tmp_path: Path) -> None:
    home = Installation(tmp_path / "home", None, {"without_workers_s": 0})
    home.queue.clock = time.time
    home.enqueue("large", TEXTS[:64])  # by a build that was killed
    home.worker().step()
    home.enqueue("large", TEXTS[64:128])
    embedded = embed(home)
    assert embedded.computed == len(TEXTS) - 64
    assert np.array_equal(embedded.vectors, own_vectors(tmp_path / "own").vectors)


def test_a_text_that_no_model_takes_fails_the_build_with_its_page_and_no_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Installation(tmp_path, None, {"without_workers_s": 0, "attempts": 2, "backoff_s": 0})
    texts, figures = [*TEXTS[:30], "poison"], Figures()
    monkeypatch.setattr(Counting, "embed_documents", refusing)
    with pytest.raises(DeadTextsError) as raised:
        embed(home, figures, texts)
    assert "1 texts of the pages page 3 could not be embedded: the server refuses" in str(raised.value)
    assert home.known("large", texts) == 30
    assert figures.waits is not None
    assert figures.waits.dead_letters == 1
    with pytest.raises(DeadTextsError):  # not tried again before somebody says so
        embed(home, texts=texts)
    monkeypatch.undo()
    home.queue.clock = time.time
    assert len(home.queue.retry("large")) == 1
    monkeypatch.setattr(waiting, "LOOK_S", 0.02)
    assert embed(home, texts=texts).computed == 1


_EMBED = Counting.embed_documents


def refusing(self: Counting, texts: Sequence[str], progress: object = None) -> np.ndarray:
    del progress
    if "poison" in texts:
        raise ModelError("the server refuses to embed (HTTP 400: invalid input)")
    return _EMBED(self, texts)


def test_a_build_whose_model_is_away_says_why_when_nothing_was_done_for_too_long(tmp_path: Path) -> None:
    home = Installation(tmp_path, None, {"stalled_s": 1.5, "lease_s": 60})
    home.queue.clock = time.time
    embedder = Refusing()
    embedder.is_away = True
    worker = home.worker(embedder)
    stop = threading.Event()
    working = threading.Thread(target=worker.run, args=[stop])
    working.start()
    try:
        with pytest.raises(
            ModelError, match=r"no text was embedded for 1.5 s, 200 are still to come: no embedding serv"
        ):
            embed(home)
    finally:
        stop.set()
        working.join()
    assert home.states("large") == (4, 0)
    embedder.is_away = False


def test_a_build_that_embeds_itself_keeps_what_it_took_and_touches_no_queue(tmp_path: Path) -> None:
    content = {"embedding": {"prices": {"all-MiniLM-L6-v2": {"input": 2.0}}}}
    home, figures = Installation(tmp_path, None, {"embedding": "in_process"}, content), Figures()
    embed(home, figures)
    with home.queue.database.reading() as connection:
        stored = read_usage(connection, "large", MODEL)
        assert read_usage(connection, "small") == {}
    assert stored == figures.usage
    assert {page: usage.texts for page, usage in stored.items()} == dict.fromkeys(set(PAGES), 10)
    assert all(usage.cost == pytest.approx(usage.tokens * 2e-6) for usage in stored.values())
    assert home.states(TENANTS[0]) == (0, 0)
    assert not (home.store.cache("large") / "embedding_jobs").exists()


def test_what_embedding_took_is_kept_as_long_as_telemetry_and_a_database_that_is_away_stops_no_build(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = Installation(tmp_path / "home", None, {"embedding": "in_process"})
    for days in (0, 89, 91):
        with home.queue.database.writing() as connection:
            add_usage(connection, "small", MODEL, [PageUsage(f"{days}", 1, 2, 0.5)], time.time() - days * 86_400)
    embed(home)
    with home.queue.database.reading() as connection:
        assert sorted(read_usage(connection, "small", MODEL)) == ["0", "89"]
    away = Installation(tmp_path / "away", "postgresql://nobody@127.0.0.1:1/none", {"embedding": "in_process"})
    assert same(embed(away), own_vectors(tmp_path / "own"))
    assert "what embedding took is not recorded: the database of embedding jobs cannot be used" in caplog.text


def test_a_tenant_whose_budget_is_spent_waits_and_no_other_and_its_build_says_so(tmp_path: Path) -> None:
    more = {"tenants": {"large": {"budgets": {"tokens_per_day": 10}}, "small": {}}}
    home = Installation(tmp_path, None, {"without_workers_s": 300}, more)
    home.queue.clock = time.time
    home.enqueue("large", TEXTS)
    home.enqueue("small", TEXTS)
    worker = home.worker()
    worker.run(threading.Event(), until_idle=True)
    assert home.known("small", TEXTS) == len(TEXTS)
    assert home.known("large", TEXTS) == 64  # what is under way when a budget is reached is finished
    state = home.queue.state("large", MODEL)
    assert len(state.open) == 3
    assert "tokens" in (state.last_reason or "")
    with pytest.raises(BudgetError):
        embed(home)
    assert len(home.queue.state("large", MODEL).open) == 3
    worker.close()


def test_a_build_writes_the_texts_again_that_a_job_lacks(tmp_path: Path) -> None:
    home = Installation(tmp_path / "home", None, {"without_workers_s": 0, "attempts": 2, "backoff_s": 0})
    home.queue.clock = time.time
    home.enqueue("large", TEXTS[:64])
    for path in (home.store.cache("large") / "embedding_jobs").iterdir():
        path.unlink()
    worker = home.worker()
    assert worker.step()
    assert worker.step()
    assert home.states("large") == (0, 1)
    assert embed(home).computed == len(TEXTS)
    assert home.states("large") == (0, 0)


def test_a_build_takes_back_what_it_needs_of_a_job_whose_other_texts_are_gone(tmp_path: Path) -> None:
    home = Installation(tmp_path / "home", None, {"without_workers_s": 0, "attempts": 1, "backoff_s": 0})
    home.queue.clock = time.time
    home.enqueue("large", [*TEXTS[:5], "a text of a page that was deleted"])
    for path in (home.store.cache("large") / "embedding_jobs").iterdir():
        path.unlink()
    assert home.worker().step()
    assert home.states("large") == (0, 1)
    figures = Figures()
    assert embed(home, figures, TEXTS[:9]).computed == 9
    assert figures.waits is not None
    assert (figures.waits.jobs, figures.waits.own_jobs) == (1, 1)
    assert home.states("large") == (0, 0)


def test_a_worker_that_never_finds_the_texts_ends_the_build_with_the_reason(tmp_path: Path) -> None:
    """Its home is another folder: only the queue is the same."""
    home = Installation(tmp_path / "home", None, {"without_workers_s": 60, "attempts": 2, "backoff_s": 0})
    home.queue.clock = time.time
    elsewhere = Installation(tmp_path / "elsewhere", None, {"attempts": 2, "backoff_s": 0})
    elsewhere.queue = home.queue
    worker, stop = elsewhere.worker(), threading.Event()
    working = threading.Thread(target=worker.run, args=[stop])
    working.start()
    try:
        with pytest.raises(DeadTextsError, match="the texts of the job are missing: workers and builds must share"):
            embed(home, texts=TEXTS[:5])
    finally:
        stop.set()
        working.join()
