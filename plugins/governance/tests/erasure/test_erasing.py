"""A tenant is erased as a whole, with a proof, whenever the process is killed; another one keeps every byte."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select
from typer.testing import CliRunner

from citelock_governance import erasing
from citelock_governance.audit.ledger import PERSONS, ROWS
from citelock_governance.audit.verification import Verifier
from citelock_governance.erasing import EraseError, TenantErasure
from rag_serving.access.principals import Principal
from rag_serving.artifacts.signed_files import read_signed
from rag_serving.artifacts.store import Store
from rag_serving.cli.main import app
from rag_serving.config.loading import Config, parse_config
from rag_serving.conversations.sessions import Exchange, SessionStore
from rag_serving.hooks import Event, record
from rag_serving.receipts.store import open_receipts
from rag_serving.records.answers import Answer
from rag_serving.telemetry.events import Trace
from rag_serving.telemetry.tables import open_engine
from rag_serving.telemetry.telemetry import open_telemetry

SECRET = "Where is Project Kestrel of"
ROOT = Path(__file__).parents[4]


@pytest.fixture
def config(url: str | None, tmp_path: Path) -> Config:
    engine = open_engine(url, tmp_path / "serving.db")
    for metadata in erasing.METADATAS:
        metadata.drop_all(engine)
        metadata.create_all(engine)
    engine.dispose()
    return parse_config(content(url, tmp_path))


def content(url: str | None, home: Path) -> dict[str, Any]:
    tenants = ("acme", "acme-b", "other")
    return {
        "home": str(home),
        "tenants": {name: {} for name in tenants},
        "telemetry": {"url": url, "store_questions": True},
        "audit": {"mode": "required", "user": "id"},
        "sessions": {"store_days": 90},
        "sources": {f"up-{name}": {"kind": "files", "tenant": name} for name in tenants},
    }


@pytest.fixture
def filled(config: Config) -> Config:
    for tenant in config.tenants:
        fill(config, tenant)
    return config


def fill(config: Config, tenant: str) -> None:
    """Let something of every kind be kept of a tenant."""
    store, ann, question = Store(config.home), Principal(tenant, "ann"), f"{SECRET} {tenant}?"
    for folder in (store.generation(tenant, "g1"), store.source(f"up-{tenant}"), store.cache(tenant)):
        folder.mkdir(parents=True)
        (folder / "text").write_text(question)
    (config.home / "audit").mkdir(exist_ok=True)
    (config.home / "audit" / f"{tenant}-20260101T000000.jsonl").write_text(question)
    answer = Answer("answered", question)
    telemetry = open_telemetry(config, tenant)
    assert telemetry is not None
    telemetry.answered(ann, question, answer, Trace())
    telemetry.close()
    with closing(open_receipts(config)) as receipts:
        receipt = {"tenant": tenant, "created_at": datetime.now(UTC).isoformat(), "question": question, "asker": "x"}
        identifier = receipts.put(receipt)
        receipts.share(identifier, tenant)
    with closing(SessionStore(config, tenant, lambda: datetime.now(UTC))) as sessions:
        session = sessions.begin(ann)
        sessions.keep(ann, session, Exchange(question, answer))
    record(config, tenant, Event("question", "ann", query=question))


def state(config: Config, tenant: str) -> dict[str, Any]:
    return TenantErasure(config, tenant).found()


def test_all_of_a_tenant_goes_and_another_keeps_all_of_it(filled: Config, url: str | None) -> None:
    before = {name: state(filled, name) for name in ("acme-b", "other")}
    found = state(filled, "acme")
    (counts,) = found["rows"].values()
    expected = {"questions", "receipts", "receipt_shares", "sessions", "queries", "responses"}
    assert expected | {"audit_rows", "audit_heads", "audit_persons"} <= counts.keys()
    assert {"tenants/acme", "sources/up-acme", "audit/acme.json", "audit/acme-20260101T000000.jsonl"} <= set(
        found["folders"]
    )
    proof = TenantErasure(filled, "acme").erase()
    assert proof["removed"] == found
    assert proof["left"] == {"rows": {}, "folders": {}}
    assert proof["audit_head"]["sequence"] == 1
    assert {name: state(filled, name) for name in before} == before
    assert Verifier(filled.home, url).verify("other").fault is None
    kept = read_signed(Store(filled.home), Path(proof["file"]))
    assert kept == {name: value for name, value in proof.items() if name != "file"}
    for file in filled.home.rglob("*"):
        assert not file.is_file() or f"{SECRET} acme?".encode() not in file.read_bytes(), file


@pytest.mark.parametrize("killed_at", ["delete_rows", "remove_folder", "remove_later", "write_proof"])
def test_an_erasure_that_is_killed_is_finished_by_the_next(
    filled: Config, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    found = state(filled, "acme")

    class KilledError(BaseException):
        """The process ends here."""

    calls = iter(range(100))
    dies_after = {"delete_rows": 0, "remove_folder": 0, "remove_later": 1, "write_proof": 1}[killed_at]
    name = {"remove_later": "remove_folder", "write_proof": "write_signed"}.get(killed_at, killed_at)
    real = getattr(erasing, name)

    def dying(*arguments: Any) -> None:
        if next(calls) >= dies_after:
            if name == "remove_folder":  # renamed, not yet deleted
                folder = arguments[0]
                (folder.parent / ".deleted-x").mkdir()
                folder.rename(folder.parent / ".deleted-x" / folder.name)
            raise KilledError
        real(*arguments)

    monkeypatch.setattr(erasing, name, dying)
    with pytest.raises(KilledError):
        TenantErasure(filled, "acme").erase()
    monkeypatch.undo()
    proof = TenantErasure(filled, "acme").erase()
    assert proof["removed"] == found
    assert state(filled, "acme") == {"rows": {}, "folders": {}}
    assert not [*filled.home.rglob(".deleted-*")]
    assert [file.name for file in (filled.home / "erasures").iterdir()] == [Path(proof["file"]).name]


def test_what_was_begun_by_somebody_else_is_not_believed(filled: Config) -> None:
    folder = filled.home / "erasures"
    folder.mkdir()
    (folder / "acme.begun.json").write_text(json.dumps({"tenant": "acme", "removed": {}}))
    with pytest.raises(EraseError, match="is not signed"):
        TenantErasure(filled, "acme").erase()
    assert state(filled, "acme")["rows"]


def test_every_table_of_the_program_is_looked_in() -> None:
    """A room that makes a table has to be among those whose rows are erased."""
    declared = set()
    for folder in (ROOT, *ROOT.glob("plugins/*/")):
        for package in ("rag_serving", "rag_assets", "evals", f"citelock_{folder.name}"):
            for path in (folder / package).rglob("*.py"):
                if "MetaData()" in path.read_text(encoding="utf-8"):
                    declared.add(path.relative_to(folder).as_posix())
    known = {module.replace(".", "/") + ".py" for module in _modules_of_tables()}
    assert declared == known
    names = {table.name for metadata in erasing.METADATAS for table in metadata.tables.values()}
    assert names - {table.name for table in erasing.tenant_tables()} <= erasing.WITHOUT_TENANT


def _modules_of_tables() -> set[str]:
    source = (ROOT / "plugins" / "governance" / "citelock_governance" / "erasing.py").read_text(encoding="utf-8")
    return set(re.findall(r"from (\S+) import METADATA as", source))


def test_the_command_shows_first_and_removes_when_it_is_meant(filled: Config, url: str | None, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(yaml.safe_dump(content(url, filled.home)))

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["erase", "--tenant", *arguments, "--config", str(file)])

    shown = run("acme")
    assert (shown.exit_code, "tenants/acme: " in shown.stdout) == (2, True)
    assert "nothing was removed; --yes" in shown.stderr
    assert run("nobody").exit_code == 2
    done = run("acme", "--yes", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["left"] == {"rows": {}, "folders": {}}
    assert run("acme", "--json").stdout == '{"tenant": "acme", "found": {"rows": {}, "folders": {}}}\n'
    assert run("acme", "--yes").exit_code == 0


def test_forgetting_a_person_unlinks_the_audit_log(filled: Config, url: str | None, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(yaml.safe_dump(content(url, filled.home)))
    arguments = ["forget", "--user", "ann", "--tenant", "acme", "--json", "--config", str(file)]
    counts = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert counts == {"tenant": "acme", "receipts": 0, "sessions": 1, "telemetry": 1, "audit": 1, "keys": 0}
    engine = open_engine(url, filled.home / "serving.db")
    with engine.connect() as connection:
        asked, forgot = connection.execute(select(ROWS).where(ROWS.c.tenant == "acme")).mappings().all()
        people = {row.actor for row in connection.execute(select(PERSONS).where(PERSONS.c.tenant == "acme"))}
    engine.dispose()
    assert forgot["kind"] == "user.forgotten"
    assert asked["actor"] not in people
    assert Verifier(filled.home, url).verify("acme").fault is None
