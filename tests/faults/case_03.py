"""The title of a tab stands before its content."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built


def check(folder: Path, tmp_path: Path) -> None:
    text = built(tmp_path, kind="confluence_dump", path=folder / "dump").text()
    places = [text.index(words) for words in ("Windows Server", "port 7443", "Debian", "port 9443")]
    assert places == sorted(places)
