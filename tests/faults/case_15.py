"""A number that names the thing asked for must name it in what is told."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built


def check(folder: Path, tmp_path: Path) -> None:
    home = built(tmp_path, kind="confluence_dump", path=folder / "dump")
    for number in (42, 15):
        assert home.ask(f"What is pump number {number} called?")["outcome"] != "told"
    named = home.ask("What is pump number 14 called?")
    assert "Zorban" in named["answer"]
    assert named["outcome"] == "told"
