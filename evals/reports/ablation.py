"""The gain of each stage for the answers of a gold set, for analysts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evals.reports.report import Figure, Report, Table, words

Row = Mapping[str, Any]

VERSION = 1
"""Raised when the report of the same figures changes."""
NAME, CHANCE, TIME, SAME = "variant", "p", "total_ms_p50", "same_as"
SIGNIFICANT = 0.05
"""A difference with a larger p may be chance."""


def ablation_report(tenant: str, generation: str, rows: Sequence[Row]) -> Report:
    """Return the report of a tenant; the first row is that of the configured defaults."""
    if not rows:
        return Report(f"Ablation of {tenant}", "no gold set: nothing was asked")
    measures = measures_of(rows)
    defaults, same = rows[0], [row[NAME] for row in rows if SAME in row]
    rows = [row for row in rows if SAME not in row]
    return Report(
        title=f"Ablation of {tenant}",
        about=f"The gold set asked of generation {generation} with {len(rows) - 1} stages changed, one at a time",
        figures=[Figure(words(name), f"{defaults[name]:.3f}", note="defaults") for name in measures],
        tables=[_means(rows, measures, same), _differences(rows, measures)],
    )


def measures_of(rows: Sequence[Row]) -> list[str]:
    """Return the measures that the defaults have a value of, in their order."""
    return [name for name, value in rows[0].items() if name not in (NAME, CHANCE, TIME) and value is not None]


def differences(rows: Sequence[Row], measure: str) -> dict[str, list[float]]:
    """Return each variant's difference from the defaults, the worst first, for a plot."""
    by_variant = {row[NAME]: row[measure] - rows[0][measure] for row in rows[1:] if row.get(measure) is not None}
    return {name: [value] for name, value in sorted(by_variant.items(), key=lambda pair: pair[1])}


def _means(rows: Sequence[Row], measures: Sequence[str], same: Sequence[str]) -> Table:
    note = (
        "p: how likely a difference in answerability as large as this is by chance (paired randomization test against "
        f"the defaults); above {SIGNIFICANT} it says nothing."
    )
    if same:
        note += f" Not measured, because they change nothing of this configuration: {'; '.join(same)}."
    cells = (
        {
            NAME: row[NAME],
            **{words(name): row.get(name) for name in measures},
            "p": row[CHANCE],
            "p50 ms": row.get(TIME),
        }
        for row in rows
    )
    return Table.from_rows("Variants", cells, note)


def _differences(rows: Sequence[Row], measures: Sequence[str]) -> Table:
    cells = (
        {
            NAME: row[NAME],
            **{words(name): row[name] - rows[0][name] for name in measures if row.get(name) is not None},
            "significant": row[CHANCE] < SIGNIFICANT,
        }
        for row in rows[1:]
    )
    return Table("Against the defaults", [NAME, *map(words, measures), "significant"], list(cells))
