"""The program without plug-ins, and what it says where one is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.envelopes import Wiki

WITHOUT = """
import sys
from importlib.metadata import entry_points

from rag_serving import plugins

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("citelock_"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def without_plugins(group):
    return [entry for entry in entry_points(group=group) if not entry.value.startswith("citelock_")]

plugins.entry_points = without_plugins
sys.meta_path.insert(0, Missing())
sys.argv[0] = "citelock"
from rag_serving.cli.main import main
main()
"""
"""Runs `citelock` in a Python in which no plug-in is installed."""


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "CITELOCK_CONFIG": str(folder / "app.yaml"), **more}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, cwd=folder, env=variables
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small wiki, built where no plug-in is installed."""
    folder = tmp_path_factory.mktemp("without")
    Wiki(folder)
    built = run(folder, "build", "--json")
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout)["tenants"]["demo"]["published"]
    return folder


def test_a_wiki_is_built_and_asked_without_plugins(home: Path) -> None:
    asked = run(home, "ask", "How do I roll back a release?", "--json")
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    assert (answer["status"], bool(answer["citations"])) == ("answered", True)


@pytest.mark.parametrize(
    ("kind", "command"),
    [("postgres", ("ask", "How?")), ("qdrant", ("generations", "list"))],
)
def test_an_index_in_a_database_names_the_plugin_that_it_needs(home: Path, kind: str, command: tuple[str, ...]) -> None:
    ended = run(home, *command, CITELOCK_INDEX__KIND=kind, CITELOCK_INDEX__URL="http://127.0.0.1:1")
    assert ended.returncode == 2, ended.stdout
    assert f"{kind} needs citelock[stores]: pip install 'citelock[stores]'" in ended.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("build",),
        ("home", "list"),
        *(pytest.param(it, marks=pytest.mark.nightly) for it in [("ask", "How?"), ("serve",)]),
    ],
)
def test_a_home_in_an_object_store_names_the_plugin_that_it_needs(home: Path, command: tuple[str, ...]) -> None:
    ended = run(home, *command, CITELOCK_HOME="s3://bucket/prefix", CITELOCK_OBJECT_STORE__CACHE=str(home / "cache"))
    assert ended.returncode == 2, ended.stdout
    needing = "home" if command[0] == "home" else "object_store"
    assert f"{needing} needs citelock[scale]: pip install 'citelock[scale]'" in ended.stderr


def test_a_command_of_a_plugin_names_it(home: Path) -> None:
    shown = run(home, "--help").stdout
    assert "phase," in shown.split()
    assert not {"index", "index,"} & set(shown.split())
    ended = run(home, "index", "status")
    assert (ended.returncode, ended.stderr.strip()) == (
        2, "citelock: index needs citelock[stores]: pip install 'citelock[stores]'",
    )  # fmt: skip


def test_the_doctor_names_a_plugin_that_is_missing(home: Path) -> None:
    ended = run(home, "doctor", "--json", CITELOCK_INDEX__KIND="qdrant", CITELOCK_INDEX__URL="http://127.0.0.1:1",
                CITELOCK_OBJECT_STORE__URL="s3://bucket/prefix")  # fmt: skip
    found = {each["name"]: each for each in json.loads(ended.stdout)}
    assert (found["home"]["state"], found["home"]["mend"]) == ("fail", "pip install 'citelock[scale]'")
    assert (found["index"]["state"], found["index"]["mend"]) == ("fail", "pip install 'citelock[stores]'")


def test_where_all_have_keys_nothing_is_served_without_what_knows_them(home: Path) -> None:
    ended = run(home, "serve", "--port", "0", CITELOCK_SERVING__AUTH="tokens", CITELOCK_TOKENS="{}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "where all have keys of `citelock keys`, needs citelock[governance]: pip install" in ended.stderr


NAMES = {"CITELOCK_PRIVACY__REDACT": '["names"]', "CITELOCK_PRIVACY__NAMES_MODEL": "models/ner"}


@pytest.mark.parametrize(
    ("command", "setting", "variables"),
    [
        *((command, "audit.mode: required", {"CITELOCK_AUDIT__MODE": "required"})
          for command in ("ask How?", "serve --port 0", "build", "mcp")),
        ("ask How?", "budgets", {"CITELOCK_BUDGETS__TOKENS_PER_DAY": "7"}),
        ("serve --port 0", "privacy.regions", {"CITELOCK_PRIVACY__REGIONS": '["DE"]'}),
        ("ask How?", "names in privacy.redact", NAMES),
    ],
)  # fmt: skip
def test_nothing_runs_without_what_is_to_govern_it(
    home: Path, command: str, setting: str, variables: dict[str, str]
) -> None:
    ended = run(home, *command.split(), **variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"citelock: {setting} needs citelock[governance]: pip install 'citelock[governance]'\n"


@pytest.mark.parametrize("command", ["audit verify", "erase --tenant demo --yes", "forget --user ann", "keys list"])
def test_what_is_kept_is_not_removed_in_part(home: Path, command: str) -> None:
    ended = run(home, *command.split())
    assert (ended.returncode, ended.stderr.strip()) == (
        2, f"citelock: {command.split()[0]} needs citelock[governance]: pip install 'citelock[governance]'",
    )  # fmt: skip
