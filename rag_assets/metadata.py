"""Metadata worth reading in the Dagster UI: counts, columns, samples, a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from evals.reports import plots
from evals.reports.report import Report, markdown
from rag_serving.artifacts.columns import take_rows
from rag_serving.artifacts.schema import TableSchema
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import for_markdown

SAMPLE_ROWS = 5
CELL_CHARS = 80
NAMED = 20
"""Failures and exclusions that are named one by one; the rest is counted."""


def of_table(table: pa.Table, schema: TableSchema, file: Path, sample: Sequence[str]) -> dict[str, Any]:
    """Return the common metadata of a table's materialization: rows, columns, its path, and a sample of some
    columns."""
    return {
        "dagster/row_count": len(table),
        "dagster/column_schema": column_schema(schema),
        "file": dg.MetadataValue.path(str(file)),
        "sample": dg.MetadataValue.md(markdown_table(sample_rows(table), sample)),
    }


def column_schema(schema: TableSchema) -> dg.TableSchema:
    """Return the columns of an artifact table with their types and descriptions."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(field.name, str(field.type), schema.descriptions[field.name]) for field in schema.columns
        ]
    )


def sample_rows(table: pa.Table, count: int = SAMPLE_ROWS) -> list[dict[str, Any]]:
    """Return rows spread evenly over the table."""
    step = max(len(table) // count, 1)
    rows: list[dict[str, Any]] = take_rows(table, np.arange(0, len(table), step)[:count]).to_pylist()
    return rows


def markdown_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as a Markdown table of these columns; long cells are cut."""
    lines = [f"| {' | '.join(map(for_markdown, columns))} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(row[name]) for name in columns)} |" for row in rows]
    return "\n".join(lines) if len(lines) > 2 else "none"


def named_reasons(reasons: Mapping[str, str], subject: str = "page") -> str:
    """Return ids with their reasons as a Markdown table, the first of many."""
    rows = [{subject: key, "reason": why} for key, why in sorted(reasons.items())]
    more = f"\n\n… and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return markdown_table(rows[:NAMED], [subject, "reason"]) + more


def listed(lines: Iterable[str]) -> str:
    """Return lines as a Markdown list, each as it is written."""
    return "\n".join(f"- {described(line)}" for line in lines) or "none"


def described(text: str) -> str:
    """Return a line as Dagster's UI shows it in a description, which it takes for Markdown."""
    return for_markdown(redacted(text))


def histogram(values: Sequence[float], title: str, xlabel: str) -> str:
    """Return a histogram as Markdown with the picture in it."""
    return _picture(plots.histogram(values, title, xlabel), title)


def stacked_bars(values: Mapping[str, Sequence[float]], parts: Sequence[str], title: str, xlabel: str) -> str:
    """Return a bar for each name, stacked of its parts, as Markdown with the picture in it; the longest bars of
    many. Nothing is drawn of nothing."""
    if not values:
        return title
    return _picture(plots.stacked_bars(values, parts, title, xlabel), title)


def of_report(report: Report, file: Path, url: str) -> dict[str, Any]:
    """Return a report on its asset's page, where its HTML file lies, and where the serving API shows it to
    operators."""
    return {
        "report": dg.MetadataValue.md(markdown(report)),
        "open": dg.MetadataValue.url(url),
        "html": dg.MetadataValue.path(str(file.absolute())),
    }


def _picture(png: str, title: str) -> str:
    return f"![{title}](data:image/png;base64,{png})"


def _cell(value: Any) -> str:
    text = " › ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = redacted(" ".join(text.split()))
    return for_markdown(text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…")
