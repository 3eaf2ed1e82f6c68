"""Reports as files under a tenant's folder.

Belongs here: where they lie, and how long. Does not belong here: what they tell (`steps`).
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from rag_assets.steps.report import Report
from rag_assets.steps.report_html import html
from rag_serving.reports import FOLDER, TELEMETRY
from rag_serving.store import Store, write_text


def reports_folder(store: Store, tenant: str) -> Path:
    return store.tenant(tenant) / FOLDER


def write_report(store: Store, tenant: str, name: str, report: Report) -> Path:
    """Write a report's HTML file and say where it lies."""
    path = reports_folder(store, tenant) / f"{name}.html"
    write_text(path, html(report))
    return path


def forget_days(store: Store, tenant: str, keep_days: int, today: date) -> int:
    """Delete the telemetry reports of days before the last `keep_days`; how many there were."""
    oldest = f"{TELEMETRY}{(today - timedelta(days=keep_days)).isoformat()}.html"
    doomed = [path for path in reports_folder(store, tenant).glob(f"{TELEMETRY}*.html") if path.name < oldest]
    for path in doomed:
        path.unlink()
    return len(doomed)
