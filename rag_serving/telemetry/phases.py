"""The phases of retrieval that answered lately, as telemetry has them.

Belongs here: counting rows of questions. Does not belong here: which phase is in force (`rag_serving.degradation`),
reports (`evals.reports`).
"""

from __future__ import annotations

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import QUESTIONS, error_line


def answered_in(engine: Engine, tenant: str, since: float) -> dict[int | None, int]:
    """Return the number of questions and searches of a tenant that each phase answered since a time, the highest phase
    first; None: no phase did.

    Args:
        engine: of the telemetry database, whose tables exist.
        tenant: its name.
        since: seconds since 1970, UTC.

    Raises:
        TelemetryError: the database cannot be read.
    """
    asked = QUESTIONS.c.tenant == tenant, QUESTIONS.c.at >= since, QUESTIONS.c.kind != "selected_text"
    query = select(QUESTIONS.c.phase, func.count()).where(*asked).group_by(QUESTIONS.c.phase)
    try:
        with engine.connect() as connection:
            counts = {phase: int(count) for phase, count in connection.execute(query)}
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error
    return dict(sorted(counts.items(), key=lambda each: -(each[0] or 0)))
