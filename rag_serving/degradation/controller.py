"""The retrieval phase in force: the configured one, or a lower one while that fails or is too slow. Each process of a
server has its own controllers, one for each tenant, so that processes may be in different phases for a while. Nothing
survives a restart."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from rag_serving.config.phases import Degradation

MOST_SAMPLES = 5_000
"""Questions that a window keeps; of more in its time, the newest."""
P50, P95 = 0.5, 0.95


@dataclass(frozen=True)
class Sample:
    """One question."""

    at: float  # seconds of the clock
    latency_ms: float  # from the question to its passages
    is_error: bool = False  # the phase in force failed it, whether or not another one answered
    is_lost: bool = False  # no phase answered it
    asker: str | None = None  # the caller; None: one without a name, who may be several


@dataclass(frozen=True)
class Figures:
    """The totals of a window's samples; without any, a share is 0 and a time None."""

    questions: int = 0
    error_rate: float = 0.0
    lost_rate: float = 0.0
    p50_ms: float | None = None
    p95_ms: float | None = None


class Window:
    """The samples of the last `seconds`, MOST_SAMPLES at most. Its owner lets one thread use it at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def clear(self) -> None:
        self._samples.clear()

    def figures(self, now: float) -> Figures:
        """Return the totals of recent samples."""
        while self._samples and self._samples[0].at < now - self._seconds:
            self._samples.popleft()
        return _figures(self._samples)

    def figures_of_others(self, slow_ms: float) -> Figures:
        """Return the same without the named caller with most of the failures or times above `slow_ms`."""
        met = Counter(one.asker for one in self._samples if one.asker and (one.is_error or one.latency_ms > slow_ms))
        most = next((asker for asker, _ in met.most_common(1)), None)
        return _figures([one for one in self._samples if most is None or one.asker != most])


def _figures(samples: Collection[Sample]) -> Figures:
    count = len(samples)
    if not count:
        return Figures()
    times = sorted(sample.latency_ms for sample in samples)
    errors, lost = sum(sample.is_error for sample in samples), sum(sample.is_lost for sample in samples)
    return Figures(count, errors / count, lost / count, percentile(times, P50), percentile(times, P95))


def percentile(ascending: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of the values do not exceed (nearest rank)."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


Direction = Literal["down", "up", "configured"]
Breach = Literal["lost", "failed", "slow"]
"""No phase answered; the phase in force failed; passages came too late."""
OFF, TOP = 0, 3
"""The phase that is none: retrieval is left alone; and the highest one."""
MOST_CHANGES = 50
"""Changes that are remembered, the newest."""
_WHY: Mapping[Breach, str] = {
    "lost": "no phase answered {0.lost_rate:.0%} of {0.questions} questions",
    "failed": "it failed {0.error_rate:.0%} of {0.questions} questions",
    "slow": "5 % of {0.questions} questions waited for passages for {0.p95_ms:.0f} ms or longer",
}
_PROBE_LOST_S = 60.0
_LOOKS = 60
"""Times that a window is judged in its length, at most: judging sorts what it holds."""


@dataclass(frozen=True)
class Change:
    """One step from a phase to another."""

    at: datetime
    direction: Direction
    before: int
    after: int
    why: str


@dataclass(frozen=True)
class PhaseTurn:
    """The phase of one question; `number` detects a change of phase meanwhile."""

    phase: int
    is_probe: bool
    number: int
    asker: str | None = None


@dataclass(frozen=True)
class PhaseState:
    """The controller's state."""

    configured: int
    in_force: int
    why: str
    since: datetime
    window: Figures
    changes: tuple[Change, ...]


