"""Marks of the processes that run jobs, so that a run whose process was killed is not waited for.

Belongs here: what names a process on its machine, and whether it is still there. Does not belong here: runs (`runs`).
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

TAG = "citelock/process"
"""Of a run: the mark of the process that runs it."""


def own_mark() -> str:
    """Return the mark of this process: machine, number, and when it was started, as numbers are given again."""
    return f"{platform.node()}:{os.getpid()}:{_started(os.getpid())}"


def has_ended(mark: str) -> bool:
    """Return whether the process of a mark was on this machine and is there no more."""
    host, number, started = mark.rsplit(":", 2) if mark.count(":") >= 2 else ("", "", "")
    if host != platform.node() or not (number.isascii() and number.isdecimal()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it is another account's
    return _started(int(number)) != started


def _started(number: int) -> str:
    """Return when a process was started, in clock ticks since the machine was; empty where the system does not tell.

    Field 22 of /proc/PID/stat, of which the second, a name in parentheses, may have spaces: proc(5).
    """
    with suppress(OSError, IndexError):
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    return ""
