"""A language without spaces: the sentence that answers is shown."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    home = built(tmp_path, kind="confluence_dump", path=folder / "dump")
    answer = home.ask("会议室需要提前几天预订？")
    assert answer["outcome"] in ("told", "closest")
    assert "会议室需要提前两天预订。" in shown(answer)
