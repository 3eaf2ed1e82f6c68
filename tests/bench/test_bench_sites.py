"""Documentation folders are measured on pages that the command makes itself."""

from __future__ import annotations

from pathlib import Path

from evals.bench.sites import figures, write_small_pages


def test_pages_that_are_made_are_read_and_split_and_nothing_changes_by_itself(tmp_path: Path) -> None:
    write_small_pages(tmp_path, 40)
    found = figures(tmp_path)
    assert found.pages == 40
    assert found.sections.sections.num_rows == 80
    assert not found.synced.failures
    assert found.read_s > 0
    assert found.unchanged_s < 1
