"""How many cores this process may use.

Belongs here: the number. Does not belong here: what is made of it (`turns`, `models.local`).
"""

from __future__ import annotations

import os


def cores() -> int:
    """Cores this process may use, at least 1: where the system tells, those it is bound to."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
