"""How the cost of a call grows with its input, measured in processor time so that a busy machine changes nothing.

A call of quadratic cost takes four times as long for twice the input; this looks at eight times the input, where linear
cost is told from quadratic by a factor of eight, and only where the larger call takes long enough to be measured.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from time import thread_time
from types import FrameType
from typing import Any

SMALL, FACTOR = 1_000, 8
_STEEPEST = 3.0  # the cost of a character in the large input against that in the small one; quadratic: 8
_STEEPER = 1.4  # the same of twice the input, so that a short cut for short texts is no growth; quadratic: 2
_TRIES = 4
_LONGEST = 1.0  # seconds of processor time for a single call, which no linear one comes near


class TooSlowError(Exception):
    """A call was stopped."""


def seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of a call, which is interrupted where it would never end.

    Garbage is not collected meanwhile: an interruption that comes in a finalizer would be ignored.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST)
    started = thread_time()
    try:
        call()
    except TooSlowError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.enable()
    return thread_time() - started


def steepness(
    call: Callable[[str], Any], make: Callable[[int], str], small: int = SMALL, cheap: float = 1e-6
) -> float | None:
    """Return how much more a character costs in a long input than in a short one; None where there is nothing to see.

    `cheap` is the time for a character below which growth is not looked at: a quadratic call would be far above it.
    """
    large = small * FACTOR
    short, long = make(small), make(large)
    best = seconds(lambda: call(long))
    if best < cheap * large:
        return None
    slow = seconds(lambda: call(short))
    if slow == float("inf"):
        return slow
    growth = best / (slow * FACTOR)
    for _ in range(_TRIES):
        if growth < _STEEPEST:
            return None
        slow = min(slow, seconds(lambda: call(short)))
        best = min(best, seconds(lambda: call(long)))
        growth = best / (slow * FACTOR)
    half = min(seconds(lambda: call(make(large // 2))) for _ in range(_TRIES))
    goes_on = best == float("inf") or best >= 2 * half * _STEEPER
    return growth if goes_on else None
