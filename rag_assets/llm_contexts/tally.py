"""How far the writing of contexts is, and what it has taken.

Belongs here: counts, rate, remaining time, cost. Does not belong here: who is told.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from rag_assets.state.throughput import Throughput, duration


@dataclass
class Usage:
    """Counts of one run; `total` are the passages that have to be asked about."""

    total: int
    done: int = 0
    failed: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: float = 0.0  # in the currency of the price table; nothing for a model without a price
    written_by: Counter[str] = field(default_factory=Counter)  # contexts by model
    started: float = field(default_factory=time.monotonic)
    _throughput: Throughput = field(default_factory=Throughput, repr=False)

    @property
    def handled(self) -> int:
        return self.done + self.failed

    @property
    def seconds(self) -> float:
        """How long it has taken, never zero."""
        return max(time.monotonic() - self.started, 1e-9)

    @property
    def rate(self) -> float:
        """Passages a second."""
        return self.handled / self.seconds

    def count(self, done: int = 0, failed: int = 0) -> None:
        """Take in passages that were written about, and passages that were not."""
        self.done += done
        self.failed += failed
        self._throughput.report(self.handled, self.total)

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take at the pace of late, None before enough is known."""
        now = self._throughput.estimate
        return now.seconds_left if now else None

    def line(self) -> str:
        """Return all of it on one line of a log."""
        left = f", {duration(self.left_s)} left" if self.left_s is not None and self.handled < self.total else ""
        cached = f" ({self.tokens_cached:,} from the prompt cache)" if self.tokens_cached else ""
        return (
            f"contexts {self.handled}/{self.total}, {self.failed} failed, {self.rate:.1f}/s{left}; "
            f"{self.tokens_in:,} tokens in{cached}, {self.tokens_out:,} out, cost {self.cost:.4f}"
        )

    def facts(self) -> dict[str, int | float | dict[str, int]]:
        """Return the same for a machine."""
        return {
            "contexts_wanted": self.total,
            "contexts_generated": self.done,
            "contexts_failed": self.failed,
            "retries": self.retries,
            "rate_per_second": round(self.rate, 2),
            "seconds_left": round(self.left_s or 0.0, 1),
            "tokens_in": self.tokens_in,
            "tokens_cached": self.tokens_cached,
            "tokens_out": self.tokens_out,
            "cost": round(self.cost, 6),
            "written_by": dict(self.written_by),
        }
