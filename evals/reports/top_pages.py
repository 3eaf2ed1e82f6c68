"""The pages that most answers of a day were made from, as a table of a report.

Belongs here: counting rows of the telemetry tables. Does not belong here: reading the database, titles of pages, which
telemetry does not keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.reports.report import Cell, Table
from evals.reports.unanswered import outcome_of

MOST = 20


def top_pages(questions: Sequence[Mapping[str, Any]], most: int = MOST) -> Table:
    """Return the pages whose passages were given to the most confident answers; a page counts once for each answer."""
    answers = [row for row in questions if row["kind"] == "ask" and outcome_of(row) == "told"]
    counts = Counter(page for row in answers for page in {_page_of(chunk) for chunk in row["locked"]})
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows: list[Mapping[str, Cell]] = [
        {"page": page, "answers": count, "share": count / len(answers)} for page, count in ranked[:most]
    ]
    note = "Pages whose passages an answer was made from; ids as in links and receipts." if rows else ""
    return Table.from_rows("Pages most used in answers", rows, note)


def _page_of(chunk_id: str) -> str:
    return chunk_id.rsplit(":", 2)[0]
