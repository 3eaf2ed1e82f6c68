"""The last release of a documentation answers, unless the question names another version."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    home = built(tmp_path, kind="docs_folder", path=folder / "site")
    last = home.ask("When does the mooring session time out?")
    assert "60 seconds" in last["citations"][0]["quote"]
    assert last["citations"][0]["title"].startswith("Timeouts (version 2.0)")
    old = home.ask("How many lorries may a ferry call carry in version 1.0?")
    assert "at most 10 lorries" in shown(old)
    assert {citation["title"] for citation in old["citations"]} == {"Limits (version 1.0)"}
    coming = home.ask("When does the mooring session time out in the next version?")
    assert "90 seconds" in shown(coming)
    assert "60 seconds" not in shown(coming)