class PhaseController:
    """Decides about one tenant's phase. Safe to use from several threads. Down: a phase that fails more than
    `max_error_rate` of a window's questions, or answers 5 % of them in more than `max_p95_ms`, gives way to the one
    below. When no phase answers more than that share, or when the phase below is too slow for another window, retrieval
    is left. Up: after `quiet_s` without a change one question at a time probes the next phase up, and `probes` good
    ones in a row bring it back (half open, as a circuit breaker is)."""

    def __init__(
        self,
        settings: Degradation,
        configured: int = TOP,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[Change], object] | None = None,
    ) -> None:
        """`configured`: the highest phase; `on_change`: called at every step, without a lock."""
        self._settings, self._clock, self._on_change = settings, clock, on_change
        self._lock = threading.Lock()
        self._window = Window(settings.window_s)
        self._changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self._configured = self._in_force = configured
        self._why, self._since = "as configured", datetime.now(UTC)
        self._changed_at = self._judged_at = self._quiet_from = clock()
        self._number = 0
        self._is_slowed = False  # a step down for slowness was the last word on speed
        self._good_probes = 0
        self._probe_at: float | None = None

    def configure(self, phase: int) -> None:
        """Begin anew from another configured phase: an operator's choice is in force at once."""
        with self._lock:
            change = None if phase == self._configured else self._move(phase, "configured", "as configured")
            self._configured = phase
            if change:
                self._is_slowed = False
        self._tell(change)

    def begin(self, asker: str | None = None) -> PhaseTurn:
        """Return the phase for a new question; always call `end` with it."""
        with self._lock:
            is_probe = self._may_probe()
            if is_probe:
                self._probe_at = self._clock()
            return PhaseTurn(self._in_force + is_probe, is_probe, self._number, asker)

    def end(self, turn: PhaseTurn, latency_ms: float, is_error: bool = False, is_lost: bool = False) -> None:
        """Count a question: how long its passages took, whether its phase failed, whether all did."""
        with self._lock:
            if turn.number != self._number or turn.phase == OFF:  # of the phase before, or of none
                return
            if turn.is_probe:
                change = self._probed(not is_error and not is_lost and latency_ms <= self._settings.max_p95_ms)
            else:
                self._window.add(Sample(self._clock(), latency_ms, is_error, is_lost, turn.asker))
                change = self._judged()
        self._tell(change)

    def drop(self, turn: PhaseTurn) -> None:
        """Count a question not at all: it ended for reasons of its own."""
        with self._lock:
            if turn.is_probe and turn.number == self._number:
                self._probe_at = None

    @property
    def in_force(self) -> int:
        """The phase in force; `OFF` if none is."""
        with self._lock:
            return self._in_force

    def state(self) -> PhaseState:
        with self._lock:
            figures = self._window.figures(self._clock())
            return PhaseState(
                self._configured, self._in_force, self._why, self._since, figures, tuple(reversed(self._changes))
            )

    def _may_probe(self) -> bool:
        settings, now = self._settings, self._clock()
        if not settings.automatic or self._in_force >= self._configured or now - self._quiet_from < settings.quiet_s:
            return False
        if self._probe_at is not None and now - self._probe_at < _PROBE_LOST_S:
            return False
        return self._breach(self._window.figures(now)) is None  # a phase in trouble does not try a higher one

    def _probed(self, is_good: bool) -> Change | None:
        """Count a probe: enough good ones bring the phase back, a bad one begins another quiet time."""
        self._probe_at = None
        if not is_good:
            self._good_probes, self._quiet_from = 0, self._clock()
            return None
        self._good_probes += 1
        if self._good_probes < self._settings.probes:
            return None
        self._is_slowed = False
        return self._move(self._in_force + 1, "up", f"{self._good_probes} questions in a row were answered well")

    def _judged(self) -> Change | None:
        settings, now = self._settings, self._clock()
        if not settings.automatic or now - self._changed_at < settings.window_s:
            return None
        if len(self._window) < settings.min_questions or now - self._judged_at < settings.window_s / _LOOKS:
            return None
        self._judged_at = now
        found = self._window.figures(now)
        if found.questions < settings.min_questions:
            return None
        breach = self._breach(found)
        if breach is None:
            self._is_slowed = False
            return None
        is_slow = breach == "slow"
        is_left = breach == "lost" or (is_slow and self._is_slowed)
        why = _WHY[breach].format(found) + (", in the phase below, too" if is_slow and self._is_slowed else "")
        self._is_slowed = is_slow
        return self._move(OFF if is_left else self._in_force - 1, "down", why)

    def _breach(self, found: Figures) -> Breach | None:
        """Return the worst fault of a window's figures; None if there are too few. It must affect all callers'
        questions, and still those without the most affected caller: nobody lowers the phase for others."""
        if found.questions < self._settings.min_questions or self._fault(found) is None:
            return None
        others = self._window.figures_of_others(self._settings.max_p95_ms)
        return self._fault(others if others.questions else found)

    def _fault(self, found: Figures) -> Breach | None:
        settings = self._settings
        if found.lost_rate > settings.max_error_rate:
            return "lost"
        if found.error_rate > settings.max_error_rate:
            return "failed"
        return "slow" if found.p95_ms is not None and found.p95_ms > settings.max_p95_ms else None

    def _move(self, phase: int, direction: Direction, why: str) -> Change:
        """Put another phase in force; the earlier one's counts are forgotten."""
        change = Change(datetime.now(UTC), direction, self._in_force, phase, why)
        self._in_force, self._why, self._since = phase, why, change.at
        self._changed_at = self._quiet_from = self._clock()
        self._number += 1
        self._good_probes, self._probe_at = 0, None
        self._window.clear()
        self._changes.append(change)
        return change

    def _tell(self, change: Change | None) -> None:
        if change and self._on_change:
            self._on_change(change)
