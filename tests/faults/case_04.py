"""A page in the Markdown macro is read as Markdown."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    wiki = built(tmp_path, kind="confluence_dump", path=folder / "dump")
    assert "code" not in {row["content_type"] for row in wiki.rows()}
    assert "| B2 | 40 |" in wiki.text()
    assert {row["heading_path"][-1] for row in wiki.rows()} >= {"Visitors", "Staff"}
    answer = shown(wiki.ask("How long may visitors park?"))
    assert "for four hours" in answer
    assert "```" not in answer
    assert "*" not in answer
