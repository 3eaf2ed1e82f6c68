"""Pages of a PDF that are set sideways are read in the order of their words."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    """Build the three files, and ask for a cell of the table."""
    home = built(tmp_path, kind="files", path=folder)
    text = home.text()
    assert text.count("A pilot costs 310 euros by day and 455 euros by night.") == 2
    assert text.index("| crane | hours | inspection |") < text.index("| K1 | 3120 | 14 April |")
    assert "2895" in shown(home.ask("How many hours did crane K2 work?"))
