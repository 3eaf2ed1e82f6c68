"""Lines of a PDF that run from right to left are in the order of speech."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built


def check(folder: Path, tmp_path: Path) -> None:
    """Build the file, and read its first line."""
    assert "הספרייה פתוחה בכל יום שלישי עד השעה תשע" in built(tmp_path, kind="files", path=folder).text()
