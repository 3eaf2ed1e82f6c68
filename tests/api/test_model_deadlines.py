"""Waiting for a model ends with its request: in time to answer without it, or when the client leaves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.api_client import QUESTION, client_of
from support.wiki import configuration

from rag_serving.config.loading import Config
from rag_serving.deadline import Deadline, StoppedError, at_most, within
from rag_serving.models.chat.messages import PromptMessage, open_chat
from rag_serving.models.embedding.factory import open_embedder
from rag_serving.models.protocols import ModelError
from rag_serving.models.reranker_client import RemoteReranker

OWN_S = 300  # what each model's own patience is


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Config]:
    """Models on a server that takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        chat = {"provider": "openai", "base_url": url, "model": "m", "timeout_s": OWN_S, "first_token_timeout_s": OWN_S}
        embedding = {"provider": "ollama", "base_url": url, "model": "m", "timeout_s": OWN_S}
        reranker = {"url": f"{url}/rerank", "timeout_s": OWN_S}
        yield configuration(tmp_path, generation=chat, embedding=embedding, reranker=reranker)


def waits(config: Config) -> dict[str, Callable[[], object]]:
    chat = open_chat("openai", config.generation, "generation")
    embedder = open_embedder(config.embedding)
    reranker = RemoteReranker(config.reranker)
    return {
        "chat": lambda: chat.reply([PromptMessage("user", "x")]),
        "embedding": lambda: embedder.embed_query("x"),
        "revision": lambda: embedder.name,
        "reranker": lambda: reranker.rank("x", [("1", "y")], 1),
    }


@pytest.mark.parametrize("kind", ["chat", "embedding", "revision", "reranker"])
def test_a_model_is_given_up_before_the_deadline_and_left_when_the_client_leaves(silent: Config, kind: str) -> None:
    wait = waits(silent)[kind]
    deadline = Deadline(1)
    with within(deadline), pytest.raises(ModelError):
        wait()
    assert deadline.left > 0, "no time is left to answer without the model"
    left = Deadline(OWN_S)
    timer = threading.Timer(0.3, left.cancel)
    timer.start()
    began = time.monotonic()
    with within(left), pytest.raises(StoppedError):
        wait()
    assert time.monotonic() - began < OWN_S / 10
    timer.join()


def test_a_client_that_leaves_says_nothing_of_the_reranker(silent: Config) -> None:
    reranker = RemoteReranker(silent.reranker.model_copy(update={"breaker_failures": 1}))
    left = Deadline(OWN_S)
    timer = threading.Timer(0.2, left.cancel)
    timer.start()
    with within(left), pytest.raises(StoppedError):
        reranker.rank("x", [("1", "y")], 1)
    assert reranker.breaker.state == "closed"
    with within(Deadline(0.5)), pytest.raises(ModelError):
        reranker.rank("x", [("1", "y")], 1)
    assert reranker.breaker.state == "closed", "it had no time to answer"
    timer.join()


def test_a_fifth_of_what_is_left_is_kept_to_answer_without_the_server() -> None:
    assert at_most(7) == 7
    with within(Deadline(100)):
        assert at_most(7) == 7
        assert at_most(200) == pytest.approx(95, abs=1)
    with within(Deadline(10)):
        assert at_most(200) == pytest.approx(8, abs=1)


def test_a_question_is_answered_in_time_although_a_model_never_answers(silent: Config, wiki_home: Path) -> None:
    generation = silent.generation.model_dump()
    client = client_of(wiki_home, generation=generation, serving={"request_timeout_s": 8})
    client.app.state.service.warm()  # type: ignore[attr-defined]
    answer = client.post("/v1/ask", json=QUESTION)
    assert (answer.status_code, answer.json()["status"]) == (200, "answered")
    assert "generator_unavailable" in answer.json()["flags"]
