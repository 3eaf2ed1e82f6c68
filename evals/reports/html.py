"""A report as one HTML file that needs nothing else: no network, no other file.

Belongs here: what its template is given. Does not belong here: markup, style and script (`templates/`), the content
of a report (`report`).
"""

from __future__ import annotations

from evals.reports.report import Report, Table, is_number, text_of
from rag_serving.escaping.templates import html_template


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
    """Return the columns with a number, whose heads stand to the right, too."""
    return {column for column in table.columns if any(is_number(row.get(column)) for row in table.rows)}
