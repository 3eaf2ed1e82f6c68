"""A tenant's day out of the telemetry database: figures, complaints, plots.

Belongs here: reading for `telemetry_report`. Does not belong here: Dagster, what is told (`reports.telemetry`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from rag_assets.reports import plots
from rag_assets.reports.report import Case, Plot
from rag_assets.reports.telemetry import complaint_cases
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from rag_assets.reports.kpis import Kpis


_OUTCOME = frozenset({"at", "kind", "question", "question_hash", "status", "user_hash", "refusal"})


@dataclass(frozen=True)
class Day:
    """What one tenant was asked on one day."""

    kpis: Kpis
    complaints: Sequence[Case]
    questions: Sequence[Mapping[str, Any]]  # rows of the telemetry table


@contextmanager
def database(config: Config) -> Iterator[Engine]:
    """Yield the telemetry database, without rows that are too old.

    Raises:
        TelemetryError: it cannot be used.
    """
    from rag_serving.telemetry.tables import opened
    from rag_serving.telemetry.writer import forget

    with opened(config.telemetry.url, Store(config.home).serving_db()) as engine:
        forget(engine, config.telemetry.retention_days)
        yield engine


def read_day(engine: Engine, tenant: str, day: date) -> Day:
    """Return the figures of a day, and the answers that readers complained of then, whenever they had asked.

    Raises:
        TelemetryError: the database cannot be read.
    """
    from rag_assets.reports.kpis import kpis
    from rag_serving.telemetry.log import questions_of, records, rows_of_day
    from rag_serving.telemetry.tables import FEEDBACK, LOSSES, QUESTIONS, RANKINGS

    told = {column.name for column in QUESTIONS.columns} - RANKINGS
    questions = rows_of_day(engine, QUESTIONS, tenant, day, told)
    feedback, losses = (rows_of_day(engine, table, tenant, day) for table in (FEEDBACK, LOSSES))
    judged = records(questions_of(engine, tenant, feedback["receipt_id"].tolist()))
    return Day(kpis(questions, feedback, losses), complaint_cases(records(feedback), judged), records(questions))


def read_questions(engine: Engine, tenant: str, last: date, days: int) -> list[dict[str, Any]]:
    """Return what became of the questions of so many days of which `last` is the last.

    Raises:
        TelemetryError: the database cannot be read.
    """
    from rag_serving.telemetry.log import records, rows_until
    from rag_serving.telemetry.tables import QUESTIONS

    return records(rows_until(engine, QUESTIONS, tenant, last, days, _OUTCOME))


def plots_of(found: Kpis) -> list[Plot]:
    """Latency per stage, status, flags, feedback; none of what is empty."""
    drawn = []
    if found.latency_ms:
        times = {stage: [each["p50"], each["p95"]] for stage, each in found.latency_ms.items()}
        drawn.append(
            Plot("Time of each stage", plots.bars(times, ["p50", "p95"], "Time of each stage", "milliseconds"))
        )
    for title, counts in {"Status": found.status, "Flags": found.flags, "Feedback": found.feedback}.items():
        if counts:
            values = {name.replace("_", " "): [float(count)] for name, count in counts.items()}
            drawn.append(Plot(title, plots.bars(values, ["count"], title, "count")))
    return drawn
