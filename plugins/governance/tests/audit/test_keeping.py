"""What becomes of the audit log: exports, checkpoints, rows that are too old, people who are forgotten, a new chain."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, select, text, update
from support.databases import emptied
from support.wiki import configuration
from typer.testing import CliRunner

from citelock_governance.audit.command import exported, make_checkpoint, read_checkpoints, verify_export
from citelock_governance.audit.ledger import HEADS, METADATA, PERSONS, ROWS, AuditError, Ledger, cut_old, restart
from citelock_governance.audit.verification import Verifier
from rag_serving.cli.main import app
from rag_serving.config.sections import Audit
from rag_serving.hooks import Event, open_audit
from rag_serving.telemetry.tables import open_engine

NOW = datetime.now(UTC)
PROCESSES, EACH = 2, 40


@pytest.fixture
def engine(url: str | None, tmp_path: Path) -> Iterator[Engine]:
    with emptied(url, tmp_path, METADATA) as opened:
        yield opened


@pytest.fixture
def ledger(engine: Engine, url: str | None, tmp_path: Path) -> Iterator[Ledger]:
    assert engine
    settings = Audit(mode="required", user="id", store_queries=True, retention_days=30)
    with closing(Ledger(tmp_path, url, "acme", settings, lambda text: text.replace("4711", "[phone]"))) as opened:
        yield opened


@pytest.fixture
def verifier(url: str | None, tmp_path: Path) -> Verifier:
    return Verifier(tmp_path, url)


def asked(user: str | None = "ann", days_ago: int = 0, query: str = "Call 4711?") -> Event:
    return Event("question", user, query=query, retrieved=["1:1:0"], at=NOW - timedelta(days=days_ago))


def lines(verifier: Verifier, home: Path, is_opened: bool = False) -> list[str]:
    return list(exported(verifier, home, "acme", is_opened))


def test_an_export_proves_itself(ledger: Ledger, verifier: Verifier, tmp_path: Path) -> None:
    ledger.append([asked(), asked("bob"), asked(None)])
    told = lines(verifier, tmp_path)
    verdict = verify_export(told, tmp_path)
    assert (verdict.fault, verdict.rows, verdict.tenant) == (None, 3, "acme")
    assert "ann" not in "".join(told)


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda told: told[:2] + told[3:], "row 2 is missing before it"),
        (lambda told: told[:-1], "the end of the file is missing"),
        (lambda told: [*told[:-2], told[-1]], "row 3: it is missing"),
        (lambda told: [told[0], told[1], told[3], told[2], told[4]], "row 2 is missing"),
        (lambda told: [told[0], told[1].replace("question", "search"), *told[2:]], "row 1: it was altered"),
        (lambda told: [told[0], told[1][:-2] + ', "opened": {"user": "bob"}}\n', *told[2:]], "last line is of another"),
        (lambda told: [*told, told[-1]], "something stands after the last line"),
        (lambda told: [told[0], "{}\n", *told[1:]], "line 2 is no row"),
    ],
)
def test_an_export_that_was_altered_says_so(
    ledger: Ledger, verifier: Verifier, tmp_path: Path, edit: Any, fault: str
) -> None:
    ledger.append([asked(), asked("bob"), asked(None)])
    assert fault in (verify_export(edit(lines(verifier, tmp_path)), tmp_path).fault or "")


@pytest.mark.parametrize("line", ["", "{}", "[" * 100_000, "x" * (5 << 20), '{"audit_log": 1, "head": 3}'])
def test_what_is_no_export_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(AuditError, match="export of an audit log"):
        verify_export([line], tmp_path)


def test_an_opened_export_says_who_and_what_until_they_are_forgotten(
    ledger: Ledger, verifier: Verifier, tmp_path: Path
) -> None:
    ledger.append([asked(), asked("bob")])
    before = [json.loads(line)["opened"] for line in lines(verifier, tmp_path, True)[1:-1]]
    assert before == [{"user": "ann", "query": "Call [phone]?"}, {"user": "bob", "query": "Call [phone]?"}]
    assert ledger.forget("ann") == 1
    assert ledger.forget("ann") == 0
    ledger.append([asked()])
    after = [json.loads(line)["opened"] for line in lines(verifier, tmp_path, True)[1:-1]]
    assert after[0] is None
    assert after[1] == before[1]
    assert after[2] == before[0]
    rows = [json.loads(line) for line in lines(verifier, tmp_path)[1:-1]]
    assert rows[0]["actor"] != rows[2]["actor"]
    assert rows[0]["query_hash"] != rows[2]["query_hash"]
    assert verifier.verify("acme").fault is None


def test_policies_keep_less(engine: Engine, url: str | None, tmp_path: Path) -> None:
    for policy in ("hash", "none"):
        with closing(Ledger(tmp_path, url, "acme", Audit(user=policy))) as ledger:  # type: ignore[arg-type]
            ledger.append([asked()])
    with engine.connect() as connection:
        hashed, none = connection.execute(select(ROWS).order_by(ROWS.c.sequence)).mappings().all()
        (person,) = connection.execute(select(PERSONS)).mappings().all()
    assert (hashed["actor"], hashed["query"], person["name"]) == (person["actor"], None, None)
    assert none["actor"] is None
    assert none["query_hash"]


def test_rows_that_are_too_old_are_cut_and_the_rest_still_verifies(
    ledger: Ledger, verifier: Verifier, engine: Engine
) -> None:
    ledger.append([asked("old", 40), asked("ann", 35), asked("ann", 20), asked("bob", 1)])
    assert cut_old(ledger, 30, NOW) == 2
    verdict = verifier.verify("acme")
    assert (verdict.fault, verdict.rows) == (None, 3)
    with engine.connect() as connection:
        rows = connection.execute(select(ROWS).order_by(ROWS.c.sequence)).mappings().all()
        assert [row["sequence"] for row in rows] == [3, 4, 5]
        assert json.loads(rows[-1]["details"]) == {"rows": 2, "through": 2}
        assert len(connection.execute(select(PERSONS)).all()) == 2
    assert cut_old(ledger, 30, NOW) == 0
    assert cut_old(ledger, 30, NOW + timedelta(days=300)) == 3
    assert verifier.verify("acme").fault is None
    ledger.append([asked()])
    with engine.begin() as connection:
        connection.execute(delete(ROWS).where(ROWS.c.sequence == 6))
    assert verifier.verify("acme").fault == "row 7: row 6 is missing before it"


def test_a_cut_does_not_hide_a_gap(ledger: Ledger, verifier: Verifier, engine: Engine) -> None:
    ledger.append([asked("ann", 40), asked("ann", 35), asked("ann", 20)])
    with engine.begin() as connection:
        connection.execute(delete(ROWS).where(ROWS.c.sequence == 2))
    assert cut_old(ledger, 30, NOW) == 0
    assert verifier.verify("acme").fault == "row 3: row 2 is missing before it"


def test_a_checkpoint_tells_a_state_that_was_set_back(
    ledger: Ledger, verifier: Verifier, engine: Engine, tmp_path: Path
) -> None:
    ledger.append([asked()])
    with engine.connect() as connection:
        head = dict(connection.execute(select(HEADS)).mappings().one())
    ledger.append([asked(), asked()])
    file = tmp_path / "checkpoints.jsonl"
    file.write_text(json.dumps(make_checkpoint(verifier, tmp_path, "acme")) + "\n\n")
    marked = read_checkpoints(file, tmp_path)["acme"]
    assert verifier.verify("acme", marked).fault is None
    with engine.begin() as connection:
        connection.execute(delete(ROWS).where(ROWS.c.sequence > 1))
        connection.execute(update(HEADS).values(**head))
    (tmp_path / "audit" / "acme.json").unlink()  # an attacker with the home folder as well
    assert verifier.verify("acme").fault is None
    assert "row 3 is known to have been there" in (verifier.verify("acme", marked).fault or "")
    file.write_text(file.read_text().replace('"sequence": 3', '"sequence": 1'))
    with pytest.raises(AuditError, match="line 1 is no checkpoint"):
        read_checkpoints(file, tmp_path)


def test_a_damaged_chain_begins_again_and_says_so(ledger: Ledger, verifier: Verifier, engine: Engine) -> None:
    ledger.append([asked(), asked(), asked()])
    with engine.begin() as connection:
        connection.execute(update(HEADS).values(signature="x"))
    with pytest.raises(AuditError):
        ledger.append([asked()])
    assert restart(ledger, {"reason": "a test"}).sequence == 4
    ledger.append([asked()])
    verdict = verifier.verify("acme")
    assert (verdict.fault, verdict.rows, verdict.anchored) == (None, 2, 5)


def test_the_commands(tmp_path: Path) -> None:
    config = configuration(tmp_path, audit={"mode": "required"})
    log = open_audit(config, "acme")
    assert log is not None
    log.record(asked())
    log.close()
    file = tmp_path / "app.yaml"
    file.write_text(f"home: {tmp_path}\ntenants: {{acme: {{}}, other: {{}}}}\naudit: {{mode: required}}\n")

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["audit", *arguments, "--config", str(file)])

    told = run("verify")
    assert (told.exit_code, told.stdout) == (0, "acme: 1 rows up to 1 hold\n")
    assert run("export", "--tenant", "acme", "--output", str(tmp_path / "x.jsonl")).exit_code == 0
    assert (tmp_path / "x.jsonl").stat().st_mode & 0o777 == 0o600
    assert run("verify", "--file", str(tmp_path / "x.jsonl")).exit_code == 0
    (tmp_path / "marks").write_text(run("checkpoint", "--tenant", "acme").stdout)
    assert run("verify", "--checkpoints", str(tmp_path / "marks"), "--json").exit_code == 0
    opened = open_engine(None, tmp_path / "serving.db")
    with opened.begin() as connection:
        connection.execute(text("UPDATE audit_heads SET signature = 'x'"))
    opened.dispose()
    told = run("verify")
    assert (told.exit_code, told.stderr.count("\n")) == (1, 1)
    assert run("restart", "--tenant", "acme", "--reason", "ask ann@example.com").exit_code == 0
    assert run("verify").exit_code == 0
    (kept,) = (tmp_path / "audit").glob("acme-*.jsonl")
    assert "[email]" in run("export", "--tenant", "acme").stdout
    assert kept.stat().st_mode & 0o777 == 0o600
    assert run("export", "--tenant", "other").exit_code == 1


def started(home: Path, url: str | None, rows: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("appending.py")), str(home), url or "", str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_append_to_one_chain(engine: Engine, url: str | None, tmp_path: Path) -> None:
    assert engine
    processes = [started(tmp_path, url, EACH) for _ in range(PROCESSES)]
    told = sum(process.communicate(timeout=60)[0].count("1") for process in processes)
    verdict = Verifier(tmp_path, url).verify("acme")
    assert (verdict.fault, verdict.rows, verdict.anchored) == (None, PROCESSES * EACH, PROCESSES * EACH)
    assert told == PROCESSES * EACH


def test_a_process_that_is_killed_leaves_a_chain_that_holds(engine: Engine, url: str | None, tmp_path: Path) -> None:
    """Rows that `record` returned for are stored, and the chain continues."""
    assert engine
    process = started(tmp_path, url, 100_000)
    assert process.stdout is not None
    told = "".join(process.stdout.readline() for _ in range(50))
    process.kill()
    told += process.communicate(timeout=60)[0]
    verdict = Verifier(tmp_path, url).verify("acme")
    assert verdict.fault is None
    assert verdict.rows >= told.count("1") >= 50
    process = started(tmp_path, url, 4)
    process.communicate(timeout=60)
    after = Verifier(tmp_path, url).verify("acme")
    assert (after.fault, after.rows) == (None, verdict.rows + 4)
