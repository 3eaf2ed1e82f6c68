"""A receipt keeps what was asked and by whom from everybody but the asker, and no longer than it must."""

from __future__ import annotations

import json
import logging
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.wiki import configuration, copied, embedder
from typer.testing import CliRunner

from rag_serving.access.principals import ROLES, Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.cli.printing import Finding
from rag_serving.escaping.redaction import redacted
from rag_serving.privacy import LineFormatter
from rag_serving.receipts.receipt import VERSION, ReceiptError, Secrecy
from rag_serving.receipts.store import ReceiptStore
from rag_serving.telemetry.telemetry import open_telemetry

QUESTION = "May I restart a broker while partitions are under-replicated?"
ANN, BOB = Principal("acme", "ann"), Principal("acme", "bob")


@pytest.fixture
def home(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path / "home")


@pytest.fixture
def private(home: Path) -> Iterator[Pipeline]:
    config = configuration(home)
    opened = Pipeline.open(config, "acme", embedder(), telemetry=open_telemetry(config, "acme"))
    yield opened
    opened.close()


def ask(pipeline: Pipeline, who: Principal, question: str = QUESTION) -> str:
    identifier = pipeline.ask(who, question).receipt_id
    assert identifier
    return identifier


def test_a_stored_question_cannot_be_read_and_its_receipt_is_proved(private: Pipeline) -> None:
    identifier = ask(private, ANN)
    content = private.receipts.stored(identifier, "acme").content
    assert "under-replicated?" not in content
    assert "ann" not in json.loads(content)["asker"]
    assert private.proof(identifier).faults == ()
    assert private.receipt(ANN, identifier)["question"] == QUESTION


def test_who_opts_in_keeps_the_text(home: Path) -> None:
    config = configuration(home, telemetry={"store_questions": True})
    with closing(Pipeline.open(config, "acme", embedder())) as pipeline:
        identifier = ask(pipeline, ANN)
        assert pipeline.receipts.get(identifier, "acme")["question"] == QUESTION
        assert pipeline.proof(identifier).faults == ()


@pytest.mark.parametrize("question", ["", "?", "Größe\0 \ud800 \u2028" * 50])
def test_any_question_comes_back_and_only_by_the_secret(tmp_path: Path, question: str) -> None:
    made = {"version": VERSION, "tenant": "acme", "question": question}
    receipt = Secrecy(tmp_path / "one").kept(ANN, made)
    opened = Secrecy(tmp_path / "one").opened(receipt)
    assert (opened["question"], Secrecy(tmp_path / "one").question_fault(opened)) == (question, None)
    other = Secrecy(tmp_path / "two")
    assert other.opened(receipt)["question"] is None
    assert "the installation's secret is another one" in str(other.question_fault(other.opened(receipt)))


def test_only_the_asker_or_an_operator_sees_a_receipt(private: Pipeline) -> None:
    identifier = ask(private, ANN)
    for who in (BOB, Principal("acme"), Principal("acme", None, frozenset({"ann"}))):
        with pytest.raises(ReceiptError, match="is of another asker"):
            private.receipt(who, identifier)
    moved = Principal("acme", "ann", frozenset({"ops"}))
    for who in (ANN, moved, Principal("acme", "boss", roles=ROLES)):
        assert private.receipt(who, identifier)["question"] == QUESTION


def test_receipts_go_with_the_days_that_are_kept(tmp_path: Path) -> None:
    def receipt(days: int) -> dict[str, str]:
        return {"tenant": "acme", "created_at": (datetime.now(UTC) - timedelta(days=days)).isoformat()}

    with closing(ReceiptStore(tmp_path / "serving.db")) as before:
        old, recent = before.put(receipt(31)), before.put(receipt(29))
    with closing(ReceiptStore(tmp_path / "serving.db", keep_days=30)) as store:
        new = store.put(receipt(0))
        assert [store.get(one, "acme")["tenant"] for one in (recent, new)] == ["acme"] * 2
        with pytest.raises(ReceiptError, match="has no receipt"):
            store.get(old, "acme")


def test_a_user_is_forgotten_and_nobody_else(private: Pipeline, tmp_path: Path) -> None:
    of_ann, of_bob = ask(private, ANN), ask(private, BOB, QUESTION + ' "asker":"x"')
    assert private.telemetry
    private.telemetry.judged(ANN, of_ann, "helpful", None, None)
    private.telemetry._recorder.flush()
    config = tmp_path / "app.yaml"
    config.write_text(f"home: {private.config.home}\ntenants: {{acme: {{}}}}\n")
    nothing_else = {"tenant": "acme", "sessions": 0, "audit": 0, "keys": 0}
    for expected in ({"receipts": 1, "telemetry": 2}, {"receipts": 0, "telemetry": 0}):
        result = CliRunner().invoke(app, ["forget", "--user", "ann", "--config", str(config), "--json"])
        assert (result.exit_code, json.loads(result.stdout)) == (0, {**nothing_else, **expected})
    with pytest.raises(ReceiptError, match="has no receipt"):
        private.receipts.get(of_ann, "acme")
    assert private.receipt(BOB, of_bob)
    with closing(sqlite3.connect(Store(private.config.home).serving_db())) as database:
        assert database.execute("SELECT count(*) FROM questions").fetchone() == (1,)


def test_the_database_is_its_owners_alone_from_the_beginning(private: Pipeline) -> None:
    ask(private, ANN)
    assert private.telemetry
    private.telemetry._recorder.flush()
    files = sorted(private.config.home.glob("serving.db*"))
    assert len(files) > 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("GET https://bot:s3cret@wiki.example:8090/x?q=a@b failed", "GET https://***@wiki.example:8090/x?q=a@b failed"),
        (
            "postgresql+psycopg://u:p%40ss@db/name and http://token@h",
            "postgresql+psycopg://***@db/name and http://***@h",
        ),
        ("redis://:pa@ss@host", "redis://***@host"),
        (
            "mail ann at acme, see https://wiki.example/@ann",
            "mail ann at acme, see https://wiki.example/@ann",
        ),
    ],
)
def test_user_information_is_taken_out_of_urls_everywhere(text: str, kept: str) -> None:
    assert redacted(text) == kept
    assert Finding("x", "fail", text).detail == kept
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", (text,), None)
    assert LineFormatter("%(message)s").format(record) == kept


def test_a_long_text_is_redacted_in_time() -> None:
    for text in ("://" * 100_000, "://a@" * 50_000, "://" + "@" * 200_000, "://" + "a" * 300_000):
        start = time.process_time()
        redacted(text)
        assert time.process_time() - start < 5
