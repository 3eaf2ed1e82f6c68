"""The limits of a process that reads documents, kept by the operating system: not even C code can go on beyond them.

Belongs here: what is set, and what it looks like from outside when a limit ends the process.
Does not belong here: starting the process (`child`), limits of text
(`rag_assets.steps.formats.budget`).
"""

from __future__ import annotations

import math
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CLOCK = 3
"""So many seconds on the clock for each of processor time: other processes want the processor, too."""

_MEGABYTE = 1024**2
_OPEN_FILES = 64


class Limits(NamedTuple):
    """Limits on the resources of one document."""

    seconds: int = 30
    memory_mb: int = 512
    answer_bytes: int = 256 * _MEGABYTE

    @property
    def clock_seconds(self) -> int:
        """Return the wall-clock limit in seconds."""
        return self.seconds * CLOCK

    def too_slow(self) -> str:
        """Return the reason of a document that takes too long."""
        return f"it exceeds {self.seconds:,} s of parsing (documents.max_seconds)"

    def too_large(self) -> str:
        """Return the reason of a document that takes too much memory."""
        return f"it exceeds {self.memory_mb:,} MB of memory while it is parsed (documents.max_memory_mb)"


def limit_process() -> None:
    """Set the limits of the process: no core file, no file written, few files open."""
    with suppress(ImportError):
        import resource

        for kind, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_NOFILE, _OPEN_FILES),
        ):
            resource.setrlimit(kind, (most, most))


def limit_document(limits: Limits) -> None:
    """Set the limits of the next document: time, and memory beyond what the process has already."""
    if hasattr(signal, "alarm"):
        signal.alarm(limits.clock_seconds)
    with suppress(ImportError):
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        _soft(resource.RLIMIT_CPU, math.ceil(used) + limits.seconds)
        _soft(resource.RLIMIT_AS, address_space() + limits.memory_mb * _MEGABYTE if address_space() else -1)


def end_of_document() -> None:
    """Take back the limits of a document: its answer is written without them."""
    if hasattr(signal, "alarm"):
        signal.alarm(0)
    with suppress(ImportError):
        import resource

        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS):
            _soft(kind, resource.RLIM_INFINITY)


def address_space() -> int:
    """Return the bytes of address space of this process, 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def death(status: int, limits: Limits) -> str:
    """Return in one line why a process ended before it answered; `status` as `Popen.returncode` gives it."""
    names = {one.value: one.name for one in signal.Signals}
    name = names.get(-status, f"signal {-status}")
    if name in ("SIGXCPU", "SIGALRM"):
        return limits.too_slow()
    if status > 0:
        return f"its parser failed (exit status {status})"
    return f"its parser ended ({name}): the file is broken, or {limits.too_large()}"  # what C code does without memory


def _soft(kind: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY and (most == resource.RLIM_INFINITY or most > hard):
        most = hard
    resource.setrlimit(kind, (most, hard))
