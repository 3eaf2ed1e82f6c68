"""The name of a mentioned person: unknown in a dump, where no answer has words of ours in its place."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    wiki = built(tmp_path, kind="confluence_dump", path=folder / "dump")
    assert "557058" not in wiki.text()
    assert "@user" not in shown(wiki.ask("Who hands over the vault key?"))
