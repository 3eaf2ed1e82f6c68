"""Figures of many questions as tables: percentiles, CSV.

Belongs here: what several evaluations compute alike. Does not belong here: what is measured (`measures`, `bench`).

pandas is imported where it is used: it takes half a second, which Dagster's processes need not spend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_serving.escaping.targets import for_csv

_PARTS = {"p50": 0.50, "p95": 0.95}


def percentiles(timings: Iterable[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return p50 and p95 of each stage over the questions that went through it; the unit stays."""
    import pandas as pd

    stages = pd.DataFrame(list(timings), dtype="float64")
    return {str(stage): _rounded(values.quantile(list(_PARTS.values()))) for stage, values in stages.items()}


def _rounded(values: Iterable[float]) -> dict[str, float]:
    return {name: round(float(value), 3) for name, value in zip(_PARTS, values, strict=True)}


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with a column for everything that any of them has; no cell is a formula."""
    import pandas as pd

    cells = [{name: for_csv(value) for name, value in row.items()} for row in rows]
    return str(pd.DataFrame(cells, dtype=object).to_csv(index=False, lineterminator="\n"))
