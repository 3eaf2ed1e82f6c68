"""A file with a password is left out, and the reason says what to do."""

from __future__ import annotations

import json
from pathlib import Path

from support.one_source import OneSource


def check(folder: Path, tmp_path: Path) -> None:
    """Build the file beside one that can be read."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "locked.pdf").write_bytes((folder / "user-password.pdf").read_bytes())
    (files / "open.md").write_text("# Gate\n\nThe gate opens at six.\n", encoding="utf-8")
    home = OneSource(tmp_path)
    home.configure(kind="files", path=str(files))
    counts = home.build()["sources"]["docs"]
    assert (counts["pages_seen"], counts["pages_excluded"], counts["pages_failed"]) == (2, 1, 0)
    (state,) = home.folder.rglob("sync_state.json")
    (reason,) = json.loads(state.read_text(encoding="utf-8"))["excluded"].values()
    assert reason == "locked.pdf: it has a password: remove it, and add the file again"
