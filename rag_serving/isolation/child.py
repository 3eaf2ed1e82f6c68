"""A process that reads documents, reused for many of them and replaced after a crash.

Belongs here: starting it, requests to it, ending it in any state. Does not belong here: its work
(`rag_assets.parsing.worker`, `rag_serving.rendering.worker`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from rag_serving.isolation.frames import REPORT, Frame, WireError, read_frame, write_frame
from rag_serving.isolation.limits import Limits, death

Progress = Callable[[int, int], None]
"""Called with (done, in all)."""

_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL", "TZ")  # no secrets
_GRACE_S = 10.0  # for the start; the process ends itself at its limits, and this ends one that does not


class ParseError(Exception):
    """A document took too much, or broke its parser; the message is one line and says why."""


class Child:
    """One process at a time, started by the first request. Threads take turns."""

    def __init__(self, limits: Limits, command: Sequence[str]) -> None:
        """`command`: a program that answers frames on its standard output; see `module_command`."""
        self._limits = limits
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._ending: Callable[[], object] = lambda: None

    def ask(self, request: Frame, progress: Progress | None = None) -> Frame:
        """Return the answer; `progress` receives the child's reports.

        Raises:
            ParseError: the child failed, with its reason; the next request starts a new process.
        """
        with self._turn:
            process = self._process = self._process or self._started()
            try:
                answer = self._exchanged(process, request, progress)
            except BaseException:
                self.close()
                raise
            if answer.facts.get("last"):
                self.close()
            return answer

    def close(self) -> None:
        """End the process and its children."""
        self._process = None
        self._ending()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _exchanged(self, process: subprocess.Popen[bytes], request: Frame, progress: Progress | None) -> Frame:
        is_late = threading.Event()
        timer = threading.Timer(self._limits.clock_seconds + _GRACE_S, _kill, (process, is_late))
        timer.daemon = True
        timer.start()
        try:
            with suppress(OSError):
                write_frame(process.stdin, request)  # type: ignore[arg-type]
            answer = self._read(process)
            while answer is not None and REPORT in answer.facts:
                _tell(answer.facts[REPORT], progress)
                answer = self._read(process)
        except WireError as error:
            raise ParseError(self._end_of(process, is_late) or f"its parser failed: {error}") from None
        finally:
            timer.cancel()
        if answer is None:
            raise ParseError(self._end_of(process, is_late) or "its parser ended without an answer")
        return answer

    def _read(self, process: subprocess.Popen[bytes]) -> Frame | None:
        return read_frame(process.stdout, self._limits.answer_bytes)  # type: ignore[arg-type]

    def _end_of(self, process: subprocess.Popen[bytes], is_late: threading.Event) -> str | None:
        """Return why the process is no more; None if it still runs, or ended well."""
        if is_late.is_set():
            return self._limits.too_slow()
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=0.5)
            return death(status, self._limits) if status else None
        return None

    def _started(self) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
            start_new_session=True,  # Ctrl-C is ours to handle, and whatever it starts ends with it
        )
        self._ending = weakref.finalize(self, _end, process)  # also where nobody closes this
        return process


def module_command(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of this installation."""
    return sys.executable, "-m", module


def _tell(report: object, progress: Progress | None) -> None:
    match report:
        case [int(done), int(total)]:
            if progress is not None:
                progress(done, total)
        case _:
            raise WireError("it wrote something else than an answer")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and let go of its pipes."""
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            stream.close()  # type: ignore[union-attr]


def _kill(process: subprocess.Popen[bytes], is_late: threading.Event | None = None) -> None:
    """Kill the process and its group; the event marks a timeout."""
    if is_late is not None:
        is_late.set()
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
