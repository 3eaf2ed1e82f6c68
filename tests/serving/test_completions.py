"""Chat clients ask in OpenAI's format and get verified answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from stand_in_chat import MODEL, StandInChat, served
from wiki import configuration

from rag_serving.app import create_app
from rag_serving.models.conversation import Message
from rag_serving.models.generators import open_chat
from rag_serving.settings import ChatModel

QUESTION = "May I restart a broker while partitions are under-replicated?"
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
]


def client_of(home: Path, **more: Any) -> TestClient:
    return TestClient(
        create_app(configuration(home, **more)),
        "http://127.0.0.1:8088",
        client=("127.0.0.1", 50000),
        raise_server_exceptions=False,
    )


@pytest.fixture
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


def chunks_of(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_the_last_message_of_the_user_is_answered_with_its_sources(client: TestClient) -> None:
    made = client.post("/v1/chat/completions", json={"model": "any", "messages": MESSAGES, "temperature": 1}).json()
    (choice,) = made["choices"]
    assert (made["object"], made["model"], choice["finish_reason"]) == ("chat.completion", "citelock", "stop")
    assert choice["message"]["content"].startswith("You must not restart a broker while partitions")
    assert "https://wiki.example/pages/11#Restarting-a-broker:~:text=" in choice["message"]["content"]
    assert made["citelock"]["citations"]
    assert made["usage"]["total_tokens"] == 0


def test_a_stream_holds_the_same_in_chunks(client: TestClient) -> None:
    body = {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    chunks = chunks_of(client.post("/v1/chat/completions", json=body).text)
    whole = client.post("/v1/chat/completions", json={"messages": MESSAGES}).json()
    told = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert told == whole["choices"][0]["message"]["content"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] == 0
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_nothing_that_was_not_verified_is_streamed(wiki_home: Path) -> None:
    lie = 'You may restart a broker at any time. "restart a broker at any time" [1]'
    with served(StandInChat(lambda _: [*lie, ' Stop it first. "Stop the broker with the stop script" [1]'])) as server:
        generation = {"provider": "openai", "model": MODEL, "base_url": f"{server.url}/v1"}
        with client_of(wiki_home, generation=generation) as client:
            body = {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
            text = client.post("/v1/chat/completions", json=body).text
            events = client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text
    assert "any time" not in text + events
    assert "Stop it first" not in text + events
    assert "“Stop the broker with the stop script.” [1]" in text
    assert 'event: sentence\ndata: {"text": "“Stop the broker with the stop script.” [1]"}' in events
    assert chunks_of(text)[-1]["usage"]["prompt_tokens"] == 42


def test_our_own_client_understands_it(wiki_home: Path) -> None:
    import threading

    import uvicorn

    app = create_app(configuration(wiki_home))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    model = open_chat("openai", ChatModel(model="citelock", base_url=f"http://127.0.0.1:{port}/v1"), "generation")
    reply = model.reply([Message("user", QUESTION)])
    server.should_exit = True
    thread.join()
    assert reply.text.startswith("You must not restart a broker")
    assert not reply.cut


def test_without_a_question_or_a_generation_it_says_so(client: TestClient, tmp_path: Path) -> None:
    empty = client.post("/v1/chat/completions", json={"messages": [{"role": "system", "content": "x"}]})
    assert (empty.status_code, empty.json()["code"]) == (400, "BAD_REQUEST")
    unpublished = client_of(tmp_path)
    refused = unpublished.post("/v1/chat/completions", json={"messages": MESSAGES})
    assert refused.status_code == 503
    assert "citelock build" in refused.json()["error"]["message"]
    (_, error) = chunks_of(unpublished.post("/v1/chat/completions", json={"messages": MESSAGES, "stream": True}).text)
    assert "citelock build" in error["error"]["message"]
