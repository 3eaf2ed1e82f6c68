"""The generated reference names every command there is, and its check sees one that is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from rag_serving.cli.group import _MODULES
from rag_serving.config.loading import parse_config
from scripts import generate_docs

ROOT = Path(__file__).parents[1]


rendered = cache(generate_docs.commands)
"""The reference takes seconds to write, and is the same each time."""


def sections() -> set[str]:
    return set(re.findall(r"^## `citelock ?([^`]*)`$", rendered(), re.MULTILINE))


def test_every_command_of_the_help_has_a_section_of_its_own() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "from rag_serving.cli.main import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "200", "TERM": "dumb", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    ).stdout
    first, operate = shown.partition("Ask:")[2].split("Operate ")
    listed = set(re.findall(r"^  ([a-z][a-z-]*)  ", first, re.MULTILINE))
    assert len(listed) <= 12  # at first sight
    listed |= set(re.findall(r"[a-z-]+", operate.partition(":")[2].partition("Start with")[0]))
    assert {"ask", "build", *_MODULES} <= listed  # those of this package, of its modules, and of entry points
    assert listed <= sections()


def test_subcommands_and_arguments_of_late_commands_are_written() -> None:
    assert {"generations rollback", "gold suggest", "receipt verify"} <= sections()
    assert "--retry-contexts" in rendered()


def test_the_check_fails_where_a_command_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_docs, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(generate_docs, "not_installed", list)
    monkeypatch.setattr(generate_docs, "commands", rendered)
    monkeypatch.setattr(generate_docs, "configuration", cache(generate_docs.configuration))
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(sys, "argv", ["generate_docs.py"])
    assert generate_docs.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate_docs.py", "--check"])
    assert generate_docs.main() == 0
    path = tmp_path / "docs" / "commands.md"
    path.write_text(re.sub(r"## `citelock bench`.*?```text.*?```\n", "", path.read_text(), flags=re.DOTALL))
    assert generate_docs.main() == 1
    assert "commands.md" in capsys.readouterr().err


def test_a_declared_command_that_is_not_installed_is_no_silent_gap(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate_docs.not_installed() == []
    monkeypatch.setattr(generate_docs, "entry_points", lambda **_: [])
    monkeypatch.setattr(sys, "argv", ["generate_docs.py", "--check"])
    assert generate_docs.main() == 1
    assert "build" in capsys.readouterr().err


NAMED = re.compile(r"`((?:plugins/\w+/)?tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = NAMED.findall((ROOT / "docs" / "security.md").read_text())
    assert len(named) > 30
    for path, test in named:
        code = (ROOT / path).read_text()
        assert f"def {test or 'test'}" in code, f"{path}::{test}"
        assert not test or re.search(rf"^def {test}\(", code, re.MULTILINE), f"{path}::{test}"


def test_every_promise_of_the_threat_model_names_its_test() -> None:
    promised = (ROOT / "docs" / "security.md").read_text().partition("## What is promised")[2]
    rows = [row for row in promised.partition("## What is not covered")[0].splitlines() if row.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---"))]
    assert len(promises) > 20
    assert [row for row in promises if not NAMED.search(row)] == []


def test_each_configuration_in_the_docs_of_documents_is_valid() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/documents.md").read_text(), re.MULTILINE | re.DOTALL)
    kinds = set()
    for block in blocks:
        config = parse_config({"tenants": {"acme": {}}, **yaml.safe_load(block)})
        kinds |= {source.kind for source in config.sources.values()}
    assert kinds == {"docs_folder", "markdown_book", "files"}


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_each_configuration_that_is_shown_is_valid(page: str) -> None:
    if page == "docs/integrations.md":  # configurations of other programs
        return
    for block in re.findall(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        parse_config({"tenants": {"acme": {}}, **yaml.safe_load(block)})


def test_each_configuration_in_the_docs_of_access_is_valid() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/access.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert parse_config({"tenants": {"acme": {}}, **yaml.safe_load(block)}).serving.jwt is not None


def _prose(path: Path) -> str:
    """Return a document without its blocks and spans of code."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "name", sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
)
def test_links_of_documents_lead_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", _prose(ROOT / name)):
        file = (ROOT / name).parent / target if target else ROOT / name
        assert file.exists(), target
        if file.suffix != ".md":
            continue
        slugs = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                 for line in file.read_text().splitlines() if line.startswith("#")}  # fmt: skip
        assert not anchor or anchor in slugs, f"{target}#{anchor}"
