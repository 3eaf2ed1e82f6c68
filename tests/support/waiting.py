"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds; fail when it does not for this long, which a loaded machine may need."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"did not hold within {seconds:g} seconds"
        time.sleep(0.005)
