"""Whose turn it is: tenants are served by what they were given so far, within their limits.

Belongs here: pure decisions on what the database tells. Does not belong here: reading and writing it (`queue`).

Start-time fair queueing (Goyal, Vin, Cheng: Start-time fair queueing, SIGCOMM 1996) with equal weights: each tenant has
a virtual time up to which it was served, in tokens. The one with the least is next; it is charged when a job is
claimed. The clock of all is the start of the job that was claimed last: who comes (back) starts there, so that nobody
saves up turns while idle, and nobody pays for having worked alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rag_serving.config.jobs import JobLimits

LONGEST_BACKOFF_S = 300.0


@dataclass(frozen=True)
class TenantTurn:
    """A tenant with jobs that are due: so many of them `waiting`. `served`: virtual time in tokens; `free_at`: when its
    rates allow one more."""

    tenant: str
    served: float
    free_at: float
    waiting: int
    running: int
    limits: JobLimits


def next_tenant(turns: Iterable[TenantTurn], clock: float, now: float) -> TenantTurn | None:
    """Return the tenant whose job is claimed next; None where each is at a limit. `clock`: virtual time of all.

    Of those that were given the same, the one with the fewest jobs.
    """
    allowed = [turn for turn in turns if turn.running < turn.limits.concurrency and turn.free_at <= now]
    return min(allowed, key=lambda turn: (max(turn.served, clock), turn.waiting, turn.tenant), default=None)


def charged(turn: TenantTurn, clock: float, tokens: int, now: float) -> tuple[float, float, float]:
    """Return the clock of all, the tenant's virtual time and its `free_at`, once a job of so many tokens is claimed."""
    start = max(turn.served, clock)
    pause = max(_pause(1, turn.limits.jobs_per_minute), _pause(tokens, turn.limits.tokens_per_minute))
    return start, start + max(tokens, 1), max(turn.free_at, now) + pause


def backoff(attempts: int, first_s: float) -> float:
    """Return the seconds before the next try, after so many that failed (at least one)."""
    return float(min(first_s * 2 ** min(attempts - 1, 30), LONGEST_BACKOFF_S))


def _pause(amount: float, per_minute: float) -> float:
    """Return the seconds that so much takes at a rate."""
    return 60 * amount / per_minute if per_minute else 0.0
