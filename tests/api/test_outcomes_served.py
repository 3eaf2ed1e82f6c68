"""At every door a caller is told whether an answer is confident, only what comes closest, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import client_of, completion_chunks, events_in
from support.stand_in_chat import MODEL, StandInChat, served

from rag_serving.answering.gates import CLOSEST
from rag_serving.records.flags import CLOSEST_PASSAGE

ASK = {"question": "How long is a partition leader kept away by the alert of consumer lag?"}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": ASK["question"]}]}
GATES = {"closest": {"min_confidence": 1.0, "min_closest": 0.0}, "none": {"min_confidence": 1.0, "min_closest": 1.0}}
LIE = 'Lag is perfectly harmless. "lag is perfectly harmless at all times" [1]'


@pytest.fixture
def doubting(wiki_home: Path) -> Iterator[TestClient]:
    """A client of a server that is confident of nothing."""
    with client_of(wiki_home, gates=GATES["closest"]) as opened:
        yield opened


def test_an_answer_says_its_outcome_and_what_decided(doubting: TestClient) -> None:
    answer = doubting.post("/v1/ask", json=ASK).json()
    assert (answer["status"], answer["outcome"], answer["flags"]) == ("answered", "closest", [CLOSEST_PASSAGE])
    assert answer["answer"].startswith(f"{CLOSEST}\n\n")
    assert 0 < answer["confidence"] < answer["threshold"] == 1.0
    assert answer["refusal"]["gate"] == "confidence"
    assert "rejected" not in answer
    receipt = doubting.get(f"/v1/receipts/{answer['receipt_id']}").json()
    assert {name: receipt[name] for name in ("outcome", "confidence", "threshold")} == {
        name: answer[name] for name in ("outcome", "confidence", "threshold")
    }
    assert receipt["reason"] == answer["refusal"]["reason"]


def test_only_an_explanation_shows_the_candidates_that_were_rejected(wiki_home: Path) -> None:
    with client_of(wiki_home, gates=GATES["none"]) as client:
        answer = client.post("/v1/ask", json={**ASK, "explain": True}).json()
    assert {"passage", "chunk_id", "text", "score", "features"} == answer["rejected"][0].keys()
    assert answer["features"]
    assert answer["rejected"][0]["chunk_id"] in {passage["chunk_id"] for passage in answer["passages"]}


def test_a_streamed_outcome_comes_with_each_sentence(doubting: TestClient) -> None:
    events = events_in(doubting.post("/v1/ask", json={**ASK, "stream": True}).text)
    sentences = [data for name, data in events if name == "sentence"]
    assert sentences[0] == {"text": CLOSEST, "outcome": "closest"}
    assert len(sentences) > 1
    assert {sentence["outcome"] for sentence in sentences} == {events[-1][1]["outcome"]} == {"closest"}
    assert "\n\n".join(sentence["text"] for sentence in sentences) == events[-1][1]["answer"]


def test_a_chat_client_that_shows_text_alone_shows_the_line(doubting: TestClient) -> None:
    whole = doubting.post("/v1/chat/completions", json=CHAT).json()
    content = whole["choices"][0]["message"]["content"]
    assert content.startswith(f"{CLOSEST}\n\n")
    assert "https://wiki.example/pages/13#Consumer-lag" in content
    chunks = completion_chunks(doubting.post("/v1/chat/completions", json={**CHAT, "stream": True}).text)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == content
    last = chunks[-1]["citelock"]
    assert {name: whole["citelock"][name] for name in ("outcome", "confidence", "threshold", "flags")} == {
        name: last[name] for name in ("outcome", "confidence", "threshold", "flags")
    }
    assert last["outcome"] == "closest"


@pytest.mark.parametrize(("outcome", "status"), [("closest", "answered"), ("none", "needs_more_context")])
def test_nothing_of_a_lie_is_served_with_either_outcome(wiki_home: Path, outcome: str, status: str) -> None:
    with served(StandInChat(lambda _: [LIE])) as server:
        generation = {
            "provider": "openai",
            "style": "prose",
            "model": MODEL,
            "base_url": f"{server.url}/v1",
            "max_retries": 0,
        }
        with client_of(wiki_home, generation=generation, gates=GATES[outcome]) as client:
            answer = client.post("/v1/ask", json=ASK).json()
            events = client.post("/v1/ask", json={**ASK, "stream": True}).text
            chat = client.post("/v1/chat/completions", json={**CHAT, "stream": True}).text
    assert (answer["outcome"], answer["status"], bool(answer["citations"])) == (outcome, status, outcome == "closest")
    assert "harmless" not in str(answer) + events + chat
    assert ("five minutes" in events) == (outcome == "closest")


def test_questions_are_counted_by_their_outcome_and_the_closest_is_nothing_degraded(doubting: TestClient) -> None:
    doubting.post("/v1/ask", json=ASK)
    text = doubting.get("/metrics").text
    assert 'citelock_questions_total{kind="ask",outcome="closest",status="answered",tenant="acme"} 1.0' in text
    assert 'citelock_degraded_questions_total{tenant="acme"} 0.0' in text
