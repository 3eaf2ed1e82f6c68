"""ConcurrencyLimit: how many threads are in at once, and where nobody waits for one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import parse_config
from rag_serving.deadline import ConcurrencyLimit, search_limit


def test_as_many_are_in_at_once_as_there_are_turns() -> None:
    turns, lock, inside, most = ConcurrencyLimit(3), threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal inside, most
        with turns:
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(36)))
    assert most == 3


def test_a_failure_gives_its_turn_back() -> None:
    turns = ConcurrencyLimit(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), turns:
            raise ValueError("no")


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        ({}, True),
        ({"embedding": {"provider": "ollama"}}, False),
        ({"features": {"FEATURE_RERANKER": True}, "reranker": {"url": "http://127.0.0.1:9"}}, False),
    ],
)
def test_whoever_waits_for_a_server_takes_no_turn(tmp_path: Path, settings: dict[str, object], waits: bool) -> None:
    pipeline = Pipeline.open(parse_config({"home": str(tmp_path), "tenants": {"t": {}}, **settings}), "t")
    assert (pipeline.phases.turns is search_limit(in_process=True)) == waits
    pipeline.close()


@pytest.mark.parametrize("call", ["search", "ask"])
def test_a_search_waits_until_a_turn_is_free(pipeline: Pipeline, call: str) -> None:
    pipeline.phases.turns = turns = ConcurrencyLimit(1)
    pipeline.warm()
    with ThreadPoolExecutor(1) as pool:
        with turns:
            asked = pool.submit(getattr(pipeline, call), Principal("acme"), "consumer lag")
            with pytest.raises(TimeoutError):
                asked.result(timeout=0.5)
        asked.result(timeout=30)
