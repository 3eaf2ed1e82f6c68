"""A report for people: figures, tables, plots and single cases, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal

from rag_serving.artifacts.signed_files import write_signed_text
from rag_serving.artifacts.store import Store
from rag_serving.config.serving import Serving
from rag_serving.escaping.targets import for_markdown
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


Cell = str | int | float | bool | None
Tone = Literal["good", "bad", "neutral"]

MARKDOWN_ROWS = 20
MARKDOWN_CASES = 10


@dataclass(frozen=True)
class Figure:
    """One number with its name; `note` is the comparison."""

    name: str
    value: str
    tone: Tone = "neutral"
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under named columns; a row may lack a column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Cell]]
    note: str = ""

    @classmethod
    def from_rows(cls, title: str, rows: Iterable[Mapping[str, Cell]], note: str = "") -> Table:
        """Return a table with every column of its rows, in the order in which they first appear."""
        rows = list(rows)
        return cls(title, list(dict.fromkeys(name for row in rows for name in row)), rows, note)


def filled(*tables: Table) -> list[Table]:
    """Return the tables that have a row."""
    return [table for table in tables if table.rows]


@dataclass(frozen=True)
class Plot:
    """A picture of numbers: a PNG as base64."""

    title: str
    png: str


@dataclass(frozen=True)
class Case:
    """One question, page or pair that can be opened; `parts` are (name, text) in order, shown as they are.

    `before` is the comparison, shown beside them; `evidence` is below both.
    """

    title: str
    status: str
    tone: Tone
    parts: Sequence[tuple[str, str]] = ()
    before: Sequence[tuple[str, str]] = ()
    evidence: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Pair:
    """Two of several runs side by side: their differences, and what changed from one to the other."""

    before: str
    after: str
    tables: Sequence[Table] = ()
    cases: Sequence[Case] = ()


@dataclass(frozen=True)
class Report:
    """The content of one report: the key figures first, the worst cases first, the newest pair first."""

    title: str
    about: str  # one line: what was measured, of what, when
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    cases: Sequence[Case] = ()
    cases_title: str = "Cases"
    pairs: Sequence[Pair] = ()  # of which a person chooses one
    facts: Mapping[str, str] = field(default_factory=dict)  # settings, versions, command


def words(name: str) -> str:
    """Return the name of a measure, a stage or a status as people read it."""
    return name.replace("_", " ")


def percent(share: float | None) -> str:
    """Return a share as people read it."""
    return "–" if share is None else f"{100 * share:.1f} %"


def milliseconds(value: float | None) -> str:
    """Return a time as people read it."""
    return "–" if value is None else f"{value:,.0f} ms"


def is_number(value: Cell) -> bool:
    """Return whether a cell is sorted and aligned as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of(value: Cell) -> str:
    """Return a cell as people read it: no more digits than mean something."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def markdown(report: Report) -> str:
    """Return the report as Markdown; the first rows of long tables and the first cases."""
    parts = [for_markdown(report.about)]
    if report.figures:
        figures = ({"": figure.name, "value": figure.value, "note": figure.note} for figure in report.figures)
        parts.append(markdown_table(Table.from_rows("", figures)))
    parts += [f"![{for_markdown(plot.title)}](data:image/png;base64,{plot.png})" for plot in report.plots]
    for table in report.tables:
        parts += [f"**{for_markdown(table.title)}**", markdown_table(table)]
        parts += [for_markdown(table.note)] if table.note else []
    for pair in report.pairs[:1]:
        parts.append(f"**{for_markdown(pair.after)} beside {for_markdown(pair.before)}**")
        parts += [markdown_table(table) for table in pair.tables]
    if report.cases:
        shown = report.cases[:MARKDOWN_CASES]
        lines = [f"- {for_markdown(case.status)}: {for_markdown(case.title)}" for case in shown]
        parts += [f"**{for_markdown(report.cases_title)}**", "\n".join(lines)]
        more = len(report.cases) - len(shown)
        parts += [f"… and {more} more in the HTML report"] if more else []
    if report.facts:
        parts.append(" · ".join(f"{for_markdown(name)}: {for_markdown(text)}" for name, text in report.facts.items()))
    return "\n\n".join(parts)


def markdown_table(table: Table) -> str:
    """Return the first rows of a table as Markdown."""
    lines = [f"| {' | '.join(map(for_markdown, table.columns))} |", f"|{'---|' * len(table.columns)}"]
    for row in table.rows[:MARKDOWN_ROWS]:
        lines.append(f"| {' | '.join(for_markdown(text_of(row.get(name))) for name in table.columns)} |")
    more = len(table.rows) - MARKDOWN_ROWS
    return "\n".join(lines) + (f"\n\n… and {more} more rows in the HTML report" if more > 0 else "")
