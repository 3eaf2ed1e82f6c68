"""One line of `citelock doctor`.

Belongs here: its shape. Does not belong here: the checks (`doctor`, and entry points `citelock.checks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rag_serving.escaping.redaction import redacted

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """A check and its result; `mend` is the remedy of a problem."""

    name: str
    state: State
    detail: str
    mend: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", redacted(self.detail))
        object.__setattr__(self, "mend", redacted(self.mend))


def age(seconds: float) -> str:
    """Return a time span in its largest unit: `3 hours`."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"
