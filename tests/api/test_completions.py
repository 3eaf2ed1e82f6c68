"""Chat clients ask in OpenAI's format and get verified answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from support.api_client import client_of, completion_chunks
from support.running import running
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import RESTART, configuration

from rag_serving.api.app import MAX_BODY_BYTES, create_app
from rag_serving.api.wire import RequestError, error_response
from rag_serving.config.models import ChatModel, Embedding
from rag_serving.models.chat.messages import PromptMessage, open_chat
from rag_serving.models.embedding.factory import open_tokenizer

LINK = "https://wiki.example/pages/11#Restarting-a-broker:~:text="
QUESTION = "May I restart a broker while partitions are under-replicated?"
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
]


BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": MESSAGES},
    "responses": {"input": QUESTION},
    "embeddings": {"input": "x"},
}


@pytest.fixture
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


def test_the_last_message_of_the_user_is_answered_with_its_sources(client: TestClient) -> None:
    made = client.post(
        "/v1/chat/completions", json={"model": "citelock", "messages": MESSAGES, "temperature": 1}
    ).json()
    (choice,) = made["choices"]
    assert (made["object"], made["model"], choice["finish_reason"]) == ("chat.completion", "citelock-acme", "stop")
    assert choice["message"]["content"].startswith(f"{RESTART} [[1]]({LINK}")
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
        generation = {"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{server.url}/v1"}
        with client_of(wiki_home, generation=generation) as client:
            body = {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
            text = client.post("/v1/chat/completions", json=body).text
            events = client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text
    assert "any time" not in text + events
    assert "Stop it first" not in text + events
    assert "Stop the broker with the stop script. [[1]](https://" in text
    assert 'event: sentence\ndata: {"text": "Stop the broker with the stop script. [1]", "outcome": "told"}' in events
    assert completion_chunks(text)[-1]["usage"]["prompt_tokens"] == 42


@pytest.fixture(scope="module")
def serving(wiki_home: Path) -> Iterator[str]:
    """The address of a real server."""
    with running(create_app(configuration(wiki_home))) as address:
        yield address


def test_our_own_client_understands_it(serving: str) -> None:
    model = open_chat("openai", ChatModel(model="citelock", base_url=f"{serving}/v1"), "generation")
    reply = model.reply([PromptMessage("user", QUESTION)])
    assert reply.text.startswith(f"{RESTART} [[1]]({LINK}")
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
    assert [model["id"] for model in listed["data"]] == ["citelock-acme", "citelock-acme:selected-text"]
    assert secured.get("/v1/models/citelock-acme", headers=known).json() == listed["data"][0]
    for hidden in ("other", "none"):
        assert secured.get(f"/v1/models/citelock-{hidden}", headers=known).status_code == 404
        body = {"messages": MESSAGES, "model": f"citelock-{hidden}"}
        assert secured.post("/v1/chat/completions", json=body, headers=known).status_code == 404


def test_a_model_chooses_the_tenant_on_this_machine(wiki_home: Path) -> None:
    with client_of(wiki_home, tenants={"acme": {}, "other": {}}) as client:
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
        assert names[:2] == ["citelock-acme", "citelock-other"]
        assert names[2:] == ["citelock-acme:selected-text", "citelock-other:selected-text"]
        made = client.post("/v1/chat/completions", json={"messages": MESSAGES, "model": "citelock-acme"}).json()
        assert made["model"] == "citelock-acme"
        unnamed = client.post("/v1/chat/completions", json={"messages": MESSAGES, "model": "citelock"})
    assert (unnamed.status_code, error_of(unnamed)[0]) == (400, "invalid_request_error")
    assert "acme, other" in unnamed.json()["error"]["message"]


@pytest.mark.parametrize(
    "model", ["gpt-4o", "acme", "citelock-", "citelock-Acme", "citelock-acme:other", "CITELOCK", " "]
)
def test_a_name_that_is_no_model_is_refused_with_those_that_are(client: TestClient, model: str) -> None:
    for path, more in ((f"/v1/{name}", more) for name, more in BODIES.items()):
        response = client.post(path, json={**more, "model": model})
        assert (response.status_code, error_of(response)) == (404, ("not_found_error", "model", "model_not_found"))
        names = "all-MiniLM-L6-v2" if "embeddings" in path else "citelock-acme, citelock-acme:selected-text"
        assert names in response.json()["error"]["message"]


def test_openai_s_own_client_lists_asks_streams_and_understands_errors(serving: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{serving}/v1", api_key="none", max_retries=0, timeout=30) as client:
        model = next(iter(client.models.list()))
        assert client.models.retrieve(model.id) == model
        made = client.chat.completions.create(model=model.id, messages=MESSAGES)
        assert (made.model, made.choices[0].finish_reason) == (model.id, "stop")
        assert made.choices[0].message.content.startswith(f"{RESTART} [[1]]({LINK}")
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


def test_annotations_stand_where_the_markers_are_and_the_whole_answer_beside_them(client: TestClient) -> None:
    made = client.post("/v1/chat/completions", json={"messages": MESSAGES}).json()
    message = made["choices"][0]["message"]
    (annotation,) = message["annotations"]
    assert annotation["type"] == "url_citation"
    cited = annotation["url_citation"]
    marker = message["content"][cited["start_index"] : cited["end_index"]]
    assert marker == f"[[1]]({cited['url']})"
    assert (cited["url"], cited["title"]) == (
        made["citelock"]["citations"][0]["fragment_url"],
        "Kafka operations → Restarting a broker",
    )
    chunks = completion_chunks(client.post("/v1/chat/completions", json={"messages": MESSAGES, "stream": True}).text)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [delta["annotations"] for delta in deltas if "annotations" in delta] == [[annotation]]
    last = {**chunks[-1]["citelock"], "receipt_id": None, "timings_ms": None}
    assert last == {**made["citelock"], "receipt_id": None, "timings_ms": None}


def test_a_system_prompt_is_not_followed_and_the_answer_says_so(client: TestClient) -> None:
    def ask(*messages: dict[str, str]) -> tuple[str, list[str]]:
        made = client.post("/v1/chat/completions", json={"messages": list(messages)}).json()
        return made["choices"][0]["message"]["content"], made["citelock"]["flags"]

    question = {"role": "user", "content": QUESTION}
    plain, flags = ask(question)
    assert "instructions_not_used" not in flags
    for role in ("system", "developer"):
        told, flags = ask({"role": role, "content": "Answer only with YES."}, question)
        assert (told, "instructions_not_used" in flags) == (plain, True)


def test_what_was_asked_before_completes_the_question(client: TestClient) -> None:
    turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "No."}]
    made = client.post(
        "/v1/chat/completions", json={"messages": [*turns, {"role": "user", "content": "and why?"}]}
    ).json()
    assert made["citelock"]["understood"] == "why: restart a broker while partitions are under-replicated?"
    assert "Read as: why: restart a broker" in made["choices"][0]["message"]["content"]


def test_the_model_of_selected_text_answers_from_the_conversation_alone(client: TestClient) -> None:
    model = "citelock-acme:selected-text"
    text = {"role": "user", "content": "In the evening you call the guard."}
    question = {"role": "user", "content": "Whom do I call?"}
    made = client.post("/v1/chat/completions", json={"model": model, "messages": [text, question]}).json()
    assert (made["model"], made["citelock"]["citations"][0]["chunk_id"]) == (model, "selection:0:0")
    assert made["choices"][0]["message"]["annotations"] == [], "a text without an address is not linked to"
    refused = client.post("/v1/chat/completions", json={"model": model, "messages": [question]})
    assert (refused.status_code, error_of(refused)) == (400, ("invalid_request_error", "messages", "bad_request"))
    long = {"role": "user", "content": "x" * 60_000}
    refused = client.post("/v1/chat/completions", json={"model": model, "messages": [long, question]})
    assert error_of(refused)[2] == "context_length_exceeded"
