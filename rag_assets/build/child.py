"""`citelock build` in a process of its own, whose lines are heard as they come.

Belongs here: starting, hearing and interrupting it. Does not belong here: the build (`build.command`), who asked for it
(`build.mcp_tools`).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rag_serving.deadline import Deadline

_COMMAND = (sys.executable, "-c", "from rag_serving.cli.main import main; main()", "build")
_MOST_LINES, _MOST_CHARS = 50, 300
_KILLED_AFTER_S = 20.0


@dataclass(frozen=True)
class BuildResult:
    """Tell how a build ended: its exit code, whether it was interrupted, and the last lines that it wrote."""

    code: int
    interrupted: bool
    lines: tuple[str, ...]


def run_build(
    config: Path | None, arguments: Sequence[str], deadline: Deadline, listen: Callable[[str], object]
) -> BuildResult:
    """Build until it ends, or interrupt it at the deadline: what was finished is kept.

    `listen` hears each line of progress.
    """
    command = [*_COMMAND, *(["--config", str(config)] if config else []), *arguments]
    lines: deque[str] = deque(maxlen=_MOST_LINES)
    with tempfile.TemporaryFile("w+") as summary:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=summary, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as child:
            interruption = _Interruption(child)
            timer = threading.Timer(deadline.left, interruption)
            timer.daemon = True
            timer.start()
            deadline.on_cancel(interruption)
            for line in child.stderr or ():
                lines.append(line.strip()[:_MOST_CHARS])
                listen(lines[-1])
        timer.cancel()
        summary.seek(0)
        told = [line.strip()[:_MOST_CHARS] for line in summary.read(100_000).splitlines()[:_MOST_LINES]]
    return BuildResult(child.returncode, interruption.was_called, (*lines, *told))


class _Interruption:
    """Interrupts a process, and kills it where it does not end by that. May be called more than once."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.was_called = False

    def __call__(self) -> None:
        if self.was_called or self._child.poll() is not None:
            return
        self.was_called = True
        with suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGINT)
        killer = threading.Timer(_KILLED_AFTER_S, self._child.kill)
        killer.daemon = True
        killer.start()
