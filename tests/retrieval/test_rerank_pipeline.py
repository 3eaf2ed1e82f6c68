"""Reranking in the life of a question: who ranked it is told, and a sidecar that breaks down costs no answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.stand_in_sidecar import StandInSidecar, sidecar
from support.wiki import configuration, embedder

from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config

ASKER = Principal("acme")
QUESTION = "When may a broker be restarted?"
TIMEOUT_S, RESET_S = 0.6, 1.0


@pytest.fixture
def server() -> Iterator[StandInSidecar]:
    with sidecar() as stand_in:
        yield stand_in


@pytest.fixture
def config(wiki_home: Path, server: StandInSidecar) -> Config:
    reranker = {"url": server.url, "timeout_s": TIMEOUT_S, "breaker_reset_s": RESET_S}
    return configuration(wiki_home, reranker=reranker)


@pytest.fixture
def reranked(config: Config) -> Iterator[Pipeline]:
    opened = Pipeline.open(config, "acme", embedder())
    yield opened
    opened.close()


def test_an_answer_and_a_search_tell_that_the_sidecar_ranked_them(reranked: Pipeline) -> None:
    answer, found = reranked.ask(ASKER, QUESTION), reranked.search(ASKER, QUESTION)
    assert answer.payload()["reranker"] == found.payload()["reranker"] == "sidecar"
    assert [result.score for result in found.results] == [result.scores["rerank"] for result in found.results]
    assert "rerank" in answer.timings_ms


def test_the_sidecar_sees_nothing_that_the_asker_may_not_read(reranked: Pipeline, server: StandInSidecar) -> None:
    reranked.search(ASKER, "salary bonus of the broker team in December")
    assert server.last["candidates"]
    assert "salary" not in str(server.last["candidates"]).lower()


def test_a_search_for_few_results_still_lets_the_sidecar_choose_from_many(
    reranked: Pipeline, server: StandInSidecar
) -> None:
    assert len(reranked.search(ASKER, "broker logs and lag", k=1).results) == 1
    assert len(server.last["candidates"]) > 2


def test_without_a_sidecar_nobody_waits_for_one(pipeline: Pipeline) -> None:
    answer = pipeline.ask(ASKER, QUESTION)
    assert answer.reranker == "none"
    assert "reranker_unavailable" not in answer.flags


def test_queries_are_answered_while_the_sidecar_breaks_down_in_every_way(
    reranked: Pipeline, server: StandInSidecar
) -> None:
    by: Counter[tuple[bool, bool]] = Counter()
    slowest = 0.0
    for fault in (None, "killed", "hung", "slow", "garbage", "NaN", "failing", "dribbling"):
        if fault:
            server.break_down(fault)
        for _ in range(25):
            started = time.monotonic()
            found = reranked.search(ASKER, QUESTION, k=3)
            slowest = max(slowest, time.monotonic() - started)
            assert found.results
            assert "restart" in found.results[0].chunk.text
            by[found.reranker == "sidecar", "reranker_unavailable" in found.degraded] += 1
        assert reranked.reranker is not None
        assert (reranked.reranker.breaker.state == "closed") == (fault is None)
        server.recover()
        time.sleep(RESET_S if fault else 0)
        assert reranked.search(ASKER, QUESTION, k=3).reranker == "sidecar"
        assert reranked.reranker.breaker.state == "closed"
    assert by == {(True, False): 25, (False, True): 175}
    assert slowest < 10  # a hung sidecar takes 30 s


def test_the_breakers_state_stands_in_the_metrics(config: Config, server: StandInSidecar) -> None:
    with TestClient(create_app(config), base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
        body = {"query": QUESTION}
        assert client.post("/v1/search", json=body).json()["reranker"] == "sidecar"
        assert (
            'citelock_breaker_state{server="reranker",state="closed",tenant="acme"} 1.0' in client.get("/metrics").text
        )
        server.break_down("failing")
        for _ in range(5):
            found = client.post("/v1/search", json=body).json()
            assert found["degraded"] == ["reranker_unavailable"]
        text = client.get("/metrics").text
        assert 'citelock_breaker_state{server="reranker",state="open",tenant="acme"} 1.0' in text
        assert 'citelock_breaker_state{server="reranker",state="closed",tenant="acme"} 0.0' in text
