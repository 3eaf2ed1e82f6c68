from __future__ import annotations

import copy
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.wiki import PASSAGES, publish

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store, remove_folder, write_ahead
from rag_serving.ask import Pipeline
from rag_serving.receipts.receipt import ReceiptError, canonical, receipt_id
from rag_serving.receipts.store import ReceiptStore, StoredReceipt

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
    assert pipeline.proof(identifier).faults == ()


def test_a_receipt_holds_after_a_newer_generation(pipeline: Pipeline) -> None:
    identifier = ask(pipeline)
    publish(pipeline.config.home, PASSAGES[1:])
    pipeline.published.refresh()
    assert pipeline.proof(identifier).faults == ()


def test_a_receipt_of_a_pruned_generation_says_so(pipeline: Pipeline) -> None:
    identifier, store = ask(pipeline), Store(pipeline.config.home)
    first = store.current("acme") or ""
    publish(pipeline.config.home, PASSAGES[1:])
    remove_folder(store.generation("acme", first))
    with pytest.raises(ReceiptError, match="generation cannot be opened"):
        pipeline.proof(identifier)


def change_row(home: Path, identifier: str, **columns: str) -> None:
    with closing(sqlite3.connect(Store(home).serving_db())) as database, database:
        for name, value in columns.items():
            database.execute(f"UPDATE receipts SET {name} = ? WHERE id = ?", (value, identifier))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field of a receipt."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from leaves(inner, (*path, at))
    else:
        yield path


def changed(receipt: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """The receipt with another value in one field."""
    copied = copy.deepcopy(receipt)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[key]
    value = inner[path[-1]]
    inner[path[-1]] = value + 1 if isinstance(value, int | float) else f"{value}x" if isinstance(value, str) else "x"
    return copied


def test_an_edit_of_any_field_is_found(pipeline: Pipeline) -> None:
    identifier = ask(pipeline)
    receipt, store = pipeline.receipts.get(identifier, "acme"), pipeline.receipts
    stored = store.stored(identifier, "acme")
    paths = list(leaves(receipt))
    assert len(paths) > 50
    for path in paths:
        forged = changed(receipt, path)
        for name in (identifier, receipt_id(forged)):
            fields = {**vars(stored), "id": name, "content": canonical(forged)}
            assert store.signature_fault(StoredReceipt(**fields)), path


@pytest.mark.parametrize("column", ["created_at", "content", "signature", "id"])
def test_a_changed_row_does_not_hold_and_is_not_shown(pipeline: Pipeline, column: str) -> None:
    identifier = ask(pipeline)
    value = getattr(pipeline.receipts.stored(identifier, "acme"), column)
    change_row(pipeline.config.home, identifier, **{column: value + " "})
    shown = identifier + " " if column == "id" else identifier
    assert pipeline.proof(shown).faults[0].startswith("signature: its signature does not hold")
    with pytest.raises(ReceiptError, match="signature does not hold"):
        pipeline.receipt(EVERYONE, shown)


def test_a_receipt_of_another_tenant_cannot_be_passed_on(pipeline: Pipeline) -> None:
    identifier = ask(pipeline)
    change_row(pipeline.config.home, identifier, tenant="other")
    with pytest.raises(ReceiptError, match="signature does not hold"):
        pipeline.receipts.get(identifier, "other")


def test_a_receipt_signed_with_another_secret_does_not_hold(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = ask(pipeline)
    monkeypatch.setenv("CITELOCK_SECRET", "another secret of an installation")
    assert pipeline.proof(identifier).faults[0].startswith("signature: ")


def test_servers_with_one_secret_believe_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "one secret for all servers")
    receipt = {"tenant": "acme", "created_at": "", "n": 1}
    with closing(ReceiptStore(tmp_path / "db", tmp_path / "a")) as one:
        identifier = one.put(receipt)
    with closing(ReceiptStore(tmp_path / "db", tmp_path / "b")) as two:
        assert two.get(identifier, "acme") == receipt


def test_receipts_of_an_older_program_are_kept_but_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "serving.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE receipts (id TEXT PRIMARY KEY, tenant TEXT, created_at TEXT, content TEXT)")
        database.execute("INSERT INTO receipts VALUES ('old', 'acme', '', '{}')")
    with closing(ReceiptStore(path)) as store:
        for _ in range(2):
            with pytest.raises(ReceiptError, match="it is not signed"):
                store.get("old", "acme")
            store.get(store.put({"tenant": "acme", "created_at": "", "n": 1}), "acme")


