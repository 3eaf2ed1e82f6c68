"""Values in the braces of MDX are put in; a hole is no statement."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    home = built(tmp_path, kind="docs_folder", path=folder / "site")
    assert "at most 25 lorries, and the gateway listens on port 8443." in home.text()
    assert "at most 900 rows" in home.text()
    assert "8443" in shown(home.ask("Which port does the gateway listen on?"))
    assert "40 metres" in shown(home.ask("How long is the hull?"))
