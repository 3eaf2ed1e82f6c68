"""Files of delimited values: comma, semicolon, tab or bar.

Belongs here: finding the delimiter, rows as a table. Does not belong here: spreadsheets.
"""

from __future__ import annotations

import csv

from rag_assets.steps.files.decoding import shortened
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.budget import Budget, first_rows, noted
from rag_assets.steps.formats.tables import row_line


def delimited_table(text: str, budget: Budget) -> str:
    """Return a file of delimited values as a Markdown table; the first line is its head and shows the delimiter."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t|", key=head.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise FileError(f"it is not a readable table: {error}") from None
    if not rows:
        return ""
    width = max(map(len, rows))
    kept, cut = first_rows(rows, budget)
    lines = [row_line([" ".join(cell.split()) for cell in row] + [""] * (width - len(row))) for row in kept]
    table = "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])
    return noted(table, cut) if cut else shortened(table, budget)
