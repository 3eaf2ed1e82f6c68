"""Memory that C libraries allocate, zeroed while files are made of it.

Belongs here: the switch of glibc. Does not belong here: what is written meanwhile (`shard_writer`).

hnswlib writes the whole room of a graph, also what no vector fills, and never clears it: the file would hold whatever
this process had in its memory before, credentials among it, and the same vectors would give another file each time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_M_PERTURB = -6  # malloc.h of glibc, see mallopt(3): memory is filled with the complement of the value's lowest byte
_ZEROS = 0xFF

_lock = Lock()
_inside = 0


@contextmanager
def zeroed_allocations() -> Iterator[None]:
    """Have every allocation of the process zeroed, from any thread, until the last such block ends.

    Without glibc nothing is changed.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _set(_ZEROS)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _set(_usual())


def _usual() -> int:
    value = os.environ.get("MALLOC_PERTURB_", "0")
    return int(value) & 0xFF if value.isascii() and value.isdecimal() else 0


def _set(value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, value)