def resign(pipeline: Pipeline, receipt: dict[str, Any]) -> str:
    """Store a receipt that does not say the truth, signed by who has the key."""
    return pipeline.receipts.put(receipt)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("citations", 0, "quote"), "You may restart a broker.", "citation [1]: the quote does not stand at its"),
        (("citations", 0, "chunk_id"), "12:1:0", "citation [1]: chunk 12:1:0 was not in the lock"),
        (("citations", 0, "start"), 0, "citation [1]: the quote does not stand at its offsets"),
        (("citations", 0, "url"), "https://wiki.example/11", "citation [1]: the link has no anchor"),
        (("passages", 0, "text_hash"), "0" * 32, "passage [1]: chunk 11:1:0 has another text or version"),
        (("passages", 0, "chunk_id"), "99:1:0", "passage [1]: chunk 99:1:0 is not in the generation"),
        (("verdicts", 0, "outcome"), "fuzzy", "verdict 1: it was fuzzy (verbatim), is now exact (verbatim)"),
        (("verdicts", 0, "quote"), "You must now restart it", "verdict 1: it was exact (verbatim), is now dropped"),
        (("verdicts", 0, "shown"), "You may restart a broker.", "verdict 1: it was exact (verbatim), is now exact"),
        (("verdicts", 0, "support"), "quoted", "verdict 1: it was exact (verbatim), is now exact"),
        (
            ("verdicts", 0, "sentence"),
            "You may restart a broker.",
            "verdict 1: it was exact (verbatim), is now dropped",
        ),
        (("verdicts", 0, "selected"), False, "verdict 1: it was exact (verbatim), is now exact"),
        (("question",), "Another question?", "question: it is not the one that was hashed"),
        (("version",), 1, "receipt: it has version 1, this program reads version 2"),
        (("rules",), {"nonsense": 1}, "receipt: it cannot be read (TypeError"),
        (("passages",), None, "receipt: it cannot be read (TypeError"),
    ],
)
def test_each_part_that_does_not_hold_is_named(
    pipeline: Pipeline, path: tuple[Any, ...], value: object, fault: str
) -> None:
    receipt: Any = pipeline.receipts.get(ask(pipeline), "acme")
    inner = receipt
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert [line for line in pipeline.proof(resign(pipeline, receipt)).faults if line.startswith(fault)]


@pytest.mark.parametrize("version", [5, 8])
def test_of_an_older_receipt_the_quotes_are_proved_and_its_sentences_are_said_not_to_be(
    pipeline: Pipeline, version: int
) -> None:
    receipt: Any = pipeline.receipts.get(ask(pipeline), "acme")
    receipt["version"] = version
    unproved = f"sentences: version {version} compared them by rules that are gone; the quotes hold"
    (fault,) = pipeline.proof(resign(pipeline, receipt)).faults
    assert fault.startswith(unproved)
    receipt["citations"][0]["quote"] = "You may restart a broker."
    assert len(pipeline.proof(resign(pipeline, receipt)).faults) == 2


def test_what_has_changed_since_is_told_beside_a_receipt_that_holds(pipeline: Pipeline) -> None:
    identifier = ask(pipeline)
    cited = pipeline.receipts.get(identifier, "acme")["citations"][0]
    told = {}
    for name, passages in {
        "same": PASSAGES,
        "newer": (replace(PASSAGES[0], version=2), *PASSAGES[1:]),
        "rewritten": (replace(PASSAGES[0], version=2, text="Ask the operators."), *PASSAGES[1:]),
        "gone": PASSAGES[1:],
    }.items():
        publish(pipeline.config.home, passages)
        pipeline.published.refresh()
        proof = pipeline.proof(identifier)
        assert proof.faults == ()
        told[name] = [line for line in proof.changes if " 11" in line]
    assert cited["chunk_id"] == "11:1:0"
    newer = "passage [1]: page 11 is now version 2, it was 1"
    assert told["same"] == []
    assert told["newer"] == [newer]
    assert told["rewritten"] == [newer, "citation [1]: the quote stands on page 11 no more"]
    assert told["gone"][0] == "passage [1]: page 11 is not published any more"


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


def test_a_new_database_that_another_connection_makes_is_waited_for(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.db", check_same_thread=False, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with closing(sqlite3.connect(tmp_path / "new.db", timeout=0)) as ours:
            ended = threading.Timer(0.1, other.execute, ["COMMIT"])
            ended.start()
            write_ahead(ours)
            assert ours.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            ended.join()


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
