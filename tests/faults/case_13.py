"""A note of what a version changed is one statement."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built


def check(folder: Path, tmp_path: Path) -> None:
    text = built(tmp_path, kind="docs_folder", path=folder / "site").text()
    for statement in (
        "> Changed in version 3.8: The chain parameter accepts lengths of up to 90 metres.",
        "> Deprecated since version 3.9: Use the rope of 14 mm instead of the chain.",
        "> New in version 3.7: The winch can be reversed.",
        "> The brake is checked weekly.",
    ):
        assert statement in text.splitlines()
