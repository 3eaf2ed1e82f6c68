"""The processes of a server, as reported by Linux."""

from __future__ import annotations

from pathlib import Path


def children_of(process: int) -> list[int]:
    """Return the numbers of the processes that a process started; none if it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def answering(server: int) -> list[int]:
    """Return the numbers of the processes that answer, of a server of several: they are forked from one of its own."""
    return [process for template in templates_of(server) for process in children_of(template)]


def templates_of(server: int) -> list[int]:
    """Return the number of the process that those which answer are forked from, if there is one."""
    return [child for child in children_of(server) if b"forkserver" in _command(child)]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
