from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for
from typer.testing import CliRunner

from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.store import Store
from rag_serving.cli.main import app
from rag_serving.indexes.catalog import move_current


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str, str]:
    """A configuration file, and the ids of two generations that were published one after the other."""
    config, store = config_for(tmp_path), Store(tmp_path)
    names = []
    for count in (8, 12):
        generation = build_generation(store, TENANT, chunk_table(count), clustered_vectors(count), config, MODEL)
        move_current(store, TENANT, generation.id, config)
        names.append(generation.id)
    file = tmp_path / "app.yaml"
    file.write_text(yaml.safe_dump({"home": str(tmp_path), "tenants": {TENANT: {}}}))
    return str(file), names[0], names[1]


def test_the_list_marks_the_published_generation(two: tuple[str, str, str]) -> None:
    config, first, last = two
    lines = CliRunner().invoke(app, ["generations", "list", "--config", config]).output.splitlines()
    assert lines[0].startswith(f"* {last}")
    assert "12 chunks" in lines[0]
    assert lines[0].endswith("published")
    assert lines[1].startswith(f"  {first}")
    assert lines[1].endswith("published before")
    shown = json.loads(CliRunner().invoke(app, ["generations", "list", "--config", config, "--json"]).output)
    assert [(info["id"], info["current"], info["pages"]) for info in shown] == [(last, True, 3), (first, False, 2)]


def test_show_prints_the_published_manifest_or_a_named_one(two: tuple[str, str, str]) -> None:
    config, first, last = two
    assert json.loads(CliRunner().invoke(app, ["generations", "show", "--config", config]).output)["id"] == last
    shown = CliRunner().invoke(app, ["generations", "show", first, "--config", config, "--tenant", TENANT]).output
    assert json.loads(shown)["chunks"] == 8


def test_rollback_publishes_the_one_before(two: tuple[str, str, str]) -> None:
    config, first, last = two
    run = CliRunner().invoke(app, ["generations", "rollback", "--config", config, "--json"])
    assert json.loads(run.output) == {"tenant": TENANT, "previous": last, "current": first}
    again = CliRunner().invoke(app, ["generations", "rollback", "--config", config])
    assert again.exit_code == 1
    assert "no published generation before" in again.stderr
    assert again.stderr.count("\n") == 1


def test_a_wrong_tenant_is_wrong_usage(two: tuple[str, str, str]) -> None:
    run = CliRunner().invoke(app, ["generations", "list", "--config", two[0], "--tenant", "other"])
    assert run.exit_code == 2
    assert run.stderr == "citelock: tenant 'other' is not configured; there are: acme\n"


LACKING = {"build": "rag_assets", "evaluate": "evals", "generations repair": "rag_assets", "readers x": "rag_assets"}
"""Packages that a command lacks on a machine that only serves."""
SERVING_ALONE = """
import json, sys
sys.modules.update(evals=None, rag_assets=None)
from typer.testing import CliRunner
from rag_serving.cli.main import app
for command in sys.argv[1:]:
    run = CliRunner().invoke(app, command.split(), prog_name="citelock")
    print(json.dumps([run.exit_code, run.stdout, run.stderr]))
"""


@pytest.fixture(scope="module")
def serving_alone() -> dict[str, list[Any]]:
    """Exit code, standard output and standard error of each command, in one process without what builds."""
    commands = [*LACKING, "generations --help"]
    run = subprocess.run([sys.executable, "-c", SERVING_ALONE, *commands], capture_output=True, text=True, check=True)
    return dict(zip(commands, map(json.loads, run.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("command", LACKING)
def test_a_machine_that_only_serves_says_where_a_command_runs(
    serving_alone: dict[str, list[Any]], command: str
) -> None:
    code, _, err = serving_alone[command]
    assert code == 1
    assert f"the machine that builds the indexes ({LACKING[command]} is not installed here)" in err
    assert err.count("\n") == 1


def test_repair_is_listed_on_a_machine_that_only_serves(serving_alone: dict[str, list[Any]]) -> None:
    assert "repair    Restore the damaged parts" in serving_alone["generations --help"][1]
