"""The audit log and budgets behind the doors that are not HTTP: MCP, conversations in a terminal, `citelock add`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from support.api_client import client_of
from support.command_line import write_config
from support.databases import audit_rows, damage_audit, emptied
from support.mcp_calls import call, server_of
from support.wiki import configuration, embedder
from typer.testing import CliRunner

from citelock_governance.audit.ledger import HEADS, METADATA
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.hooks import AUDIT_DOWN, open_audit, open_budgets

QUESTION = "May I restart a broker while partitions are under-replicated?"
ANSWERING = {
    "ask": {"question": QUESTION},
    "search": {"query": "consumer lag"},
    "search_book": {"query": "consumer lag"},
    "search_with_contextual_retrieval": {"query": "consumer lag", "limit": 3},
}
INBOX = "sources:\n  uploads: {kind: files, tenant: acme, readers: everyone}\n"
REQUIRED = "audit: {mode: required}\n"


@pytest.fixture
def home(copied_wiki: Path) -> Path:
    return copied_wiki


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    with emptied(None, home, METADATA) as opened:
        METADATA.create_all(opened)
        yield opened


def opened(home: Path, **more: Any) -> Pipeline:
    """A pipeline as `citelock mcp` opens it."""
    config = configuration(home, **more)
    pipeline = Pipeline.open(config, "acme", embedder())
    pipeline.log.audit = open_audit(config, "acme")
    pipeline.log.budget = open_budgets(config, ["acme"]).get("acme")
    return pipeline


def test_what_mcp_answers_is_logged_before(home: Path, engine: Engine) -> None:
    with closing(opened(home, audit={"mode": "required"})) as pipeline:
        server = server_of(pipeline, Principal("acme", "ann"))
        for tool, arguments in ANSWERING.items():
            assert not call(server, tool, **arguments).is_error, tool
    logged = audit_rows(engine)
    assert [row["kind"] for row in logged] == ["question", "search", "search", "search"]
    assert all(row["actor"] and json.loads(row["retrieved"]) for row in logged)


@pytest.mark.parametrize("tool", ANSWERING)
def test_mcp_answers_nothing_that_cannot_be_logged(home: Path, engine: Engine, tool: str) -> None:
    damage_audit(engine)
    with closing(opened(home, audit={"mode": "required"})) as pipeline:
        refused = call(server_of(pipeline, Principal("acme", "ann")), tool, **ANSWERING[tool])
    assert refused.is_error
    assert refused.content[0].text == f"Error executing tool {tool}: {AUDIT_DOWN}"
    assert audit_rows(engine) == []


def test_a_budget_that_is_spent_ends_questions_over_mcp(home: Path) -> None:
    limits = {"questions_per_minute": 1}
    with closing(opened(home, budgets=limits)) as pipeline:
        server = server_of(pipeline, Principal("acme"))
        assert not call(server, "ask", question=QUESTION).is_error
        refused = call(server, "ask", question=QUESTION)
    assert refused.is_error
    assert "budget" in refused.content[0].text
    assert "replica" not in refused.content[0].text


def run(*arguments: str, lines: str = "") -> Any:
    return CliRunner().invoke(app, [*arguments], input=lines, prog_name="citelock")


def test_a_conversation_tells_of_what_cannot_be_logged_and_goes_on(home: Path, engine: Engine, tmp_path: Path) -> None:
    config = write_config(tmp_path, home, REQUIRED)
    assert "partitions" in run("chat", "--config", config, lines=f"{QUESTION}\n").stdout
    assert [row["kind"] for row in audit_rows(engine)] == ["question"]
    damage_audit(engine)
    refused = run("chat", "--config", config, lines=f"{QUESTION}\n/help\n")
    assert "nothing is answered without it" in refused.stderr
    assert "offline replicas" not in refused.stdout
    assert "/explain" in refused.stdout  # of the help requested next


def test_a_conversation_ends_where_the_budget_does(home: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, home, "budgets: {questions_per_minute: 1}\n")
    asked = run("chat", "--config", config, lines=f"{QUESTION}\n{QUESTION}\n")
    assert "budget" in asked.stderr
    assert asked.stdout.count("https://wiki.example") >= 1


def documents(folder: Path) -> list[str]:
    files = [folder / f"{name}.md" for name in ("a", "b")]
    for file in files:
        file.write_text(f"# {file.stem}\n\nWords of {file.stem}.\n")
    return [str(file) for file in files]


def test_documents_are_not_added_without_the_log(home: Path, engine: Engine, tmp_path: Path) -> None:
    config = write_config(tmp_path, home, f"{INBOX}{REQUIRED}")
    damage_audit(engine)
    refused = run("add", *documents(tmp_path), "--config", config)
    assert refused.exit_code == 1
    assert [line.split(": ")[1] for line in refused.stderr.splitlines()] == ["a.md", "b.md"]
    assert "nothing is answered without it" in refused.stderr
    assert json.loads(run("uploads", "list", "--config", config, "--json").stdout) == []
    with engine.begin() as connection:
        connection.execute(HEADS.delete())
    assert run("add", *documents(tmp_path), "--config", config).exit_code == 0
    assert [row["kind"] for row in audit_rows(engine)] == ["document.uploaded"] * 2


def test_documents_beyond_the_budget_are_told_and_one_that_fails_costs_nothing(home: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, home, f"{INBOX}budgets: {{documents_per_day: 1}}\n")
    refused = run("add", str(tmp_path / "lost.md"), *documents(tmp_path), "--config", config)
    assert refused.exit_code == 1
    assert "a.md" in refused.stdout
    assert "b.md: the budget of 1 documents" in refused.stderr


def test_a_change_of_the_phase_is_logged(home: Path, engine: Engine) -> None:
    with client_of(home, audit={"mode": "best_effort"}) as client:
        service = client.app.state.service  # type: ignore[attr-defined]
        assert service.switch(configuration(home, retrieval={"phase": 2}))
        assert service.pipelines["acme"].log.audit.flush(5)
    (row,) = [row for row in audit_rows(engine) if row["kind"] == "phase.changed"]
    assert json.loads(row["details"]) == {"direction": "configured", "phase": 2}
    assert row["actor"] is None
