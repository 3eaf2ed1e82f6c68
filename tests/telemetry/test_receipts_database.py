"""Receipts where telemetry goes: stored, shown and proved from a real Postgres, which may be away or never answer."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, func, select, update
from support.wiki import configuration, embedder, publish
from typer.testing import CliRunner

from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.models.breaker import Breaker
from rag_serving.receipts.database_table import METADATA, RECEIPTS, SHARES, DatabaseTable
from rag_serving.receipts.proofs import NO_RECEIPT
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError, receipt_id
from rag_serving.receipts.store import ReceiptStore, open_receipts
from rag_serving.telemetry.tables import open_engine

if TYPE_CHECKING:
    from support.postgres import Postgres

EVERYONE = Principal("acme")
QUESTION = "May I restart a broker while partitions are under-replicated?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proved")
    publish(folder)
    return folder


@pytest.fixture
def engine(postgres: Postgres, tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(postgres.url, tmp_path / "none.db")
    METADATA.drop_all(opened)
    yield opened
    opened.dispose()


def stored(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(RECEIPTS)).scalar_one())


def receipt(number: int) -> dict[str, Any]:
    return {"tenant": "acme", "created_at": "now", "n": number, "text": "Größe \0 \u2028"}


def test_answers_are_proved_from_the_database_of_telemetry(postgres: Postgres, engine: Engine, home: Path) -> None:
    config = configuration(home, telemetry={"url": postgres.url})
    with closing(Pipeline.open(config, "acme", embedder())) as pipeline:
        identifier = pipeline.ask(EVERYONE, QUESTION).receipt_id
        assert identifier
        assert stored(engine) == 1
        assert pipeline.proof(identifier).faults == ()
        assert pipeline.receipt(EVERYONE, identifier)["question"] == QUESTION
        with engine.begin() as connection:
            connection.execute(update(RECEIPTS).values(created_at="yesterday"))
        assert "signature" in pipeline.proof(identifier).faults[0]
    with closing(sqlite3.connect(home / "serving.db")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    assert "receipts" not in tables


def test_the_commands_read_what_the_server_stored(
    postgres: Postgres, engine: Engine, home: Path, tmp_path: Path
) -> None:
    config = tmp_path / "app.yaml"
    config.write_text(f"home: {home}\ntenants: {{acme: {{}}}}\ntelemetry: {{url: '{postgres.url}'}}\n")
    server = create_app(configuration(home, telemetry={"url": postgres.url}))
    with TestClient(server, "http://127.0.0.1:8088", client=("127.0.0.1", 5000)) as client:
        identifier = client.post("/v1/ask", json={"question": QUESTION}).json()["receipt_id"]
        assert client.get(f"/v1/receipts/{identifier}").status_code == 200
    assert stored(engine) == 1
    for command in (
        ["receipt", "show", identifier],
        ["receipt", "verify", identifier],
        ["feedback", identifier, "helpful"],
    ):
        result = CliRunner().invoke(app, [*command, "--config", str(config)])
        assert (result.exit_code, result.stderr) == (0, ""), command


def test_receipts_from_before_the_database_are_still_found(postgres: Postgres, engine: Engine, home: Path) -> None:
    with closing(open_receipts(configuration(home))) as before:
        early = before.put(receipt(1))
    with closing(open_receipts(configuration(home, telemetry={"url": postgres.url}))) as now:
        late = now.put(receipt(2))
        assert (now.get(early, "acme")["n"], now.get(late, "acme")) == (1, receipt(2))
        with pytest.raises(ReceiptError, match="has no receipt"):
            now.get(late, "other")
    assert stored(engine) == 1


def test_shares_lie_beside_their_receipts_and_go_with_them(postgres: Postgres, engine: Engine, home: Path) -> None:
    with closing(open_receipts(configuration(home))) as before:
        early = before.put(receipt(5))
    with closing(open_receipts(configuration(home, telemetry={"url": postgres.url}))) as store:
        late = store.put({**receipt(6), "asker": "a" * 32})
        for identifier in (early, late):
            assert not store.is_shared(identifier, "acme")
            for _ in range(2):
                store.share(identifier, "acme")
                assert store.is_shared(identifier, "acme")
        with engine.begin() as connection:
            connection.execute(update(SHARES).values(signature="made up"))
        assert (store.is_shared(early, "acme"), store.is_shared(late, "acme")) == (True, False)
        store.unshare(early, "acme")
        assert not store.is_shared(early, "acme")
        store.share(late, "acme")
        assert store.forget("acme", "a" * 32) == 1
    with engine.connect() as connection:
        assert connection.execute(select(SHARES)).all() == []


def test_an_asker_is_forgotten_and_old_receipts_go(postgres: Postgres, engine: Engine, tmp_path: Path) -> None:
    table = DatabaseTable(postgres.url, tmp_path / "none.db")
    with closing(ReceiptStore(tmp_path / "none.db", tmp_path, (table,))) as store:
        for number, asker in enumerate(("a" * 32, "b" * 32, "b" * 32)):
            store.put({**receipt(number), "created_at": f"202{number}-01-01T00:00:00", "asker": asker})
        assert store.forget("other", "b" * 32) == 0
        assert store.forget("acme", "a" * 32) == 1
    with closing(ReceiptStore(tmp_path / "none.db", tmp_path, (table,), keep_days=30)) as store:
        store.put(receipt(3))
    assert stored(engine) == 1


@pytest.mark.usefixtures("engine")
def test_a_question_is_answered_while_the_database_is_away(postgres: Postgres, home: Path) -> None:
    config = configuration(home, telemetry={"url": postgres.url})
    with closing(Pipeline.open(config, "acme", embedder())) as pipeline:
        identifier = pipeline.ask(EVERYONE, QUESTION).receipt_id or ""
        postgres.stop()
        try:
            for _ in range(3):
                answer = pipeline.ask(EVERYONE, QUESTION + "!")
                assert (answer.status, answer.receipt_id) == ("answered", None)
                assert NO_RECEIPT in answer.flags
            with pytest.raises(ReceiptsAwayError):
                pipeline.receipt(EVERYONE, identifier)
            client = TestClient(create_app(config), "http://127.0.0.1:8088", client=("127.0.0.1", 5000))
            response = client.get(f"/v1/receipts/{identifier}")
            assert (response.status_code, response.json()["code"]) == (503, "UNAVAILABLE")
            assert "127.0.0.1" not in response.text
        finally:
            postgres.start()
        pipeline.receipts._tables[0]._database._breaker = Breaker()  # type: ignore[attr-defined]
        assert pipeline.ask(EVERYONE, QUESTION).receipt_id
        assert pipeline.receipt(EVERYONE, identifier)


@pytest.mark.usefixtures("engine")
def test_a_database_that_never_answers_holds_no_question(postgres: Postgres, tmp_path: Path) -> None:
    table = DatabaseTable(postgres.url, tmp_path / "db", wait_s=0.5, breaker=Breaker(2, 60))
    store = ReceiptStore(tmp_path / "db", tmp_path, (table,))
    store.put(receipt(1))
    first = (postgres.folder / "data" / "postmaster.pid").read_text().split()[0]
    others = subprocess.run(["pgrep", "-P", first], capture_output=True, text=True, check=True).stdout.split()
    family = {int(first), *map(int, others)}
    send(family, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        for number in range(5):
            with pytest.raises(ReceiptError):
                store.put(receipt(number + 2))
        assert time.monotonic() - begun < 20  # without a bound it would never end
    finally:
        send(family, signal.SIGCONT)
    for thread in threading.enumerate():
        if thread.name == "database":  # was left behind, and ends now
            thread.join(20)
    store.close()


def send(processes: set[int], number: signal.Signals) -> None:
    subprocess.run(["kill", f"-{number.value}", *map(str, processes)], check=True)


def test_many_threads_and_two_servers_store_at_once(postgres: Postgres, engine: Engine, tmp_path: Path) -> None:
    stores = [
        ReceiptStore(tmp_path / "db", tmp_path, (DatabaseTable(postgres.url, tmp_path / "db", wait_s=20),))
        for _ in "ab"
    ]
    work = [threading.Thread(target=stores[n % 2].put, args=(receipt(n // 2),)) for n in range(40)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert stored(engine) == 20
    assert all(stores[0].get(receipt_id(receipt(n)), "acme") == json.loads(json.dumps(receipt(n))) for n in range(20))
    for store in stores:
        store.close()
