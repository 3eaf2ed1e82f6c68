"""Chat clients ask in OpenAI's format and get verified answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from support.api_client import client_of, completion_chunks
from support.running import running
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import RESTART, configuration

from rag_serving.api.app import MAX_BODY_BYTES, create_app
from rag_serving.api.wire import RequestError, error_response
from rag_serving.config.sections import ChatModel, Embedding
from rag_serving.models.chat.factory import open_chat
from rag_serving.models.chat.messages import Message
from rag_serving.models.embedding.factory import open_tokenizer

QUESTION = "May I restart a broker while partitions are under-replicated?"
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
]


@pytest.fixture
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


def test_the_last_message_of_the_user_is_answered_with_its_sources(client: TestClient) -> None:
    made = client.post("/v1/chat/completions", json={"model": "any", "messages": MESSAGES, "temperature": 1}).json()
    (choice,) = made["choices"]
    assert (made["object"], made["model"], choice["finish_reason"]) == ("chat.completion", "citelock-acme", "stop")
    assert choice["message"]["content"].startswith(f"{RESTART} [1]")
    assert "https://wiki.example/pages/11#Restarting-a-broker:~:text=" in choice["message"]["content"]
    assert made["citelock"]["citations"]
    texts = ["Be brief.", "Hello", "Hello.", QUESTION]
    offsets = open_tokenizer(Embedding()).offsets([*texts, choice["message"]["content"]])
    *read, written = map(len, offsets)
    assert made["usage"] == {
        "prompt_tokens": sum(read),
        "completion_tokens": written,
        "total_tokens": sum(read) + written,
    }
    assert sum(read) > 15


def test_a_stream_holds_the_same_in_chunks(client: TestClient) -> None:
    body = {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    chunks = completion_chunks(client.post("/v1/chat/completions", json=body).text)
    whole = client.post("/v1/chat/completions", json={"messages": MESSAGES}).json()
    told = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert told == whole["choices"][0]["message"]["content"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"] == whole["usage"]
    assert {chunk["usage"] is None for chunk in chunks[:-1]} == {True}
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
    assert 'event: sentence\ndata: {"text": "“Stop the broker with the stop script.” [1]", "outcome": "told"}' in events
    assert completion_chunks(text)[-1]["usage"]["prompt_tokens"] == 42


@pytest.fixture(scope="module")
def serving(wiki_home: Path) -> Iterator[str]:
    """The address of a real server."""
    with running(create_app(configuration(wiki_home))) as address:
        yield address


def test_our_own_client_understands_it(serving: str) -> None:
    model = open_chat("openai", ChatModel(model="citelock", base_url=f"{serving}/v1"), "generation")
    reply = model.reply([Message("user", QUESTION)])
    assert reply.text.startswith(f"{RESTART} [1]")
    assert not reply.cut


def test_without_a_question_or_a_generation_it_says_so(client: TestClient, tmp_path: Path) -> None:
    empty = client.post("/v1/chat/completions", json={"messages": [{"role": "system", "content": "x"}]})
    assert (empty.status_code, error_of(empty)) == (400, ("invalid_request_error", "messages", "bad_request"))
    unpublished = client_of(tmp_path)
    refused = unpublished.post("/v1/chat/completions", json={"messages": MESSAGES})
    assert (refused.status_code, error_of(refused)) == (503, ("server_error", None, "unavailable"))
    assert refused.headers["Retry-After"] == "30"
    assert "citelock build" in refused.json()["error"]["message"]
    (_, error) = completion_chunks(
        unpublished.post("/v1/chat/completions", json={"messages": MESSAGES, "stream": True}).text
    )
    assert "citelock build" in error["error"]["message"]
    assert error["error"].keys() == {"message", "type", "param", "code"}


def error_of(response: Response) -> tuple[str, str | None, str]:
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error["type"], error["param"], error["code"]


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"{", 400, ("invalid_request_error", "1", "bad_request")),
        (b"{}", 400, ("invalid_request_error", "messages", "bad_request")),
        (
            b'{"messages": [{"role": "user", "content": " "}]}',
            400,
            ("invalid_request_error", "messages", "bad_request"),
        ),
        (
            json.dumps({"messages": [{"role": "user", "content": "x" * 5000}]}).encode(),
            400,
            ("invalid_request_error", "messages", "context_length_exceeded"),
        ),
        (
            json.dumps({"messages": MESSAGES, "model": "citelock-other"}).encode(),
            404,
            ("not_found_error", "model", "model_not_found"),
        ),
        (b" " * (MAX_BODY_BYTES + 1), 413, ("invalid_request_error", None, "request_too_large")),
    ],
    ids=["no JSON", "no messages", "no question", "too long", "no such model", "too large"],
)
def test_an_error_has_the_shape_of_openai(
    client: TestClient, body: bytes, status: int, expected: tuple[str, str | None, str]
) -> None:
    response = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, error_of(response)) == (status, expected)


def test_a_busy_server_would_say_so_in_that_shape() -> None:
    response = error_response("/v1/chat/completions", RequestError(429, "HTTP_429", "later", retry_after=3))
    assert json.loads(bytes(response.body))["error"] == {
        "message": "later", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded",
    }  # fmt: skip
    assert response.headers["Retry-After"] == "3"
    assert json.loads(bytes(error_response("/v1/ask", RequestError(429, "HTTP_429", "later")).body))["error"] is True


def test_without_a_token_nothing_is_listed_or_answered(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", '{"a": {"tenant": "acme"}, "o": {"tenant": "other"}}')
    secured = client_of(wiki_home, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens"})
    for response in (
        secured.get("/v1/models"),
        secured.get("/v1/models/citelock-acme"),
        secured.post("/v1/chat/completions", json={"messages": MESSAGES}),
        secured.post("/v1/chat/completions", content=b"{", headers={"Authorization": "Bearer wrong"}),
    ):
        assert (response.status_code, error_of(response)) == (401, ("authentication_error", None, "invalid_api_key"))
        assert response.headers["WWW-Authenticate"] == "Bearer"
    known = {"Authorization": "Bearer a"}
    listed = secured.get("/v1/models", headers=known).json()
    assert [model["id"] for model in listed["data"]] == ["citelock-acme"]
    assert secured.get("/v1/models/citelock-acme", headers=known).json() == listed["data"][0]
    for hidden in ("other", "none"):
        assert secured.get(f"/v1/models/citelock-{hidden}", headers=known).status_code == 404
        body = {"messages": MESSAGES, "model": f"citelock-{hidden}"}
        assert secured.post("/v1/chat/completions", json=body, headers=known).status_code == 404


def test_a_model_chooses_the_tenant_on_this_machine(wiki_home: Path) -> None:
    with client_of(wiki_home, tenants={"acme": {}, "other": {}}) as client:
        assert [m["id"] for m in client.get("/v1/models").json()["data"]] == ["citelock-acme", "citelock-other"]
        made = client.post("/v1/chat/completions", json={"messages": MESSAGES, "model": "citelock-acme"}).json()
        assert made["model"] == "citelock-acme"
        unnamed = client.post("/v1/chat/completions", json={"messages": MESSAGES, "model": "gpt"})
    assert (unnamed.status_code, error_of(unnamed)[0]) == (400, "invalid_request_error")
    assert "acme, other" in unnamed.json()["error"]["message"]


def test_openai_s_own_client_lists_asks_streams_and_understands_errors(serving: str) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{serving}/v1", api_key="none", max_retries=0, timeout=30) as client:
        (model,) = client.models.list()
        assert client.models.retrieve(model.id) == model
        made = client.chat.completions.create(model=model.id, messages=MESSAGES)
        assert (made.model, made.choices[0].finish_reason) == (model.id, "stop")
        assert made.choices[0].message.content.startswith(f"{RESTART} [1]")
        assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens > 0
        options = {"include_usage": True}
        chunks = [
            *client.chat.completions.create(model=model.id, messages=MESSAGES, stream=True, stream_options=options)
        ]
        said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert (said, chunks[-1].usage) == (made.choices[0].message.content, made.usage)
        with pytest.raises(openai.NotFoundError, match="citelock-none") as missing:
            client.chat.completions.create(model="citelock-none", messages=MESSAGES)
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError, match="at most 4000 are read") as long:
            client.chat.completions.create(model=model.id, messages=[{"role": "user", "content": "x" * 5000}])
        assert (long.value.code, long.value.type) == ("context_length_exceeded", "invalid_request_error")
