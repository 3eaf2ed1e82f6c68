"""Times that an answer tells of itself are too coarse to tell of a hidden word; operators see them whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.wiki import configuration

from rag_serving.api.app import create_app

QUESTION = "May I restart a broker while partitions are under-replicated?"
TOKENS = {"reader": {"tenant": "acme"}, "chief": {"tenant": "acme", "roles": ["operator"]}}


@pytest.fixture
def client(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    with TestClient(
        create_app(configuration(wiki_home, serving={"auth": "tokens"})), "http://127.0.0.1:8088"
    ) as opened:
        yield opened


def times(client: TestClient, token: str) -> Iterator[Mapping[str, float]]:
    """The times of every answer that tells any."""

    def post(path: str, **body: Any) -> Any:
        return client.post(path, json=body, headers=headers)

    headers = {"Authorization": f"Bearer {token}"}
    answer = post("/v1/ask", question=QUESTION).json()
    yield answer["timings_ms"]
    yield post("/v1/search", query="broker").json()["timings_ms"]
    yield post("/v1/chat/completions", messages=[{"role": "user", "content": QUESTION}]).json()["citelock"][
        "timings_ms"
    ]
    streamed = post("/v1/ask", question=QUESTION, stream=True).text.splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in streamed if line.startswith("data: ")]
    yield next(event["timings_ms"] for event in events if "timings_ms" in event)
    if token == "reader":
        yield client.get(f"/v1/receipts/{answer['receipt_id']}", headers=headers).json()["timings_ms"]


def test_a_reader_is_told_times_in_steps_of_ten_milliseconds(client: TestClient) -> None:
    for told in times(client, "reader"):
        assert told["total"] >= 10
        assert all(value % 10 == 0 for value in told.values()), told


def test_an_operator_is_told_them_whole(client: TestClient) -> None:
    for told in times(client, "chief"):
        assert any(value % 10 for value in told.values()), told
