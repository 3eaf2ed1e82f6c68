"""When a schedule ticked last (UTC).

Belongs here: the ticks before a moment. Does not belong here: starting anything at a tick (`rag_assets.schedules`).
"""

from __future__ import annotations

from datetime import UTC, datetime


def last_ticks(expression: str, before: datetime, count: int) -> list[datetime]:
    """Return the last ticks before a moment, the newest first."""
    from croniter import croniter

    ticks = croniter(expression, before.astimezone(UTC))
    return [ticks.get_prev(datetime) for _ in range(count)]
