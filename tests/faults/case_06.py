"""A page shows a part to one group only: nobody is told it, and the ledger counts it."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    home = built(tmp_path, kind="confluence_dump", path=str(folder / "dump"))
    assert "The public gate closes at 20:00." in home.text()
    assert "99120" not in home.text()
    assert "99120" not in shown(home.ask("What is the master code of the gate?"))
    assert [(row["macro"], row["outcome"]) for row in home.rows("macro_ledger")] == [("show-if", "hidden")]
