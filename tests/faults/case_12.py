"""Values of mkdocs-macros are put in; what stands under a condition is left out and counted."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    home = built(tmp_path, kind="docs_folder", path=folder / "site")
    assert "lifts at most 42 tonnes at full reach. Call 5580 before" in home.text()
    assert "{" not in home.text()
    assert "swims" not in home.text()
    lost = {row["macro"]: row["count"] for row in home.rows("macro_ledger") if row["outcome"] == "lost"}
    assert lost == {"template block if": 1}
    assert "42 tonnes" in shown(home.ask("How much does the crane lift at full reach?"))
