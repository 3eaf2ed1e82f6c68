"""A proof names each part that it looked at, and says of each what its faults say."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION as BODY
from support.api_client import TOKENS, bearer, client_of
from support.wiki import PASSAGES, publish

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline

EVERYONE = Principal("acme")
QUESTION = BODY["question"]


def ask(pipeline: Pipeline) -> str:
    return pipeline.ask(EVERYONE, QUESTION).receipt_id or ""


def failing(pipeline: Pipeline, identifier: str) -> set[tuple[str, int | None]]:
    proof = pipeline.proof(identifier)
    wrong = {(check.name, check.index) for check in proof.checks if not check.ok and check.name != "page"}
    assert bool(wrong) == bool(proof.faults)
    told = " ".join(check.detail for check in proof.checks)
    assert all(fault.partition(": ")[2] in told for fault in proof.faults)
    return wrong


def test_a_receipt_that_holds_has_every_part_named(pipeline: Pipeline) -> None:
    proof = pipeline.proof(ask(pipeline), EVERYONE)
    names = [check.name for check in proof.checks]
    assert names[:4] == ["signature", "id", "generation", "question"]
    assert {"text_hash", "lock", "quote", "verdicts", "outcome", "page"} <= {*names}
    assert all(check.ok and check.detail for check in proof.checks)
    assert (proof.faults, proof.changes, proof.generation) == ((), (), proof.published_generation)


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        (("citations", 0, "quote"), "You may restart a broker.", ("quote", 1)),
        (("citations", 0, "start"), 0, ("quote", 1)),
        (("citations", 0, "chunk_id"), "12:1:0", ("lock", None)),
        (("passages", 0, "text_hash"), "0" * 32, ("text_hash", 1)),
        (("passages", 0, "chunk_id"), "99:1:0", ("text_hash", 1)),
        (("verdicts", 0, "outcome"), "fuzzy", ("verdicts", None)),
        (("outcome",), "closest", ("outcome", None)),
        (("question",), "Another question?", ("question", None)),
        (("version",), 1, ("generation", None)),
        (("passages",), None, ("generation", None)),
        (("citations",), None, ("generation", None)),
    ],
)
def test_the_part_that_does_not_hold_is_the_one_that_is_named(
    pipeline: Pipeline, path: tuple[Any, ...], value: object, part: tuple[str, int | None]
) -> None:
    receipt: Any = copy.deepcopy(pipeline.receipts.get(ask(pipeline), "acme"))
    inner = receipt
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert part in failing(pipeline, pipeline.receipts.put(receipt))


@pytest.mark.parametrize(("column", "part"), [("signature", "signature"), ("created_at", "signature")])
def test_a_row_that_was_changed_fails_by_its_signature(pipeline: Pipeline, column: str, part: str) -> None:
    identifier = ask(pipeline)
    with closing(sqlite3.connect(Store(pipeline.config.home).serving_db())) as database, database:
        database.execute(f"UPDATE receipts SET {column} = {column} || ' ' WHERE id = ?", (identifier,))
    assert failing(pipeline, identifier) == {(part, None)}


def test_a_page_that_changed_is_told_and_the_receipt_holds(pipeline: Pipeline) -> None:
    identifier = ask(pipeline)
    publish(pipeline.config.home, PASSAGES[1:])
    pipeline.published.refresh()
    proof = pipeline.proof(identifier)
    assert proof.faults == ()
    assert next((check.ok, check.index) for check in proof.checks if check.name == "page") == (False, 1)
    assert proof.generation != proof.published_generation


@pytest.fixture
def client(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    with client_of(wiki_home, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens"}) as opened:
        yield opened


def test_a_receipt_is_shared_and_verified_over_http(client: TestClient) -> None:
    asked = client.post("/v1/ask", json=BODY, headers=bearer("all")).json()
    address = f"/v1/receipts/{asked['receipt_id']}"
    nothing = client.get("/v1/receipts/" + "0" * 32, headers=bearer("hr"))
    for method, path in (("GET", address), ("POST", f"{address}/verify"), ("POST", f"{address}/share")):
        refused = client.request(method, path, headers=bearer("hr"))
        assert (refused.status_code, refused.json()) == (404, nothing.json())
    shared = client.post(f"{address}/share", headers=bearer("all")).json()
    assert shared == {"receipt_id": asked["receipt_id"], "shared": True, "path": f"/a/{asked['receipt_id']}"}
    assert client.get(address, headers=bearer("hr")).json()["question"] == QUESTION
    assert client.get(address, headers=bearer("o")).status_code == 404
    proof = client.post(f"{address}/verify", headers=bearer("hr")).json()
    assert (proof["valid"], proof["faults"], proof["changes"]) == (True, [], [])
    assert proof["generation"] == proof["published_generation"] == asked["generation"]
    assert {check["name"]: check["ok"] for check in proof["checks"]}["quote"] is True
    assert proof["ms"] >= 0
    refused = client.delete(f"{address}/share", headers=bearer("hr"))
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert client.delete(f"{address}/share", headers=bearer("all")).status_code == 204
    assert client.get(address, headers=bearer("hr")).status_code == 404


@pytest.mark.parametrize("identifier", ["x", "0" * 10_000, "%00", "..%2f..", "'; DROP TABLE receipts; --", "‮"])
def test_whatever_is_asked_for_is_no_receipt(client: TestClient, identifier: str) -> None:
    for method, end in (("GET", ""), ("POST", "/verify"), ("POST", "/share"), ("DELETE", "/share")):
        response = client.request(method, f"/v1/receipts/{identifier}{end}", headers=bearer("all"))
        assert response.status_code in (404, 405, 414)
