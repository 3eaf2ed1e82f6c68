"""Reports as files under a tenant's folder.

Belongs here: where they lie, and how long. Does not belong here: what they tell (`rag_assets.steps`).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from evals.reports.html import html
from evals.reports.report import Report
from rag_serving.artifacts.signed_files import write_signed_text
from rag_serving.artifacts.store import Store
from rag_serving.indexes.reports import FOLDER, QUALITY, TELEMETRY


def reports_folder(store: Store, tenant: str) -> Path:
    return store.tenant(tenant) / FOLDER


def write_report(store: Store, tenant: str, name: str, report: Report) -> Path:
    """Write a report's HTML file and say where it lies."""
    path = reports_folder(store, tenant) / f"{name}.html"
    write_signed_text(store, path, html(report))
    return path


def forget_days(store: Store, tenant: str, keep_days: int, today: date) -> int:
    """Delete the reports on questions of days before the last `keep_days`; return how many there were."""
    folder, oldest = reports_folder(store, tenant), today - timedelta(days=keep_days)
    doomed = [path for path in folder.glob(f"{TELEMETRY}*.html") if path.name < f"{TELEMETRY}{oldest.isoformat()}.html"]
    for path in folder.glob(f"{QUALITY}.html"):  # it names questions, too, and is made anew with each publication
        if datetime.fromtimestamp(path.stat().st_mtime, UTC).date() < oldest:
            doomed.append(path)
    for path in doomed:
        path.unlink()
    return len(doomed)
