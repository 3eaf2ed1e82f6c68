from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from wiki import PASSAGES, configuration, embedder, publish

from rag_serving.access import Principal
from rag_serving.pipeline import Pipeline
from rag_serving.receipts import ReceiptError, ReceiptStore, canonical, receipt_id
from rag_serving.store import Store, remove_folder

EVERYONE, HR = Principal("acme"), Principal("acme", None, frozenset({"hr"}))
QUESTION = "May I restart a broker while partitions are under-replicated?"


def ask(pipeline: Pipeline, principal: Principal = EVERYONE, question: str = QUESTION) -> str:
    identifier = pipeline.ask(principal, question).receipt_id
    assert identifier is not None
    return identifier


def test_a_receipt_names_everything_and_holds(pipeline: Pipeline) -> None:
    identifier = ask(pipeline)
    receipt = pipeline.receipts.get(identifier, "acme")
    assert receipt_id(receipt) == identifier
    assert receipt["generation"] == Store(pipeline.config.home).current("acme")
    assert receipt["citations"][0]["quote"].startswith("You must not restart")
    assert receipt["passages"][0].keys() == {"index", "chunk_id", "page_id", "page_version", "text_hash"}
    assert receipt["verdicts"][0]["outcome"] == "exact"
    assert pipeline.receipt_faults(identifier) == []


def test_a_receipt_holds_after_a_newer_generation(tmp_path: Path) -> None:
    publish(tmp_path)
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    identifier = ask(pipeline)
    publish(tmp_path, PASSAGES[1:])
    pipeline.published.refresh()
    assert pipeline.receipt_faults(identifier) == []


def test_a_receipt_of_a_pruned_generation_says_so(tmp_path: Path) -> None:
    first = publish(tmp_path)
    pipeline = Pipeline.open(configuration(tmp_path), "acme", embedder())
    identifier = ask(pipeline)
    publish(tmp_path, PASSAGES[1:])
    remove_folder(Store(tmp_path).generation("acme", first))
    with pytest.raises(ReceiptError, match="generation cannot be opened"):
        pipeline.receipt_faults(identifier)


def tamper(pipeline: Pipeline, identifier: str, change: str, forge_id: bool) -> str:
    """Change a stored receipt; with `forge_id` under the id that its new content has."""
    receipt = pipeline.receipts.get(identifier, "acme")
    if change == "quote":
        receipt["citations"][0]["quote"] = "You may restart a broker at any time."
    elif change == "chunk":
        receipt["citations"][0]["chunk_id"] = "12:1:0"
    elif change == "hash":
        receipt["passages"][0]["text_hash"] = "0" * 32
    elif change == "question":
        receipt["question"] = "Another question?"
    else:
        receipt["passages"][0]["chunk_id"] = "99:1:0"
    forged = receipt_id(receipt) if forge_id else identifier
    with sqlite3.connect(Store(pipeline.config.home).serving_db()) as database:
        database.execute("INSERT OR REPLACE INTO receipts VALUES (?, 'acme', '', ?)", (forged, canonical(receipt)))
    database.close()
    return forged


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("quote", "the quote does not stand at its offsets"),
        ("chunk", "was not in the lock"),
        ("hash", "has another text or version"),
        ("question", "the question is not the one that was hashed"),
        ("missing", "is not in the generation"),
    ],
)
def test_a_forged_receipt_does_not_hold(pipeline: Pipeline, change: str, fault: str) -> None:
    assert any(fault in line for line in pipeline.receipt_faults(tamper(pipeline, ask(pipeline), change, True)))


def test_a_changed_receipt_is_not_its_id_any_more(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, question="How long does a broker keep logs by default?")
    assert pipeline.receipt_faults(tamper(pipeline, identifier, "quote", False)) == [
        "the receipt was changed after it was stored: its digest is not its id"
    ]


def test_only_who_may_read_all_passages_sees_a_receipt(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, HR, "What salary bonus does the broker team earn in December?")
    assert pipeline.receipt(HR, identifier)["question"].startswith("What salary")
    with pytest.raises(ReceiptError, match="may not read"):
        pipeline.receipt(EVERYONE, identifier)


def test_a_receipt_of_another_tenant_is_not_there(pipeline: Pipeline) -> None:
    with pytest.raises(ReceiptError, match="tenant 'other' has no receipt"):
        pipeline.receipts.get(ask(pipeline), "other")


def test_the_canonical_form_does_not_depend_on_key_order() -> None:
    assert canonical({"b": 1, "a": "ü"}) == canonical({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'


def test_many_threads_and_two_stores_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "serving.db"
    stores = ReceiptStore(path), ReceiptStore(path)
    receipts = [{"tenant": "acme", "created_at": "", "n": number} for number in range(40)]
    threads = [threading.Thread(target=stores[number % 2].put, args=(receipts[number],)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(stores[0].get(receipt_id(receipt), "acme") == receipt for receipt in receipts)
    for store in stores:
        store.close()


def test_a_database_deleted_under_the_store_is_made_again(tmp_path: Path) -> None:
    store = ReceiptStore(tmp_path / "serving.db")
    receipt = {"tenant": "acme", "created_at": "", "n": 1}
    store.put(receipt)
    for file in tmp_path.glob("serving.db*"):
        file.unlink()
    with pytest.raises(ReceiptError, match="nothing was asked"):
        store.get(receipt_id(receipt), "acme")
    assert store.get(store.put(receipt), "acme") == json.loads(canonical(receipt))
    store.close()
