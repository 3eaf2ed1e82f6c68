"""Citations are numbered by their first appearance in the answer, everywhere alike; receipts keep the place, too."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.adversary import passages_of
from support.api_client import completion_chunks
from support.passages import lock_of
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import configuration, embedder

from rag_serving.access.principals import Principal
from rag_serving.answering.citations import answer_text, citations_of, explained
from rag_serving.answering.markdown import markdown
from rag_serving.answering.verification import verify
from rag_serving.api.app import create_app
from rag_serving.ask import Pipeline
from rag_serving.receipts.faults import faults
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.passages import Lock

TEXTS = ["Brokers stop at night.", "Logs stay for a week. Older logs are deleted.", "Lag is measured in records."]
LOCK = lock_of(TEXTS)


def cited(*claims: tuple[str, int], lock: Lock = LOCK) -> list[Verdict]:
    return verify(Draft(tuple(Claim(text, index, text) for text, index in claims), "test"), lock)


def test_a_lone_citation_is_number_one_whatever_its_place() -> None:
    verdicts = cited((TEXTS[2], 3))
    assert answer_text(verdicts, LOCK) == "Lag is measured in records. [1]"
    (citation,) = citations_of(verdicts, LOCK)
    assert (citation.index, citation.passage, citation.chunk_id) == (1, 3, "3:1:0")


def test_numbers_follow_the_answer_and_a_passage_keeps_its_own() -> None:
    verdicts = cited(
        (TEXTS[2], 3), ("Logs stay for a week.", 2), ("Invented words of nobody.", 1), ("Older logs are deleted.", 2)
    )
    assert answer_text(verdicts, LOCK) == (
        "Lag is measured in records. [1]\n\nLogs stay for a week. [2]\n\nOlder logs are deleted. [2]"
    )
    citations = citations_of(verdicts, LOCK)
    assert [(each.index, each.passage) for each in citations] == [(1, 3), (2, 2), (2, 2)]


def test_a_quote_that_was_swapped_is_numbered_by_where_it_appears() -> None:
    verdicts = cited(("Logs stay for a week.", 1), (TEXTS[0], 1))
    assert [verdict.outcome for verdict in verdicts] == ["swapped", "exact"]
    assert answer_text(verdicts, LOCK) == "Logs stay for a week. [1]\n\nBrokers stop at night. [2]"


def test_markdown_lists_each_source_once_with_its_quotes() -> None:
    verdicts = cited(("Logs stay for a week.", 2), (TEXTS[2], 3), ("Older logs are deleted.", 2))
    citations = citations_of(verdicts, LOCK)
    sources = markdown(Answer("answered", answer_text(verdicts, LOCK), citations)).splitlines()[-2:]
    assert [source[:5] for source in sources] == ["- [1]", "- [2]"]
    assert sources[0].endswith("“Logs stay for a week.”, “Older logs are deleted.”")


def test_what_was_read_is_told_with_its_place_and_its_number() -> None:
    found = explained(LOCK, cited((TEXTS[2], 3)))
    assert [(each["passage"], each["index"]) for each in found] == [(1, None), (2, None), (3, 1)]


# From the question to the receipt, by a model that cites the last passage first

QUESTION = "What do the pages say about broker logs, a broker restart and a consumer lag alert?"
QUOTES = {
    "logs": "Each broker keeps logs for 168 hours by default",
    "restart": "Stop the broker with the stop script",
    "lag": "the lag stays above 10,000 records for five minutes",
}


def citing_backwards(messages: list[dict[str, str]]) -> list[str]:
    """Sentences that cite the passages in the prompt from the last to the first."""
    blocks = enumerate(passages_of(messages[1]["content"]), start=1)
    known = [(number, quote) for number, text in blocks for quote in QUOTES.values() if quote in text]
    assert len(known) == len(QUOTES)
    return [f'{quote}. "{quote}" [{number}]\n\n' for number, quote in sorted(known, reverse=True)]


@pytest.fixture(scope="module")
def backwards() -> Iterator[dict[str, Any]]:
    with served(StandInChat(citing_backwards)) as server:
        yield {"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{server.url}/v1"}


@pytest.fixture
def client(wiki_home: Path, backwards: dict[str, Any]) -> Iterator[TestClient]:
    app = create_app(configuration(wiki_home, generation=backwards))
    with TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 50000)) as opened:
        yield opened


def test_every_door_tells_the_same_numbers(client: TestClient) -> None:
    answer = client.post("/v1/ask", json={"question": QUESTION, "explain": True}).json()
    assert [int(number) for number in re.findall(r"\[(\d)\]", answer["answer"])] == [1, 2, 3]
    assert [citation["index"] for citation in answer["citations"]] == [1, 2, 3]
    read = {passage["index"]: passage for passage in answer["passages"] if passage["index"]}
    assert [read[number]["chunk_id"] for number in (1, 2, 3)] == [c["chunk_id"] for c in answer["citations"]]
    assert read[1]["passage"] > read[2]["passage"] > read[3]["passage"]
    told = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": QUESTION}]}).json()
    content = re.sub(
        r"\[(\[\d\])\]\([^)\s]*\)", r"\1", told["choices"][0]["message"]["content"]
    )  # numbers are links there
    assert content.startswith(answer["answer"])
    streamed = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    pieces = completion_chunks(client.post("/v1/chat/completions", json=streamed).text)
    content = "".join(choice["delta"].get("content", "") for piece in pieces for choice in piece["choices"])
    assert content == told["choices"][0]["message"]["content"]
    assert [line[:5] for line in content.splitlines() if line.startswith("- ")] == ["- [1]", "- [2]", "- [3]"]


def test_a_sentence_that_is_streamed_has_the_number_of_the_answer(client: TestClient) -> None:
    lines = client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text.splitlines()
    events = [(name[7:], json.loads(data[6:])) for name, data in pairwise(lines) if name[:6] == "event:"]
    sentences = [content["text"] for name, content in events if name == "sentence"]
    assert "\n\n".join(sentences) == events[-1][1]["answer"]
    assert [sentence[-3:] for sentence in sentences] == ["[1]", "[2]", "[3]"]


def test_the_receipt_keeps_place_and_number_and_feedback_means_the_number(client: TestClient) -> None:
    answer = client.post("/v1/ask", json={"question": QUESTION}).json()
    receipt = client.get(f"/v1/receipts/{answer['receipt_id']}").json()
    passages = {passage["index"]: passage["chunk_id"] for passage in receipt["passages"]}
    for stored, shown in zip(receipt["citations"], answer["citations"], strict=True):
        assert stored["index"] == shown["index"]
        assert passages[stored["passage"]] == shown["chunk_id"]
    assert [citation["passage"] for citation in receipt["citations"]] != [1, 2, 3]
    verdict = {"receipt_id": answer["receipt_id"], "verdict": "wrong_citation"}
    assert client.post("/v1/feedback", json={**verdict, "citation": 3}).status_code == 202
    refused = client.post("/v1/feedback", json={**verdict, "citation": 4})
    assert refused.json()["message"] == "citation: the answer has no [4], only [1], [2], [3]"


@pytest.fixture
def receipt(wiki_home: Path, backwards: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Pipeline]]:
    pipeline = Pipeline.open(configuration(wiki_home, generation=backwards), "acme", embedder())
    answer = pipeline.ask(Principal("acme"), QUESTION)
    stored = pipeline.receipts.get(answer.receipt_id or "", "acme")
    yield copy.deepcopy(pipeline.proofs._secrecy.opened(stored)), pipeline
    pipeline.close()


def test_a_receipt_whose_numbers_were_changed_does_not_hold(receipt: tuple[dict[str, Any], Pipeline]) -> None:
    content, pipeline = receipt
    with pipeline.published.acquire() as generation:
        assert faults(content, generation, pipeline.proofs._secrecy.question_fault) == []
        first, last = content["citations"][0], content["citations"][-1]
        first["index"], last["index"] = last["index"], first["index"]
        place = first["passage"]
        assert f"citation [3]: the answer cites passage {place} as [1]" in faults(
            content, generation, pipeline.proofs._secrecy.question_fault
        )


def test_a_receipt_of_an_older_version_is_read_by_its_places_and_says_what_it_cannot_prove(
    receipt: tuple[dict[str, Any], Pipeline],
) -> None:
    content, pipeline = receipt
    content["version"] = 2
    for citation in content["citations"]:
        citation["index"] = citation.pop("passage")
    del content["rules"]["quote_max_words"]
    with pipeline.published.acquire() as generation:
        unproved = "sentences: version 2 compared them by rules that are gone; the quotes hold. Ask the question again"
        assert faults(content, generation, pipeline.proofs._secrecy.question_fault) == [unproved]
        content["citations"][0]["index"] = 1 + content["citations"][0]["index"] % 3
        assert len(faults(content, generation, pipeline.proofs._secrecy.question_fault)) > 1
