"""Whether a source is overdue: by its own limit, by its schedule, or by the limit of sources without one.

Belongs here: the decision, a pure function. Does not belong here: when a sync ended (`state.records`), who is told
(`monitoring.alerts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rag_serving.config.sections import Monitoring
from rag_serving.config.sources import SourceBase, last_ticks

GRACE = timedelta(minutes=10)
"""How long after a tick its sync may take before the tick counts as missed; half an interval at most."""


@dataclass(frozen=True)
class Freshness:
    """Whether a source is overdue, and why."""

    overdue: bool
    detail: str
    last_sync: datetime | None
    oldest: datetime  # a complete sync before this moment is too old
    age_hours: float | None


def judge(
    source: SourceBase,
    monitoring: Monitoring,
    now: datetime,
    *,
    last_sync: datetime | None,
    known_since: datetime,
    syncing: bool = False,
) -> Freshness:
    """Return whether a source is overdue.

    Args:
        source: its settings.
        monitoring: the settings of all sources.
        now: the present moment.
        last_sync: when its last complete sync ended; None: there was none.
        known_since: when the source was first seen, which counts where there was no sync yet.
        syncing: whether a sync is in flight, which gets one tick more.
    """
    oldest, rule = _limit(source, monitoring, now, syncing)
    ended = f"the last complete sync ended {_moment(last_sync)}" if last_sync else "there was no complete sync yet"
    return Freshness(
        overdue=(last_sync or known_since) < oldest,
        detail=f"{ended}; by {rule} one is due after {_moment(oldest)}",
        last_sync=last_sync,
        oldest=oldest,
        age_hours=round((now - last_sync) / timedelta(hours=1), 2) if last_sync else None,
    )


def _limit(source: SourceBase, monitoring: Monitoring, now: datetime, syncing: bool) -> tuple[datetime, str]:
    """Return the moment before which a sync is too old, and the rule that says so."""
    hours, rule = source.stale_after_hours, "its stale_after_hours"
    if hours is None and source.schedule is not None:
        oldest = _missed_tick(source.schedule, monitoring.missed_syncs + syncing, now)
        return oldest, f"its schedule {source.schedule!r} (UTC, {monitoring.missed_syncs} ticks)"
    if hours is None:
        hours, rule = monitoring.stale_after_hours, "the limit of sources without a schedule"
    return now - timedelta(hours=hours), rule


def _missed_tick(schedule: str, missed: int, now: datetime) -> datetime:
    """Return the tick that has passed so many times without a sync, not counting one whose sync may still be at it."""
    ticks = last_ticks(schedule, now, missed + 1)
    grace = min(GRACE, (ticks[0] - ticks[1]) / 2)
    return ticks[missed - 1] if now - ticks[0] >= grace else ticks[missed]


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
