"""The audit chain: what was appended verifies, and every way to tamper with it is told; in SQLite and Postgres."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, insert, select, text, update
from support.databases import emptied

from citelock_governance.audit.chain import CONTENT, GENESIS
from citelock_governance.audit.ledger import HEADS, METADATA, PERSONS, ROWS, AuditError, Ledger
from citelock_governance.audit.verification import ChainVerdict, Verifier
from rag_serving.artifacts.secret import canonical
from rag_serving.config.sections import Audit
from rag_serving.hooks import Event

Tamper = Callable[[Connection], object]
ACME = ROWS.c.tenant == "acme"


@pytest.fixture
def engine(url: str | None, tmp_path: Path) -> Iterator[Engine]:
    with emptied(url, tmp_path, METADATA) as opened:
        yield opened


@pytest.fixture
def verify(engine: Engine, url: str | None, tmp_path: Path) -> Callable[[], ChainVerdict]:
    """Return the verification of the first of two tenants, with ten events, beside one with three."""
    assert engine
    append(tmp_path, url, 6)
    append(tmp_path, url, 4)
    append(tmp_path, url, 3, "other")
    return lambda: Verifier(tmp_path, url).verify("acme")


def append(home: Path, url: str | None, count: int, tenant: str = "acme", **settings: Any) -> None:
    with closing(Ledger(home, url, tenant, Audit(mode="required", **settings))) as ledger:
        ledger.append([event(number) for number in range(count)])


def event(number: int = 0) -> Event:
    facts = {"status": "answered", "model": "extractive", "cost": 0.1 + 0.2, "latency_ms": 1 / 3, "tokens_in": number}
    chunks = [f"{number}:1:0", "ünïcode\ud800:1:1"]
    return Event("question", "ann", None, "How long?", chunks, facts, {"flags": [], "receipt_id": None})


def test_what_was_appended_verifies(verify: Callable[[], ChainVerdict]) -> None:
    verdict = verify()
    assert (verdict.fault, verdict.rows, verdict.anchored) == (None, 10, 10)


def test_another_process_with_another_home_continues_the_chain(
    verify: Callable[[], ChainVerdict], url: str | None, tmp_path: Path
) -> None:
    if url is None:
        pytest.skip("a SQLite file is of one home")
    other = tmp_path / "other"
    other.mkdir()
    (other / "secret").write_bytes((tmp_path / "secret").read_bytes())
    append(other, url, 5)
    append(tmp_path, url, 1)
    assert (verify().fault, verify().rows) == (None, 16)
    elsewhere = Verifier(other, url).verify("acme")
    assert (elsewhere.fault, elsewhere.anchored) == (None, 15)


def _edited(**values: Any) -> Tamper:
    return lambda connection: connection.execute(update(ROWS).where(ACME, ROWS.c.sequence == 5).values(**values))


def _deleted(connection: Connection) -> None:
    connection.execute(delete(ROWS).where(ACME, ROWS.c.sequence == 5))


def _first_deleted(connection: Connection) -> None:
    connection.execute(delete(ROWS).where(ACME, ROWS.c.sequence == 1))


def _tail_cut(connection: Connection) -> None:
    connection.execute(delete(ROWS).where(ACME, ROWS.c.sequence > 7))


def _swapped(connection: Connection) -> None:
    for before, after in ((4, 99), (5, 4), (99, 5)):
        connection.execute(update(ROWS).where(ACME, ROWS.c.sequence == before).values(sequence=after))


def _rehashed(connection: Connection) -> None:
    """Edit a row and compute every hash after it again, as anybody without a key can."""
    query = select(ROWS).where(ACME, ROWS.c.sequence >= 5).order_by(ROWS.c.sequence)
    previous = None
    for stored in connection.execute(query).mappings().all():
        row = {**stored, "status": "not_found"} if previous is None else {**stored, "previous": previous}
        previous = hashlib.sha256(canonical([row[name] for name in CONTENT])).hexdigest()
        at = ROWS.c.sequence == row["sequence"]
        connection.execute(update(ROWS).where(ACME, at).values(**{**row, "hash": previous}))
    connection.execute(update(HEADS).where(HEADS.c.tenant == "acme").values(hash=previous))


def _row(connection: Connection, tenant: str, sequence: int) -> dict[str, Any]:
    query = select(ROWS).where(ROWS.c.tenant == tenant, ROWS.c.sequence == sequence)
    return dict(connection.execute(query).mappings().one())


def _inserted(connection: Connection) -> None:
    connection.execute(insert(ROWS), {**_row(connection, "acme", 10), "sequence": 11})


def _inserted_before(connection: Connection) -> None:
    connection.execute(insert(ROWS), {**_row(connection, "acme", 1), "sequence": 0})


def _duplicated(connection: Connection) -> None:
    """Duplicate a row: the later ones move up by one place."""
    for sequence in range(10, 5, -1):
        connection.execute(update(ROWS).where(ACME, ROWS.c.sequence == sequence).values(sequence=sequence + 1))
    connection.execute(insert(ROWS), {**_row(connection, "acme", 5), "sequence": 6})


def _moved_in(connection: Connection) -> None:
    foreign = _row(connection, "other", 2)
    connection.execute(delete(ROWS).where(ACME, ROWS.c.sequence == 2))
    connection.execute(insert(ROWS), {**foreign, "tenant": "acme"})


def _head_set(**values: Any) -> Tamper:
    return lambda connection: connection.execute(update(HEADS).where(HEADS.c.tenant == "acme").values(**values))


def _head_deleted(connection: Connection) -> None:
    connection.execute(delete(HEADS).where(HEADS.c.tenant == "acme"))


def _head_of_another(connection: Connection) -> None:
    other = dict(connection.execute(select(HEADS).where(HEADS.c.tenant == "other")).mappings().one())
    connection.execute(update(HEADS).where(HEADS.c.tenant == "acme").values(**{**other, "tenant": "acme"}))


@pytest.mark.parametrize(
    ("tamper", "fault"),
    [
        (_deleted, "row 6: row 5 is missing before it"),
        (_first_deleted, "row 2: row 1 is missing before it"),
        (_tail_cut, "row 8: it is missing, as are all after it up to 10"),
        (_swapped, "row 4: it was altered"),
        (_edited(status="not_found"), "row 5: it was altered"),
        (_edited(cost=0.3), "row 5: it was altered"),
        (_edited(at="2020-01-01T00:00:00.000000+00:00"), "row 5: it was altered"),
        (_edited(actor=None), "row 5: it was altered"),
        (_edited(signature="0" * 64), "row 5: its signature does not hold"),
        (_rehashed, "the head was altered"),
        (_inserted, "row 11: it was altered"),
        (_inserted_before, "row 0: it stands before the beginning"),
        (_duplicated, "row 6: it was altered"),
        (_moved_in, "row 2: it was altered"),
        (_head_set(sequence=7), "the head was altered"),
        (_head_set(first_sequence=4), "the head was altered"),
        (_head_set(hash=GENESIS), "the head was altered"),
        (_head_deleted, "it has no head: the log was deleted"),
        (_head_of_another, "the head was altered"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_tampering_is_told(verify: Callable[[], ChainVerdict], engine: Engine, tamper: Tamper, fault: str) -> None:
    with engine.begin() as connection:
        tamper(connection)
    assert (verify().fault or "").startswith(fault)


def test_a_hash_without_the_key_is_told_though_the_head_were_right(
    verify: Callable[[], ChainVerdict], engine: Engine
) -> None:
    with engine.begin() as connection:
        head = dict(connection.execute(select(HEADS).where(HEADS.c.tenant == "acme")).mappings().one())
        _rehashed(connection)
        connection.execute(update(HEADS).where(HEADS.c.tenant == "acme").values(**head))
    assert (verify().fault or "").startswith("row 5: its signature does not hold")


def _everything(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    with engine.connect() as connection:
        return {table.name: [dict(row) for row in connection.execute(select(table)).mappings()] for table in TABLES}


def _replace(engine: Engine, state: dict[str, list[dict[str, Any]]]) -> None:
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(delete(table))
            if rows := state[table.name]:
                connection.execute(insert(table), rows)


TABLES = (ROWS, HEADS, PERSONS)


def test_an_older_backup_is_told_and_stays_told_after_more_was_appended(
    verify: Callable[[], ChainVerdict], engine: Engine, url: str | None, tmp_path: Path
) -> None:
    backup = _everything(engine)
    append(tmp_path, url, 2)
    _replace(engine, backup)
    assert "row 11: it is missing; row 12 is known to have been there" in (verify().fault or "")
    append(tmp_path, url, 2)
    assert (verify().fault or "").startswith("row 12: it is not the one that was there before")
    append(tmp_path, url, 20)
    assert (verify().fault or "").startswith("row 12: it is not the one that was there before")


def test_a_log_that_was_emptied_is_told_after_it_began_again(
    verify: Callable[[], ChainVerdict], engine: Engine, url: str | None, tmp_path: Path
) -> None:
    _replace(engine, {table.name: [] for table in TABLES})
    assert verify().fault == "it has no head: the log was deleted"
    append(tmp_path, url, 30)
    assert (verify().fault or "").startswith("row 10: it is not the one that was there before")


def test_a_head_that_was_altered_is_not_made_right_by_appending(
    verify: Callable[[], ChainVerdict], engine: Engine, url: str | None, tmp_path: Path
) -> None:
    with engine.begin() as connection:
        _tail_cut(connection)
        _head_set(sequence=7)(connection)
    with pytest.raises(AuditError, match="head of the audit log of acme was altered"):
        append(tmp_path, url, 1)
    assert (verify().fault or "").startswith("the head was altered")


def test_another_secret_verifies_nothing(verify: Callable[[], ChainVerdict], tmp_path: Path) -> None:
    assert verify().fault is None
    (tmp_path / "secret").write_bytes(b"x" * 32)
    (tmp_path / "audit" / "acme.json").unlink()
    assert (verify().fault or "").startswith("the head was altered, or the secret is another one")


def test_an_anchor_that_was_altered_is_told(verify: Callable[[], ChainVerdict], tmp_path: Path) -> None:
    file = tmp_path / "audit" / "acme.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sequence": 3}))
    assert "was altered" in (verify().fault or "")


def test_no_row_holds_a_name_or_a_question(verify: Callable[[], ChainVerdict], engine: Engine) -> None:
    assert verify().fault is None
    with engine.connect() as connection:
        told = json.dumps(
            [[str(value) for value in row] for row in connection.execute(text("SELECT * FROM audit_rows"))]
        )
    assert "ann" not in told
    assert "How long" not in told
