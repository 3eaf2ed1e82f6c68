"""The steps of docs/ten-minutes.md as they stand there: a folder of documentation, and a stand-in of Confluence."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_site import page
from support.command_line import run

TEXT = (Path(__file__).parents[2] / "docs" / "ten-minutes.md").read_text(encoding="utf-8")
QUOTE = "Backups are kept for 35 days."


def blocks(step: int, kind: str) -> list[str]:
    """Return the blocks of a step that are of one kind."""
    section = re.split(r"^## (?=\d\. |Next$)", TEXT, flags=re.MULTILINE)[step]
    return re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def printed(commands: list[str]) -> str:
    """Run the commands of a block, and return what they print."""
    told = ""
    for command in commands:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "citelock"
        code, out, err = run(*arguments)
        assert code == 0, out + err
        told += out
    return told


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder that the commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_of_documentation_answers(folder: Path) -> None:
    (content,), (_, commands) = blocks(2, "markdown"), blocks(2, "bash")
    (folder / "docs").mkdir()
    (folder / "docs" / "backups.md").write_text(content, encoding="utf-8")
    told = printed(commands.splitlines())
    assert QUOTE in told
    assert "https://docs.acme.example/" in told
    assert "#how-long-they-are-kept" in told


def test_a_confluence_answers_who_may_read_it_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    (commands,) = blocks(3, "bash")
    body = f"<p>The database is copied each night.</p><h2>How long they are kept</h2><p>{QUOTE}</p>"
    export, *lines = commands.splitlines()
    for variable, value in zip(shlex.split(export)[1:], (USER, TOKEN), strict=True):
        monkeypatch.setenv(variable.partition("=")[0], value)
    with StandIn("cloud") as wiki:
        wiki.require("basic")
        wiki.site.put(page(1, "Backups", body=body))
        told = printed([line.replace("https://acme.example/wiki", wiki.url) for line in lines])
        assert QUOTE in told
        assert "#Backups-Howlongtheyarekept" in told
        assert "who may read it: group:staff" in told
    assert QUOTE not in printed(['citelock ask --config wiki.yaml --user eve "How long are backups kept?"'])
