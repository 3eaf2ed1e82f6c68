"""What docs/audit.md shows is what the commands print, and what the redactor makes of its texts; its table is whole."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from citelock_governance.audit.ledger import ROWS
from rag_serving.cli.main import app
from rag_serving.config.loading import load_config
from rag_serving.hooks import Event, Kind, record
from rag_serving.privacy import Redactor

TEXT = (Path(__file__).parents[4] / "docs" / "audit.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_what_is_shown_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.yaml").write_text("home: .\ntenants: {acme: {}}\naudit: {mode: required}\n")
    monkeypatch.setenv("CITELOCK_CONFIG", "app.yaml")
    config = load_config()
    for user in ("ann", "bob", None):
        record(config, "acme", Event("question", user, facts={"status": "answered"}))
    # The export comes after the alteration: it is of an intact log.
    for block in (BLOCKS[0], BLOCKS[2], BLOCKS[1]):
        told = ""
        for line in block.splitlines():
            if not line.startswith("$ "):
                continue
            program, *arguments = shlex.split(line[2:])
            told += f"{line}\n"
            if program == "sqlite3":
                with closing(sqlite3.connect(arguments[0])) as connection, connection:
                    connection.execute(arguments[1])
                continue
            assert program == "citelock"
            told += CliRunner().invoke(app, arguments).output
        assert told == block


def test_what_is_said_of_texts_is_so() -> None:
    section = TEXT.partition("| text | kept as |")[2].partition("\n\n")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and "---" not in line
    ]
    assert len(rows) == 6
    assert [Redactor(regions=("DE", "US")).redacted(text) for text, _ in rows] == [kept for _, kept in rows]


def test_every_column_and_kind_is_named() -> None:
    table = TEXT.partition("| column | what |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_.]+)`", table))
    assert {column.name for column in ROWS.columns} <= named
    assert set(get_args(Kind)) <= named
