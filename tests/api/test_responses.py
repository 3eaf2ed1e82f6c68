"""Clients of OpenAI's Responses API get verified answers with annotations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import client_of, events_in
from support.wiki import RESTART

QUESTION = "May I restart a broker while partitions are under-replicated?"


@pytest.fixture(scope="module")
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


def asked(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/responses", json=body)
    assert response.status_code == 200, response.text
    made: dict[str, Any] = response.json()
    return made


def test_a_question_is_answered_with_annotations(client: TestClient) -> None:
    made = asked(client, input=QUESTION, model="citelock-acme", instructions="Be brief.")
    (message,) = made["output"]
    (part,) = message["content"]
    (annotation,) = part["annotations"]
    assert (made["object"], made["status"], message["role"]) == ("response", "completed", "assistant")
    assert part["text"].startswith(RESTART)
    marker = part["text"][annotation["start_index"] : annotation["end_index"]]
    assert (annotation["type"], marker) == ("url_citation", f"[[1]]({annotation['url']})")
    assert made["usage"]["total_tokens"] == made["usage"]["input_tokens"] + made["usage"]["output_tokens"] > 0
    assert (made["citelock"]["outcome"], made["citelock"]["flags"]) == ("told", ["instructions_not_used"])


def test_a_conversation_is_read_from_its_items(client: TestClient) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "No."}]},
        {"type": "function_call", "role": "", "content": None},
        {"role": "user", "content": "why?"},
    ]
    made = asked(client, input=items)
    assert made["citelock"]["understood"] == "why: restart a broker while partitions are under-replicated?"


def test_a_stream_holds_the_same_in_its_events(client: TestClient) -> None:
    whole = asked(client, input=QUESTION)
    events = events_in(client.post("/v1/responses", json={"input": QUESTION, "stream": True}).text)
    names = [name for name, _ in events]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] == "response.completed"
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    assert all(data["type"] == name for name, data in events)
    text = whole["output"][0]["content"][0]["text"]
    assert "".join(data["delta"] for name, data in events if name == "response.output_text.delta") == text
    last = events[-1][1]["response"]
    assert (last["output"][0]["content"], last["usage"]) == (whole["output"][0]["content"], whole["usage"])


def test_what_cannot_be_served_is_refused_in_the_format(client: TestClient, tmp_path: Path) -> None:
    for body, param in (
        ({"input": QUESTION, "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": [{"role": "system", "content": "x"}]}, "input"),
        ({"input": [{"type": "function_call"}]}, "input"),
        ({"input": "   "}, "input"),
        ({"model": "citelock-none", "input": QUESTION}, "model"),
    ):
        error = client.post("/v1/responses", json=body).json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["param"] == param
    unpublished = client_of(tmp_path)
    refused = unpublished.post("/v1/responses", json={"input": QUESTION})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "30")
    (*_, (name, data)) = events_in(unpublished.post("/v1/responses", json={"input": QUESTION, "stream": True}).text)
    assert (name, data["response"]["status"]) == ("response.failed", "failed")
    assert "citelock build" in data["response"]["error"]["message"]
