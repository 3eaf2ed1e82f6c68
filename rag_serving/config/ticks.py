"""Cron expressions: whether one can be followed, and when its schedule ticked last (UTC), by the library of Dagster.

Belongs here: the check of the configuration, the ticks before a moment. Does not belong here: starting anything at a
tick (`rag_assets.jobs`).
"""

from __future__ import annotations

from datetime import UTC, datetime


def last_ticks(expression: str, before: datetime, count: int) -> list[datetime]:
    """Return the last ticks before a moment, the newest first."""
    from croniter import croniter

    ticks = croniter(expression, before.astimezone(UTC))
    return [ticks.get_prev(datetime) for _ in range(count)]


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
