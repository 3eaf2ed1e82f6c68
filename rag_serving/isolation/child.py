"""A process that reads documents, reused for many of them and replaced after a crash: messages, limits, its life. The
operating system keeps the limits: not even C code can go on beyond them."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

_HEAD = struct.Struct("!4sII")
_MAGIC = b"CLP1"
REPORT = "report"
"""The key of a frame that comes before an answer and says how far it is: [done, in all]."""


class Frame(NamedTuple):
    """A small JSON object, and bytes that it is about."""

    facts: dict[str, Any]
    content: bytes = b""


class WireError(Exception):
    """The bytes read are no frame, or more than allowed."""


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame and flush. Raises OSError if nobody reads it."""
    facts = json.dumps(frame.facts).encode()
    stream.write(_HEAD.pack(_MAGIC, len(facts), len(frame.content)))
    stream.write(facts)
    stream.write(frame.content)
    stream.flush()


def read_frame(stream: IO[bytes], most: int) -> Frame | None:
    """Return the next frame, None at the end of the stream. Raises WireError: it is broken, or over `most` bytes."""
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise WireError("it wrote something else than an answer")
    _, facts_size, content_size = _HEAD.unpack(head)
    if facts_size + content_size > most:
        raise WireError(f"its answer has more than {most:,} bytes")
    facts, content = stream.read(facts_size), stream.read(content_size)
    if len(facts) + len(content) < facts_size + content_size:
        raise WireError("its answer is cut")
    try:
        read = json.loads(facts)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise WireError("it wrote something else than an answer")
    return Frame(read, content)


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
        self._limits, self._command = limits, command
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._ending: Callable[[], object] = lambda: None

    def ask(self, request: Frame, progress: Progress | None = None) -> Frame:
        """Return the answer; `progress` receives the child's reports. Raises ParseError: the child failed, with its
        reason; the next request starts a new process."""
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
