"""The sidecar over a real socket: section 10's shapes, limits, the token, what a failing model does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.constants import section_of
from support.running import running
from support.tiny_reranker import WORDS, save_xlm_roberta
from support.waiting import wait_until
from support.word_counter import NAME, WordCounter

from rag_serving.config.models import RerankService
from rag_serving.models.protocols import ModelError
from rag_serving.rerank_service.api import create_app
from rag_serving.rerank_service.cross_encoder import CrossEncoder


@pytest.fixture
def model() -> WordCounter:
    return WordCounter()


@pytest.fixture
def client(model: WordCounter) -> Iterator[httpx.Client]:
    with served(model) as opened:
        yield opened


class served:  # noqa: N801
    """A client of a sidecar with this model, once it is ready."""

    def __init__(self, model: Any, token: str | None = None, **settings: Any) -> None:
        self._running = running(create_app(section_of(RerankService, **settings), NAME, token, lambda: model))

    def __enter__(self) -> httpx.Client:
        self._client = httpx.Client(base_url=self._running.__enter__(), timeout=30)
        wait_until(lambda: self._client.get("/healthz").json()["status"] != "loading")
        return self._client

    def __exit__(self, *error: Any) -> None:
        self._client.close()
        self._running.__exit__(None, None, None)


def body(count: int = 3, query: str = "roll back", **more: Any) -> dict[str, Any]:
    candidates = [{"id": f"12345:17:{at:02}", "text": "roll " * at} for at in range(count)]
    return {"query": query, "candidates": candidates, "top_n": 8, "max_seq_len": 512} | more


def test_a_request_and_its_answer_have_the_documented_shape(client: httpx.Client) -> None:
    answer = client.post("/rerank", json=body(3))
    assert answer.status_code == 200
    assert answer.json() == {
        "results": [
            {"id": "12345:17:02", "score": 2.0},
            {"id": "12345:17:01", "score": 1.0},
            {"id": "12345:17:00", "score": 0.0},
        ]
    }
    assert client.get("/healthz").json() == {"status": "ok", "model": NAME}
    assert client.get("/readyz").status_code == 200


def test_the_best_top_n_come_back_and_equal_ones_in_the_order_they_came(client: httpx.Client) -> None:
    candidates = [{"id": name, "text": text} for name, text in (("a", "x"), ("b", "roll"), ("c", "y"), ("d", "roll"))]
    answer = client.post("/rerank", json=body(candidates=candidates, top_n=3)).json()
    assert [result["id"] for result in answer["results"]] == ["b", "d", "a"]


def test_top_n_and_length_may_be_left_out(client: httpx.Client) -> None:
    request = body(20)
    del request["top_n"], request["max_seq_len"]
    assert len(client.post("/rerank", json=request).json()["results"]) == 8


@pytest.mark.parametrize("count", [1, 499, 500])
def test_up_to_five_hundred_candidates_are_ranked(client: httpx.Client, count: int) -> None:
    answer = client.post("/rerank", json=body(count, top_n=count))
    assert [result["score"] for result in answer.json()["results"]] == sorted(map(float, range(count)), reverse=True)


LONE_SURROGATE = b'{"query": "\\ud800", "candidates": [{"id": "a", "text": "x"}]}'
BAD_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "another JSON": b"[]",
    "not UTF-8": b'{"query": "\xff", "candidates": [{"id": "a", "text": "x"}]}',
    "UTF-16": json.dumps(body()).encode("utf-16"),
    "a lone surrogate": LONE_SURROGATE,
    "nested deeply": b'{"query": ' + b"[" * 100_000,
    "an empty query": json.dumps(body(query="  ")).encode(),
    "a query that is too long": json.dumps(body(query="x" * 4001)).encode(),
    "no candidates": json.dumps(body(candidates=[])).encode(),
    "too many candidates": json.dumps(body(501)).encode(),
    "a candidate that is too long": json.dumps(body(candidates=[{"id": "a", "text": "x" * 20_001}])).encode(),
    "an id twice": json.dumps(body(candidates=[{"id": "a", "text": "x"}] * 2)).encode(),
    "top_n of none": json.dumps(body(top_n=0)).encode(),
    "top_n in words": json.dumps(body(top_n="many")).encode(),
    "a length beyond the model's": json.dumps(body(max_seq_len=100_000)).encode(),
    "a length that holds nothing": json.dumps(body(max_seq_len=3)).encode(),
    "an unknown key": json.dumps(body(model="other")).encode(),
    "a number that is none": json.dumps(body(top_n=float("nan"))).encode(),
}


@pytest.mark.parametrize("content", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_cannot_be_served_gets_one_clean_line(
    client: httpx.Client, model: WordCounter, content: bytes
) -> None:
    runs = model.runs
    answer = client.post("/rerank", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"] is True
    assert "\n" not in answer.json()["message"]
    assert len(answer.json()["message"]) < 300
    assert model.runs == runs


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_are_refused_and_the_server_goes_on(client: httpx.Client, chunked: bool) -> None:
    content = json.dumps(body(candidates=[{"id": "a", "text": "x" * 10_000_000}])).encode()
    pieces = (content[start : start + 65_536] for start in range(0, len(content), 65_536))
    answer = client.post("/rerank", content=pieces if chunked else content)
    assert answer.status_code == 413
    assert answer.json()["code"] == "TOO_LARGE"
    assert client.post("/rerank", json=body()).status_code == 200


def test_without_the_token_nothing_is_ranked_or_told(model: WordCounter) -> None:
    with served(model, token="secret") as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "secret"},
            {"Authorization": "Bearer é"},
        ):
            encoded = {key: value.encode() for key, value in headers.items()}
            assert client.post("/rerank", json=body(), headers=encoded).status_code == 401
            assert client.get("/metrics", headers=encoded).status_code == 401
        assert client.post("/rerank", json=body(), headers={"Authorization": "Bearer secret"}).status_code == 200
        assert client.get("/healthz").status_code == 200


def test_more_requests_than_may_be_under_way_are_told_to_come_back(model: WordCounter) -> None:
    with served(model, max_concurrent=2) as client, ThreadPoolExecutor(4) as pool:
        model.may_run.clear()
        waiting = [pool.submit(client.post, "/rerank", json=body()) for _ in range(2)]
        wait_until(lambda: "requests_in_progress 2.0" in client.get("/metrics").text)
        refused = client.post("/rerank", json=body())
        model.may_run.set()
        assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (429, "BUSY", "1")
        assert [future.result().status_code for future in waiting] == [200, 200]
        assert client.post("/rerank", json=body()).status_code == 200


def test_requests_of_many_clients_share_runs_and_each_gets_its_own_scores(model: WordCounter) -> None:
    with served(model, batch_wait_ms=200) as client, ThreadPoolExecutor(8) as pool:
        before = model.runs
        futures = [pool.submit(client.post, "/rerank", json=body(at + 1, top_n=100)) for at in range(8)]
        answers = [future.result().json()["results"] for future in futures]
        assert [[result["score"] for result in answer] for answer in answers] == [
            [float(score) for score in reversed(range(at + 1))] for at in range(8)
        ]
        assert model.runs - before < 8


def test_a_failure_that_persists_is_a_503_and_then_shows_in_the_probes(model: WordCounter) -> None:
    with served(model) as client:
        model.broken = RuntimeError("CUDA error: an illegal memory access was encountered")
        for _ in range(3):
            answer = client.post("/rerank", json=body())
            assert (answer.status_code, answer.json()["code"]) == (503, "MODEL_FAILED")
            assert "CUDA" not in answer.text
        assert client.get("/healthz").status_code == 503
        assert client.get("/readyz").status_code == 503
        assert "citelock_rerank_failed_runs_total 3.0" in client.get("/metrics").text
        model.broken = None
        assert client.post("/rerank", json=body()).status_code == 200
        assert client.get("/readyz").status_code == 200


def test_a_model_that_hangs_is_a_503_within_the_time(model: WordCounter) -> None:
    with served(model, timeout_s=0.3) as client:
        model.may_run.clear()
        started = time.monotonic()
        answer = client.post("/rerank", json=body())
        assert (answer.status_code, answer.json()["code"]) == (503, "TIMEOUT")
        assert time.monotonic() - started < 20
        wait_until(lambda: client.get("/healthz").json()["status"] == "failing")
        model.may_run.set()


def test_scores_that_are_no_numbers_are_never_answered(model: WordCounter) -> None:
    model.score = lambda pairs: [float("nan")] * len(pairs)  # type: ignore[method-assign]
    with served(model) as client:
        assert client.post("/rerank", json=body()).status_code == 503


def test_until_the_model_is_loaded_the_sidecar_lives_but_is_not_ready() -> None:
    may_load, model = threading.Event(), WordCounter()

    def load() -> WordCounter:
        may_load.wait(20)
        return model

    with running(create_app(RerankService(), NAME, None, load)) as url, httpx.Client(base_url=url) as client:
        assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 503)
        assert client.post("/rerank", json=body()).json()["code"] == "NOT_READY"
        may_load.set()
        wait_until(lambda: client.get("/readyz").status_code == 200)


def test_a_model_that_cannot_be_loaded_is_told_and_ends_the_process() -> None:
    ended = threading.Event()

    def load() -> WordCounter:
        raise ModelError("the reranker 'x' cannot be loaded")

    with (
        running(create_app(RerankService(), NAME, None, load, ended.set)) as url,
        httpx.Client(base_url=url) as client,
    ):
        assert ended.wait(10)
        assert client.get("/healthz").status_code == 503
        assert "cannot be loaded" in client.post("/rerank", json=body()).json()["message"]


def test_requests_under_way_are_answered_before_the_server_ends(model: WordCounter) -> None:
    with ThreadPoolExecutor(1) as pool:
        with served(model) as client:
            model.may_run.clear()
            waiting = pool.submit(httpx.post, client.base_url.join("/rerank"), json=body(), timeout=20)
            wait_until(lambda: "requests_in_progress 1.0" in client.get("/metrics").text)
            threading.Timer(0.3, model.may_run.set).start()
        assert waiting.result().status_code == 200


def test_the_metrics_count_pairs_tokens_and_outcomes(client: httpx.Client) -> None:
    client.post("/rerank", json=body(5))
    client.post("/rerank", content=b"")
    text = client.get("/metrics").text
    for line in (
        'citelock_rerank_requests_total{status="200"} 1.0',
        'citelock_rerank_requests_total{status="400"} 1.0',
        "citelock_rerank_pairs_total 5.0",
        "citelock_rerank_tokens_total 10.0",
    ):
        assert line in text


@pytest.mark.xdist_group("torch")  # as test_rerank_model
def test_a_real_cross_encoder_gives_the_same_scores_over_the_wire_as_in_the_process(tmp_path: Path) -> None:
    import torch

    torch.set_num_threads(1)
    model = CrossEncoder.open(str(save_xlm_roberta(tmp_path)), device="cpu")
    texts = [" ".join(WORDS[at : at + 9]) for at in range(40)]
    expected = {f"c{at}": score for at, score in enumerate(model.score(model.encode("expense policy", texts, 512)))}
    request = body(query="expense policy", candidates=[{"id": f"c{at}", "text": text} for at, text in enumerate(texts)])
    with served(model) as client:
        answer = client.post("/rerank", json=request | {"top_n": 40}).json()["results"]
    assert {result["id"]: result["score"] for result in answer} == pytest.approx(expected, abs=1e-4)
