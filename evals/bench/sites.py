"""Measure reading of documentation folders: `python -m evals.bench.sites [DIR…]`, by default the Rust book and Kafka's
documentation of ../shared/data, and a thousand small generated pages of Markdown.

Reported are pages a second of processor time: read from their files, and split into sections afterwards; the seconds of
processor time of a sync without changes; and losses by kind.

Belongs here: reading and counting. Does not belong here: retrieval (`passages`, `people`).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.base import SyncResult
from rag_assets.sources.documents.rows import DocumentReading
from rag_assets.sources.sites.source import SiteFolder
from rag_assets.steps.sections.splitting import SectionsResult, build_sections
from rag_serving.config.sources import DocsFolder

REAL = Path(__file__).parents[3] / "shared" / "data"
_SETTLED_S = 60.0  # as if the files had been written long before


class SiteFigures(NamedTuple):
    """The figures of one folder; seconds are processor time."""

    synced: SyncResult
    sections: SectionsResult
    read_s: float
    split_s: float
    unchanged_s: float

    @property
    def pages(self) -> int:
        """Return the number of its pages."""
        return len(self.synced.pages)


def figures(folder: Path) -> SiteFigures:
    """Read a folder, split its pages, and sync it again."""
    source = SiteFolder("bench", DocsFolder(kind="docs_folder", tenant="bench", path=folder), DocumentReading())
    begun = _processor_s()
    synced = source.sync(None, {})
    read = _processor_s()
    sections = build_sections(synced.pages, max_page_bytes=50_000_000)
    split = _processor_s()
    state = {**synced.state, "began": time.time() + _SETTLED_S}
    before = _processor_s()
    again = source.sync(synced.pages, state)
    unchanged_s = _processor_s() - before
    if again.changed or again.deleted:
        raise SystemExit(f"{folder}: {again.changed} pages changed by themselves")
    return SiteFigures(synced, sections, read - begun, split - read, unchanged_s)


def _processor_s() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def write_small_pages(folder: Path, count: int = 1000) -> None:
    """Write pages of Markdown as people write them: headings, a list, a table, code, links."""
    for number in range(count):
        path = folder / f"part{number % 20}" / f"page{number}.md"
        path.parent.mkdir(exist_ok=True)
        steps = "\n".join(
            f"- Step {step} needs the {number + step}th key of the [store](page{step}.md)." for step in range(8)
        )
        text = "\n\n".join(
            f"Paragraph {one} of page {number} tells what the machine does when it is asked." for one in range(6)
        )
        path.write_text(
            f"---\ntitle: Page {number}\ntags: [a, b]\n---\n# Page {number}\n\n{text}\n\n## Steps\n\n{steps}\n\n"
            f"| Name | Value |\n|---|---|\n| port | {number} |\n\n```sh\nrun --page {number}\n```\n",
            encoding="utf-8",
        )


def _print(name: str, found: SiteFigures) -> None:
    lost = Counter[str]()
    for row in found.sections.ledger.to_pylist():
        if row["outcome"] in ("lost", "unresolved"):
            lost[f"{row['macro']} ({row['outcome']})"] += row["count"]
    print(
        f"{name}: {found.pages} pages, {found.pages / found.read_s:.0f} pages/s read, "
        f"{found.pages / max(found.split_s, 1e-9):.0f} pages/s split into sections, nothing changed "
        f"{found.unchanged_s:.2f} s, {len(found.synced.excluded)} excluded, "
        f"{len(found.synced.failures) + len(found.sections.failures)} failed"
    )
    for kind, count in lost.most_common(8):
        print(f"  {count} {kind}")


def main(folders: list[Path]) -> None:
    """Print the figures of each folder that is there, and of small pages."""
    with tempfile.TemporaryDirectory() as made:
        write_small_pages(Path(made), 20)
        figures(Path(made))  # what is imported first counts for none of them
    for folder in folders or [REAL / "rust-book", REAL / "kafka-docs"]:
        if folder.exists():
            _print(folder.name, figures(folder))
        else:
            print(f"{folder} is not there")
    with tempfile.TemporaryDirectory() as made:
        write_small_pages(Path(made))
        _print("a thousand small pages", figures(Path(made)))


if __name__ == "__main__":
    main([Path(one) for one in sys.argv[1:]])
