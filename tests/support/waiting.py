"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds; fail when it does not for this long, which a loaded machine may need."""
    until, pause = time.monotonic() + seconds, 0.005
    while not holds():
        assert time.monotonic() < until, f"did not hold within {seconds:g} seconds"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)  # asking takes time from whoever is waited for


def status_of(url: str) -> int | None:
    """Return the status of a GET over a connection of its own; nothing where nobody answers."""
    try:
        return httpx.get(url, timeout=20, verify=False).status_code  # certificates take 20 ms to read
    except httpx.TransportError:
        return None


def processes_with(variable: str) -> set[int]:
    """Return the live processes whose environment has this line, whoever started them."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found
