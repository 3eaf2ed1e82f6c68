"""Cron expressions: whether one can be followed, by the library that Dagster has inside.

Belongs here: the check of the configuration. Does not belong here: when one ticked (`rag_serving.config.ticks`).
"""

from __future__ import annotations

from datetime import UTC, datetime

LONGEST = 200
"""Characters of an expression; a list of all minutes of an hour has 169."""


def check_cron(expression: str) -> str:
    """Return an expression that Dagster can follow.

    Raises:
        ValueError: it has not five fields, a field is out of range, or no such day ever comes.
    """
    from croniter import croniter
    from croniter.croniter import CroniterError

    example = "minute hour day month weekday, such as '*/15 * * * *'"
    try:
        if len(expression) > LONGEST or len(croniter.expand(expression)[0]) != 5:
            raise ValueError(f"{expression[:LONGEST]!r} is not a cron expression of five fields: {example}")
        croniter(expression, datetime.now(UTC)).get_next()
    except CroniterError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{expression!r} is not a cron expression ({reason}); five fields: {example}") from None
    return expression
