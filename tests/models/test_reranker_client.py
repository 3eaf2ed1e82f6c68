"""The sidecar's client against a sidecar that misbehaves: every query is answered in time, and told by whom."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.constants import section_of
from support.listed_chunks import ListedChunks, candidates, ranked, searching
from support.stand_in_sidecar import FAULTS, StandInSidecar, sidecar

from rag_serving.config.models import Reranker
from rag_serving.config.sections import Features
from rag_serving.models.breaker import Breaker
from rag_serving.models.protocols import ModelError
from rag_serving.models.reranker_client import RemoteReranker, open_reranker
from rag_serving.records.passages import Candidate, Chunk
from rag_serving.retrieval.rerank import RERANKER_DOWN, CrossEncoderStage, LexicalReranker
from rag_serving.retrieval.stage import Stage, run_stages
from rag_serving.tracing import StageTrace

TIMEOUT_S, RESET_S = 0.6, 1.0
HUNG_S = 30  # what the sidecar takes that hangs
PASSAGES = [("1:1:0", "coffee machine"), ("1:1:1", "roll back a release"), ("1:1:2", "release notes")]


@pytest.fixture
def server() -> Iterator[StandInSidecar]:
    with sidecar() as stand_in:
        yield stand_in


@pytest.fixture
def client(server: StandInSidecar) -> Iterator[RemoteReranker]:
    opened = RemoteReranker(settings(server))
    yield opened
    opened.close()


def settings(server: StandInSidecar, **more: object) -> Reranker:
    given = {"url": server.url, "timeout_s": TIMEOUT_S, "breaker_reset_s": RESET_S, "max_seq_len": 256} | more
    return section_of(Reranker, **given)


def reranked(query: str, client: RemoteReranker, pool: int = 100, count: int = 3) -> tuple[list[Candidate], StageTrace]:
    """Return the first passages as the client orders them, else as the lexical reranker does, and what was noted."""
    chunks = [chunk(identifier, text) for identifier, text in PASSAGES[:count]]
    context, trace = searching(ListedChunks(chunks, {"releas": 1.0}), query), StageTrace()
    stages = [
        Stage("rerank", CrossEncoderStage(client, 3, pool), RERANKER_DOWN),
        Stage("lexical_rerank", LexicalReranker()),
    ]
    rankings = run_stages(stages, context, ranked([0.0, -3.0, 0.0][:count]), trace)
    return candidates(context, rankings["lexical_rerank"]), trace


def chunk(identifier: str, text: str) -> Chunk:
    return Chunk(identifier, "1", 1, 0, "OPS", "Guide", ("Guide", "Part"), "a", "u#a", text, 0, len(text), "paragraph")


def fail_until_open(client: RemoteReranker) -> int:
    for failures in range(1, 10):
        with pytest.raises(ModelError):
            client.rank("release", PASSAGES, 3)
        if client.breaker.state == "open":
            return failures
    raise AssertionError("the breaker did not open")


def test_what_is_sent_and_what_comes_back(server: StandInSidecar, client: RemoteReranker) -> None:
    assert client.rank("roll back", PASSAGES, 2) == [("1:1:1", 2.0), ("1:1:0", 0.0)]
    assert server.last == {
        "query": "roll back",
        "candidates": [{"id": identifier, "text": text} for identifier, text in PASSAGES],
        "top_n": 2,
        "max_seq_len": 256,
    }


def test_connections_are_used_again(server: StandInSidecar, client: RemoteReranker) -> None:
    for _ in range(50):
        client.rank("release", PASSAGES, 3)
    assert (server.requests, server.connections) == (50, 1)


def test_the_token_is_sent(server: StandInSidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_TOKEN", "secret")
    client = RemoteReranker(settings(server, token_env="RERANK_TOKEN"))
    client.rank("release", PASSAGES, 3)
    client.close()
    assert server.headers["Authorization"] == "Bearer secret"


def test_a_token_that_is_not_set_is_told_and_nothing_is_sent(server: StandInSidecar) -> None:
    client = RemoteReranker(settings(server, token_env="NO_SUCH_TOKEN"))
    with pytest.raises(ModelError, match="NO_SUCH_TOKEN"):
        client.rank("release", PASSAGES, 3)
    assert server.requests == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_in_one_line_within_the_timeout(
    server: StandInSidecar, client: RemoteReranker, fault: str
) -> None:
    client.rank("release", PASSAGES, 3)
    server.break_down(fault)
    started = time.monotonic()
    with pytest.raises(ModelError, match="rerank") as told:
        client.rank("release", PASSAGES, 3)
    assert time.monotonic() - started < HUNG_S / 3
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_breaker_opens_after_five_failures_and_closes_after_recovery(
    server: StandInSidecar, client: RemoteReranker, fault: str
) -> None:
    server.break_down(fault)
    assert fail_until_open(client) == 5
    asked = server.requests
    started = time.monotonic()
    for _ in range(20):
        with pytest.raises(ModelError, match="left alone"):
            client.rank("release", PASSAGES, 3)
    assert time.monotonic() - started < RESET_S
    assert server.requests == asked
    server.recover()
    time.sleep(RESET_S)
    assert client.rank("roll back", PASSAGES, 1) == [("1:1:1", 2.0)]
    assert client.breaker.state == "closed"


def test_a_busy_sidecar_is_alive(server: StandInSidecar, client: RemoteReranker) -> None:
    server.break_down("busy")
    for _ in range(10):
        with pytest.raises(ModelError, match="is busy"):
            client.rank("release", PASSAGES, 3)
    assert client.breaker.state == "closed"


def test_a_sidecar_that_takes_its_time_to_say_that_it_is_busy_is_left_alone(
    server: StandInSidecar, client: RemoteReranker
) -> None:
    server.break_down("busy, late")
    assert fail_until_open(client) == 5
    assert server.requests == 5
    with pytest.raises(ModelError, match="left alone"):
        client.rank("release", PASSAGES, 3)
    assert server.requests == 5


@pytest.mark.parametrize(("fault", "timeout_s"), [("killed", 10), ("hung", TIMEOUT_S), ("NaN", 10)])
def test_queries_are_answered_while_the_sidecar_breaks_down_and_recovers(
    server: StandInSidecar, fault: str, timeout_s: float
) -> None:
    client = RemoteReranker(settings(server, timeout_s=timeout_s))
    seconds: list[float] = []
    by: Counter[tuple[str, bool]] = Counter()
    counting = threading.Lock()

    def ask(_: int) -> None:
        started = time.monotonic()
        found, trace = reranked("release", client)
        by_model = "rerank" in found[0].scores
        assert found[0].chunk.chunk_id == ("1:1:1" if by_model else "1:1:2")
        with counting:
            seconds.append(time.monotonic() - started)
            by["sidecar" if by_model else "heuristic", RERANKER_DOWN in trace.flags] += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(75)))
        server.break_down(fault)
        list(pool.map(ask, range(100)))
        assert client.breaker.state != "closed"
        server.recover()
        time.sleep(RESET_S)
        ask(0)
        list(pool.map(ask, range(74)))
    assert by == {("sidecar", False): 150, ("heuristic", True): 100}
    assert max(seconds) < HUNG_S / 3
    assert client.breaker.state == "closed"
    client.close()


def test_without_a_fallback_the_order_stays_and_says_so(server: StandInSidecar, client: RemoteReranker) -> None:
    server.break_down("failing")
    context, trace = searching(ListedChunks([chunk(*passage) for passage in PASSAGES]), "roll back"), StageTrace()
    before = ranked([3.0, 2.0, 1.0])
    stages = [Stage("rerank", CrossEncoderStage(client, 3, 100), RERANKER_DOWN)]
    assert run_stages(stages, context, before, trace)["rerank"] is before
    assert trace.flags == [RERANKER_DOWN]


def test_the_sidecar_reads_headings_and_its_scores_are_kept(server: StandInSidecar, client: RemoteReranker) -> None:
    best = reranked("roll back", client)[0][0]
    assert (best.score, dict(best.scores)) == (2.0, {"rerank": 2.0})
    assert server.last["candidates"][1]["text"] == "Guide > Part\nroll back a release"


def test_no_more_candidates_are_sent_than_the_pool(server: StandInSidecar, client: RemoteReranker) -> None:
    reranked("release", client, pool=2)
    assert len(server.last["candidates"]) == 2


def test_nothing_is_asked_where_there_is_nothing_to_rank(server: StandInSidecar, client: RemoteReranker) -> None:
    assert reranked("release", client, count=0)[0] == []
    assert server.requests == 0


def test_a_probe_that_is_under_way_does_not_hold_up_others(server: StandInSidecar) -> None:
    moments = iter([0.0, 31.0])
    breaker = Breaker(failures=1, reset_s=30, clock=lambda: next(moments, 32.0))
    client = RemoteReranker(settings(server, timeout_s=3), breaker)
    breaker.fail()
    server.break_down("hung")
    with ThreadPoolExecutor(1) as pool:
        probe = pool.submit(client.rank, "release", PASSAGES, 3)
        while not server.requests:
            time.sleep(0.01)
        with pytest.raises(ModelError, match="left alone"):
            client.rank("release", PASSAGES, 3)
        assert not probe.done()
        with pytest.raises(ModelError, match="within 3 s"):
            probe.result()
    client.close()


@pytest.mark.parametrize(("switched_on", "url"), [(False, "http://127.0.0.1:9/rerank"), (True, None)])
def test_without_address_or_feature_there_is_no_client(switched_on: bool, url: str | None) -> None:
    assert open_reranker(Features(FEATURE_RERANKER=switched_on), Reranker(url=url)) is None
