"""Text that the page crosses out is no statement."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    wiki = built(tmp_path / "wiki", kind="confluence_dump", path=folder / "dump")
    answer = wiki.ask("How long are nightly backups of the ledger database kept?")
    assert "kept for 14 days" in shown(answer)
    assert "30" not in shown(answer)
    assert "Sunday" not in shown(wiki.ask("When is the maintenance window?"))
    restored = shown(wiki.ask("Who restores backups and within how many hours?"))
    assert "storage team within 3 hours" in restored
    assert "night shift" not in restored
    assert [(row["macro"], row["outcome"], row["count"]) for row in wiki.rows("macro_ledger")] == [
        ("struck text", "hidden", 4)
    ]
    files = built(tmp_path / "files", kind="files", path=folder / "files")
    gate = shown(files.ask("When does the gate close on weekdays?"))
    assert "closes at 20:30 on weekdays" in gate
    assert "18:00" not in files.text()
