"""The reports of a tenant that lie in its folder: what there is, and reading one.

Belongs here: which files are reports, their names and titles. Does not belong here: making them (`rag_assets`), who may
see them and how they go over the wire (`api.operations`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rag_serving.artifacts.signed_files import read_signed, read_signed_text
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.indexes.catalog import EVAL_REPORT

HEADINGS = {
    "quality": "Quality over time",
    "evaluation": "Evaluations of generations",
    "questions": "Questions, day by day",
    "retrieval": "Retrieval phases",
    "contradictions": "Contradictions",
    "dedup": "Near-duplicates",
    "ablation": "Contribution of each stage",
    "ragas": "RAGAS",
    "other": "Other reports",
}
"""The kinds of reports in their order, and what stands above those of a kind."""
FOLDER = "reports"
EVAL_HTML = "eval_report.html"
TELEMETRY, QUALITY, RETRIEVAL, CONTRADICTIONS = "telemetry-", "quality", "retrieval", "contradictions"
_EVALUATION = "evaluation-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_TITLES = {
    QUALITY: ("quality", "Quality over generations"),
    RETRIEVAL: ("retrieval", "Retrieval phases"),
    CONTRADICTIONS: ("contradictions", "Contradictions, dead links, overdue reviews"),
    "dedup": ("dedup", "Near-duplicates"),
    "ablation": ("ablation", "Ablation: contribution of each stage"),
    "ragas": ("ragas", "RAGAS"),
}


@dataclass(frozen=True)
class ReportFile:
    """One report."""

    name: str
    kind: str
    title: str
    created_at: datetime
    bytes: int
    path: Path
    generation: str | None = None

    def payload(self, tenant: str) -> dict[str, Any]:
        """Return the JSON shape of one line of the list."""
        return {
            "name": self.name,
            "kind": self.kind,
            "title": self.title,
            "generation": self.generation,
            "created_at": self.created_at.isoformat(timespec="seconds"),
            "bytes": self.bytes,
            "url": route_of(self.name, tenant),
        }


def list_reports(store: Store, tenant: str) -> list[ReportFile]:
    """Return every report of a tenant: by kind, the newest first."""
    reports = [*_of_folder(store.tenant(tenant) / FOLDER), *_of_generations(store, tenant)]
    order = list(HEADINGS)
    newest = sorted(reports, key=lambda report: (report.created_at, report.name), reverse=True)
    return sorted(newest, key=lambda report: order.index(report.kind))


def read_report(store: Store, tenant: str, name: str) -> str | None:
    """Return the HTML of a report, None if there is none of this name.

    The name is looked up among those that are there and never becomes part of a path.

    Raises:
        StoreError: it is not as this installation wrote it.
    """
    path = next((report.path for report in list_reports(store, tenant) if report.name == name), None)
    return read_signed_text(store, path) if path else None


def route_of(name: str, tenant: str) -> str:
    """Return the route of a report in the serving API."""
    return f"/v1/reports/{quote(name, safe='')}?tenant={quote(tenant, safe='')}"


def evaluation_name(generation: str) -> str:
    """Return the name of the report on a generation's evaluation."""
    return f"{_EVALUATION}{generation}"


def evaluations(store: Store, tenant: str) -> dict[str, dict[str, Any]]:
    """Return the `eval_report.json` of each generation with one; altered ones are left out."""
    evaluated = {}
    for folder in _folders(store.generations(tenant)):
        try:
            evaluated[folder.name] = read_signed(store, folder / EVAL_REPORT)
        except StoreError:
            continue
    return evaluated


def _of_folder(folder: Path) -> Iterator[ReportFile]:
    for path in folder.glob("*.html"):
        name = path.stem
        kind, title = _TITLES.get(name, ("other", name))
        if name.startswith(TELEMETRY):
            kind, title = "questions", f"Questions on {name.removeprefix(TELEMETRY)}"
        if report := _file(path, name, kind, title):
            yield report


def _of_generations(store: Store, tenant: str) -> Iterator[ReportFile]:
    for folder in _folders(store.generations(tenant)):
        title = f"Evaluation of generation {folder.name}"
        name = evaluation_name(folder.name)
        if report := _file(folder / EVAL_HTML, name, "evaluation", title, folder.name):
            yield report


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_dir() and not path.name.startswith(".")]


def _file(path: Path, name: str, kind: str, title: str, generation: str | None = None) -> ReportFile | None:
    """Return the report at a path; no link, because that might lead out of the folder."""
    if not _NAME.fullmatch(name) or path.is_symlink() or not path.is_file():
        return None
    try:
        facts = path.stat()
        created_at = datetime.fromtimestamp(facts.st_mtime, UTC)
    except (OSError, ValueError, OverflowError):  # deleted meanwhile, or of no year that there is
        return None
    known = kind if kind in HEADINGS else "other"
    return ReportFile(name, known, title, created_at, facts.st_size, path, generation)
