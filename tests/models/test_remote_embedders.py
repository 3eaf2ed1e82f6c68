"""Ollama and OpenAI-compatible servers: order, prompts, patience, and distrust of what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from support.constants import section_of
from support.stand_in_embeddings import DIGEST, Fault, StandIn, true_vector

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.remote import OllamaEmbedder, OpenAIEmbedder, RemoteEmbedder
from rag_serving.models.protocols import ModelError

KINDS = ["ollama", "openai"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(RemoteEmbedder, "backoff_s", 0.01)
    return


def opened(kind: str, server: StandIn, **settings: Any) -> RemoteEmbedder:
    settings = {"provider": kind, "model": "bge-m3", "timeout_s": 5, "batch_size": 4, "max_retries": 2} | settings
    if kind == "ollama":
        return OllamaEmbedder(section_of(Embedding, base_url=server.url, **settings))
    return OpenAIEmbedder(section_of(Embedding, base_url=f"{server.url}/v1", **settings))


def expected(texts: list[str]) -> np.ndarray:
    vectors = np.stack([true_vector(text) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_texts_go_in_batches_and_come_back_normalized_in_order(kind: str, server: StandIn) -> None:
    texts = [f"text {n}" for n in range(10)]
    seen: list[tuple[int, int]] = []
    vectors = opened(kind, server).embed_documents(texts, lambda done, total: seen.append((done, total)))
    np.testing.assert_allclose(vectors, expected(texts), atol=1e-6)
    assert vectors.dtype == np.float32
    assert [len(body["input"]) for _, body, _ in server.requests] == [4, 4, 2]
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_the_index_of_an_answer_decides_its_place(server: StandIn) -> None:
    server.shuffle = True
    texts = ["a", "b", "c"]
    np.testing.assert_allclose(opened("openai", server).embed_documents(texts), expected(texts), atol=1e-6)


def test_prompts_are_put_before_texts_and_show_in_the_name(kind: str, server: StandIn) -> None:
    embedder = opened(kind, server, query_prompt="q: ", document_prompt="d: ")
    np.testing.assert_allclose(embedder.embed_query("a"), expected(["q: a"])[0], atol=1e-6)
    np.testing.assert_allclose(embedder.embed_documents(["a"]), expected(["d: a"]), atol=1e-6)
    assert embedder.name.startswith(opened(kind, server).name + "+")


def test_a_server_that_says_when_to_come_back_is_obeyed(kind: str, server: StandIn) -> None:
    server.faults.append(Fault(429, headers={"Retry-After": "1"}))
    opened(kind, server).embed_documents(["a"])
    assert 1.0 <= server.times[1] - server.times[0] < 2.0


def test_a_date_in_retry_after_is_understood(server: StandIn) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.faults.append(Fault(503, headers={"Retry-After": soon}))
    opened("openai", server).embed_documents(["a"])
    assert 0.5 <= server.times[1] - server.times[0] < 3.0


def test_a_burst_of_server_errors_is_outlasted(kind: str, server: StandIn) -> None:
    server.faults.extend([Fault(500, body=b"boom"), Fault(502)])
    np.testing.assert_allclose(opened(kind, server).embed_documents(["a"]), expected(["a"]), atol=1e-6)


def test_a_server_that_keeps_failing_is_named_with_what_it_said(kind: str, server: StandIn) -> None:
    server.faults.extend([Fault(500, body=b"CUDA out\nof memory")] * 9)
    with pytest.raises(ModelError, match=rf"{server.url}.* failed \(3 tries\): HTTP 500: CUDA out of memory") as caught:
        opened(kind, server).embed_documents(["a"])
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 3


@pytest.mark.parametrize("body", [b'{"embeddings": [[0.1, ', b"[]", b"{}", b'"text"', b'{"data": [{"index": 5}]}'])
def test_an_unreadable_answer_is_tried_again_and_then_told(kind: str, server: StandIn, body: bytes) -> None:
    json_type = {"Content-Type": "application/json"}
    server.faults.append(Fault(200, body, json_type))
    opened(kind, server).embed_documents(["a"])
    server.faults.extend([Fault(200, body, json_type)] * 3)
    with pytest.raises(ModelError, match="no embeddings in the answer"):
        opened(kind, server).embed_documents(["a"])


def test_an_answer_that_breaks_off_is_tried_again(kind: str, server: StandIn) -> None:
    server.faults.append(
        Fault(200, headers={"Content-Length": "1000", "Connection": "close"}, body=b'{"embeddings": [[')
    )
    np.testing.assert_allclose(opened(kind, server, timeout_s=3).embed_documents(["a"]), expected(["a"]), atol=1e-6)


def test_a_server_that_hangs_is_left_after_the_timeout(kind: str, server: StandIn) -> None:
    server.faults.extend([Fault(hang_s=30)] * 2)
    with pytest.raises(ModelError, match=r"did not answer in time \(2 tries\).*embedding.timeout_s"):
        opened(kind, server, timeout_s=0.2, max_retries=1).embed_documents(["a"])


def test_a_server_that_is_down_is_named_with_its_mend(kind: str, server: StandIn) -> None:
    embedder = opened(kind, server)
    server.shutdown()
    server.server_close()
    with pytest.raises(ModelError, match=rf"no embedding server answers at {server.url}.*start it"):
        embedder.embed_documents(["a"])


def test_a_question_is_tried_once_more_at_most_and_soon(kind: str, server: StandIn) -> None:
    server.faults.extend([Fault(429, headers={"Retry-After": "30"})] * 5)
    with pytest.raises(ModelError, match="429"):
        opened(kind, server).embed_query("a")
    assert len(server.requests) == 2
    assert server.times[1] - server.times[0] < 1.5


@pytest.mark.parametrize("status", [400, 401, 403, 413, 422])
def test_a_refusal_is_not_tried_again(kind: str, server: StandIn, status: int) -> None:
    server.faults.append(Fault(status, body=b"input too long"))
    with pytest.raises(ModelError, match=f"HTTP {status}: input too long") as caught:
        opened(kind, server).embed_documents(["a"])
    assert len(server.requests) == 1
    assert ("api_key_env" in str(caught.value)) == (status in (401, 403))


def test_a_model_that_was_not_pulled_is_told_how(server: StandIn) -> None:
    with pytest.raises(
        ModelError, match=rf"'nomic' is not on the Ollama server at {server.url}; run `ollama pull nomic`"
    ):
        opened("ollama", server, model="nomic").check()
    with pytest.raises(ModelError, match="run `ollama pull nomic`"):
        _ = opened("ollama", server, model="nomic").name


def test_a_model_that_an_openai_server_lacks_is_named(server: StandIn) -> None:
    with pytest.raises(ModelError, match=rf"model 'nomic' or the path is not known at {server.url}/v1 .*/v1/models"):
        opened("openai", server, model="nomic").check()


def test_names_tell_provider_model_and_what_is_known_of_its_weights(server: StandIn) -> None:
    assert opened("ollama", server).name == f"ollama/bge-m3:latest@{DIGEST[:12]}"
    assert opened("ollama", server, model="bge-m3:latest").name == f"ollama/bge-m3:latest@{DIGEST[:12]}"
    assert opened("openai", server).name == "openai/bge-m3"


def test_a_name_that_could_not_be_learnt_is_asked_for_again(server: StandIn) -> None:
    embedder = opened("ollama", server, model="other")
    with pytest.raises(ModelError):
        _ = embedder.name
    embedder.model = "bge-m3"
    assert embedder.name.startswith("ollama/bge-m3:latest@")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda vectors: [[0.0] * 8 for _ in vectors], "zero or not a number"),
        (lambda vectors: [[math.nan] * 8 for _ in vectors], "zero or not a number"),
        (lambda vectors: [[None] * 8 for _ in vectors], "not a number|no embeddings"),
        (lambda vectors: [vectors[0][:5], *vectors[1:]], "unequal"),
        (lambda vectors: [[] for _ in vectors], "no length"),
        (lambda vectors: vectors[1:], "vectors for 2 texts|do not fit 2 texts"),
    ],
)
def test_what_cannot_be_a_vector_is_refused(kind: str, server: StandIn, spoil: Any, said: str) -> None:
    server.spoil = spoil
    with pytest.raises(ModelError, match=said):
        opened(kind, server).embed_documents(["a", "b"])


def test_a_model_that_changes_its_dimension_is_refused(kind: str, server: StandIn) -> None:
    embedder = opened(kind, server)
    assert embedder.dimension == 8
    server.dimension = 12
    with pytest.raises(ModelError, match="12 dimensions after 8"):
        embedder.embed_documents(["a"])


def test_the_dimension_is_asked_once(kind: str, server: StandIn) -> None:
    embedder = opened(kind, server)
    assert (embedder.dimension, embedder.dimension) == (8, 8)
    assert len(server.requests) == 1


def test_no_text_asks_for_no_vector(kind: str, server: StandIn) -> None:
    assert opened(kind, server).embed_documents([]).shape == (0, 8)


def test_the_key_comes_from_the_environment(kind: str, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "secret")
    opened(kind, server, api_key_env="STAND_IN_KEY").embed_query("a")
    headers = {name.lower(): value for name, value in server.requests[0][2].items()}
    assert headers["authorization"] == "Bearer secret"


def test_a_key_that_is_not_set_is_named(kind: str, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAND_IN_KEY", raising=False)
    with pytest.raises(ModelError, match="STAND_IN_KEY"):
        opened(kind, server, api_key_env="STAND_IN_KEY")


def test_the_check_says_what_answers(kind: str, server: StandIn) -> None:
    assert f"8 dimensions, from {server.url}" in opened(kind, server).check()
