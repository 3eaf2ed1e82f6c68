"""Reports as HTML files that need nothing else, under a tenant's folder, and their addresses."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from evals.reports.report import Report, Table, is_number, text_of
from rag_serving.artifacts.signed_files import write_signed_text
from rag_serving.artifacts.store import Store
from rag_serving.config.serving import Serving
from rag_serving.escaping.templates import html_template
from rag_serving.indexes.catalog import FOLDER, QUALITY, TELEMETRY, route_of


def reports_folder(store: Store, tenant: str) -> Path:
    return store.tenant(tenant) / FOLDER


def write_report(store: Store, tenant: str, name: str, report: Report) -> Path:
    """Write a report's HTML file and return its path."""
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


def html(report: Report) -> str:
    """Return the whole file. Every text is escaped: a page's content cannot become markup here."""
    return html_template(__package__, "report.html.j2").render(
        report=report,
        pair_names=list(dict.fromkeys(name for pair in report.pairs for name in (pair.after, pair.before))),
        numeric_columns=_numeric_columns,
        is_number=is_number,
        text_of=text_of,
    )


def _numeric_columns(table: Table) -> set[str]:
    """Return the columns with a number, whose headings are right-aligned, too."""
    return {column for column in table.columns if any(is_number(row.get(column)) for row in table.rows)}


def page_url(serving: Serving) -> str:
    """Return the address of the web page: `serving.public_url`, else the one for this machine's browser."""
    if serving.public_url:
        return f"{serving.public_url.rstrip('/')}/"
    host = "127.0.0.1" if serving.host in ("0.0.0.0", "::") else serving.host
    return f"http://{f'[{host}]' if ':' in host else host}:{serving.port}/"


def report_url(serving: Serving, tenant: str, name: str) -> str:
    """Return the address where an operator opens a report."""
    return page_url(serving).rstrip("/") + route_of(name, tenant)
