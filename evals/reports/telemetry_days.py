"""A tenant's day out of the telemetry database: figures, complaints, plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from evals.reports import plots
from evals.reports.report import Plot, words
from evals.reports.telemetry import Day, complaint_cases
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.telemetry.recorder import TelemetryError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from evals.reports.telemetry import Kpis


_OUTCOME = frozenset({"at", "kind", "question", "question_hash", "status", "outcome", "user_hash", "refusal"})

ASKED_DAYS = 30  # of questions that say how often a page is asked about
_RETRIEVAL = frozenset(
    {"kind", "origin", "question", "flags", "receipt_id", "phase", "retrieval_ms", "matched", "corrected", "action"}
)


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
    """Return the figures of a day, and the answers that readers complained of then, from any day.

    Raises:
        TelemetryError: the database cannot be read.
    """
    from evals.evaluation.telemetry_rows import questions_of, records, rows_of_days
    from evals.reports.telemetry import kpis
    from rag_serving.telemetry.tables import FEEDBACK, LOSSES, QUESTIONS, RANKINGS

    columns = {column.name for column in QUESTIONS.columns} - RANKINGS
    questions = rows_of_days(engine, QUESTIONS, tenant, (day, day), columns)
    feedback, losses = (rows_of_days(engine, table, tenant, (day, day)) for table in (FEEDBACK, LOSSES))
    judged = records(questions_of(engine, tenant, feedback["receipt_id"].tolist()))
    return Day(kpis(questions, feedback, losses), complaint_cases(records(feedback), judged), records(questions))


def read_questions(engine: Engine, tenant: str, last: date, days: int) -> list[dict[str, Any]]:
    """Return the outcomes of the questions of so many days, up to `last`.

    Raises:
        TelemetryError: the database cannot be read.
    """
    return _questions(engine, tenant, last, days, _OUTCOME)


def _questions(engine: Engine, tenant: str, last: date, days: int, columns: Set[str]) -> list[dict[str, Any]]:
    from evals.evaluation.telemetry_rows import last_days, records, rows_of_days
    from rag_serving.telemetry.tables import QUESTIONS

    return records(rows_of_days(engine, QUESTIONS, tenant, last_days(days, last), columns))


def read_retrieval(
    engine: Engine, tenant: str, last: date, days: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the questions of so many days of which `last` is the last, without their rankings, and the verdicts.

    Raises:
        TelemetryError: the database cannot be read.
    """
    from evals.evaluation.telemetry_rows import last_days, records, rows_of_days
    from rag_serving.telemetry.tables import FEEDBACK

    judged = rows_of_days(engine, FEEDBACK, tenant, last_days(days, last), {"verdict", "comment"})
    return _questions(engine, tenant, last, days, _RETRIEVAL), records(judged)


def asked_about(config: Config, tenant: str, warn: Callable[[str], object]) -> dict[str, int]:
    """Return how often each page was what a question of the last days was about; nothing where telemetry is off, or
    away, of which `warn` is told."""
    if not config.telemetry.enabled:
        return {}
    try:
        with database(config) as engine:
            return pages_asked(engine, tenant, datetime.now(UTC).date(), ASKED_DAYS)
    except TelemetryError as error:
        warn(f"no questions: {error}")
        return {}


def pages_asked(engine: Engine, tenant: str, last: date, days: int) -> dict[str, int]:
    """Return of how many questions of so many days each page has the best passage, by page id; `last` is the last day.

    Raises:
        TelemetryError: the database cannot be read.
    """
    rows = _questions(engine, tenant, last, days, {"locked"})
    return dict(Counter(row["locked"][0].rsplit(":", 2)[0] for row in rows if row["locked"]))


def plots_of(kpis: Kpis) -> list[Plot]:
    """Return plots of latency per stage, status, outcome, flags and feedback; none without data."""
    times = {stage: [values["p50"], values["p95"]] for stage, values in kpis.latency_ms.items()}
    counted = {"Status": kpis.status, "Outcome": kpis.outcome, "Flags": kpis.flags, "Feedback": kpis.feedback}
    drawn = [("Time of each stage", times, ["p50", "p95"], "milliseconds")]
    for title, counts in counted.items():
        drawn.append((title, {words(name): [float(count)] for name, count in counts.items()}, ["count"], "count"))
    return [Plot(title, plots.bars(values, parts, title, unit)) for title, values, parts, unit in drawn if values]
