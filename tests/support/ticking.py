"""A clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
