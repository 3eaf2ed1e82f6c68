"""An app that leaves nothing is lost; its neighbour is not."""

from __future__ import annotations

from pathlib import Path

from support.one_source import OneSource


def check(folder: Path, tmp_path: Path) -> None:
    wiki = OneSource(tmp_path)
    wiki.configure(kind="confluence_dump", path=str(folder / "dump"))
    assert wiki.build()["sources"]["docs"]["macros_lost"] == 1
    ledger = {row["macro"]: row["outcome"] for row in wiki.rows("macro_ledger")}
    assert ledger == {"adf-extension": "lost", "adf-decision-list": "rendered"}
    assert "90 EUR for each night" in wiki.text()
