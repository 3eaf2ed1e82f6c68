"""What is counted, and over which time: measures, minutes and days.

Belongs here: names and times, as pure functions. Does not belong here: counting (`telemetry.usage`), limits (`budget`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_serving.config.budgets import Budgets, Limit
    from rag_serving.telemetry.usage import Measure

_LIMITS: Mapping[Measure, str] = {
    "questions": "questions_per_minute",
    "tokens": "tokens_per_day",
    "cost": "cost_per_day",
    "documents": "documents_per_day",
}


@dataclass(frozen=True)
class Span:
    """A minute or a day (UTC): `2026-01-31T09:59` or `2026-01-31`."""

    name: str
    ends_at: float  # seconds since 1970


def span_of(measure: Measure, now: float) -> Span:
    """Return the time in which a measure is counted; `now`: seconds since 1970."""
    at = datetime.fromtimestamp(now, UTC)
    if measure == "questions":
        begin = at.replace(second=0, microsecond=0)
        return Span(begin.strftime("%Y-%m-%dT%H:%M"), (begin + timedelta(minutes=1)).timestamp())
    begin = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return Span(begin.date().isoformat(), (begin + timedelta(days=1)).timestamp())


def limits_of(budgets: Budgets) -> dict[Measure, Limit]:
    """Return the limits that are set."""
    limits: dict[Measure, Limit | None] = {measure: getattr(budgets, name) for measure, name in _LIMITS.items()}
    return {measure: limit for measure, limit in limits.items() if limit}


def told(measure: Measure, amount: float) -> str:
    """Return an amount of a measure in words."""
    per = "a minute" if measure == "questions" else "a day"
    number = f"{amount:,.2f}" if measure == "cost" else f"{amount:,.0f}"
    return f"{'a cost of ' if measure == 'cost' else ''}{number}{'' if measure == 'cost' else f' {measure}'} {per}"


def until(span: Span, now: float) -> tuple[int, str]:
    """Return the whole seconds until a span ends, at least 1, and when that is, in words."""
    return max(1, math.ceil(span.ends_at - now)), datetime.fromtimestamp(span.ends_at, UTC).strftime("%H:%M UTC")
