"""Tesseract, one process a picture, within limits on time, memory and what it writes.

Smith, "An Overview of the Tesseract OCR Engine", ICDAR 2007; `man tesseract` for options and the table's columns.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import IO, NamedTuple

from citelock_formats.ocr.child import PagePicture, RecognizedPage, RecognizedWord
from rag_serving.config.sections import Ocr

NOT_LANGUAGES = frozenset({"osd", "equ", "snum"})
"""Trained data that reads no language."""
MEMORY_MB = 1500
"""Address space of one process; a page of 300 dpi takes a fifth of it."""
_MEGABYTE = 1024**2
_MOST_OUTPUT = 32 * _MEGABYTE
_QUERY_S = 10.0  # for its version and languages
_WORD_LEVEL = "5"
_COLUMNS = 12
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "TESSDATA_PREFIX", "SYSTEMROOT")
_VERSION = re.compile(r"tesseract v?(\S{1,40})")
_TURN = re.compile(r"Rotate: (\d{1,3})")
_TURN_CONFIDENCE = re.compile(r"Orientation confidence: (\d{1,6}(?:\.\d{1,6})?)")
_SCRIPT = re.compile(r"Script: (\w{1,40})")
_CERTAIN = 1.5  # confidence of an orientation; tesseract's own least is 7 for scripts, and none for turns


class EngineError(Exception):
    """A picture could not be recognized; the message is one line and says why."""


class Orientation(NamedTuple):
    """Degrees by which a picture is to be turned clockwise, and the script of its letters ('': unknown)."""

    turn: int
    script: str


class Tesseract:
    """The engine that the settings name. Threads may use it at once; `close` ends what still runs."""

    def __init__(self, settings: Ocr) -> None:
        self._command = settings.command
        self._timeout_s = settings.timeout_s
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @cached_property
    def version(self) -> str | None:
        """The version of the program; None if it is not installed, or does not say."""
        try:
            output = self._run(["--version"], b"", _QUERY_S)
        except EngineError:
            return None
        found = _VERSION.search(output)
        return found[1] if found else None

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages whose trained data is installed, by tesseract's codes."""
        try:
            _, *names = self._run(["--list-langs"], b"", _QUERY_S).split("\n")
        except (EngineError, ValueError):
            return ()
        return tuple(sorted({name.strip() for name in names} - NOT_LANGUAGES - {""}))

    def words(self, picture: PagePicture, languages: Sequence[str]) -> RecognizedPage:
        """Return the words of a picture. Raises EngineError."""
        options = ["-l", "+".join(languages), "--psm", "3", "-c", "tessedit_create_tsv=1"]
        table = self._read(picture, options)
        return RecognizedPage(picture.width, picture.height, 0, tuple(words_of_table(table, picture)))

    def orientation(self, picture: PagePicture) -> Orientation:
        """Return how a picture lies, (0, '') if that is unknown."""
        try:
            output = self._read(picture, ["-l", "osd", "--psm", "0"])
        except EngineError:  # too few letters, or its data is not installed
            return Orientation(0, "")
        turn, sure, script = _TURN.search(output), _TURN_CONFIDENCE.search(output), _SCRIPT.search(output)
        is_sure = sure is not None and float(sure[1]) >= _CERTAIN
        return Orientation(int(turn[1]) % 360 if turn and is_sure else 0, script[1] if script else "")

    def close(self) -> None:
        """End running programs; nothing is started any more."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                _kill(process)

    def _read(self, picture: PagePicture, options: Sequence[str]) -> str:
        head = b"P5 %d %d 255\n" % (picture.width, picture.height)
        arguments = ["stdin", "stdout", "--dpi", str(round(picture.dpi)), *options]
        return self._run(arguments, head + picture.pixels, self._timeout_s)

    def _run(self, arguments: Sequence[str], given: bytes, seconds: float) -> str:
        """Return the program's output. Pipes would need threads: it reads and writes files without names. Raises
        EngineError: it is not installed, failed, or took too much."""
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target, tempfile.TemporaryFile() as said:
            source.write(given)
            source.seek(0)
            process = self._started(arguments, source, target, said)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise EngineError(f"OCR of it exceeds {seconds:g} s (documents.ocr.timeout_s)") from None
            finally:
                self._ended(process)
            if status:
                raise EngineError(f"OCR of it failed: {_reason(status, said)}")
            target.seek(0)
            return target.read(_MOST_OUTPUT).decode("utf-8", "replace")

    def _started(
        self, arguments: Sequence[str], source: IO[bytes], target: IO[bytes], said: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        command = shutil.which(self._command)
        if command is None:
            raise EngineError(f"{self._command} is not installed")
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        with self._lock:
            if self._is_closed:
                raise EngineError("OCR was ended")
            try:
                process = subprocess.Popen(
                    [*_bounded(self._timeout_s), command, *arguments],
                    stdin=source,
                    stdout=target,
                    stderr=said,
                    env={**kept, "OMP_THREAD_LIMIT": "1", "LC_ALL": "C"},
                    start_new_session=True,
                )
            except OSError as error:
                raise EngineError(f"{self._command} cannot be run: {error.strerror}") from None
            self._running.add(process)
        return process

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.discard(process)
            _kill(process)
        process.wait()


def words_of_table(table: str, picture: PagePicture) -> list[RecognizedWord]:
    """Return the words of tesseract's table (TSV), numbered by line; those without any confidence are left out."""
    words: list[RecognizedWord] = []
    lines: dict[tuple[str, ...], int] = {}
    for row in table.split("\n"):
        cells = row.rstrip("\r").split("\t", _COLUMNS - 1)
        if len(cells) < _COLUMNS or cells[0] != _WORD_LEVEL or not cells[-1].strip():
            continue
        try:
            left, top, width, height = map(int, cells[6:10])
            confidence = round(float(cells[10]))
        except (ValueError, OverflowError):
            continue
        x0, y0 = max(left, 0), max(top, 0)
        x1, y1 = min(left + width, picture.width), min(top + height, picture.height)
        if confidence > 0 and x0 < x1 and y0 < y1:
            line = lines.setdefault(tuple(cells[1:5]), len(lines))
            words.append(RecognizedWord(" ".join(cells[-1].split()), x0, y0, x1, y1, min(confidence, 100), line))
    return words


def _bounded(seconds: float) -> list[str]:
    """Return the beginning of a command that ends with this process, however that ends, and within limits on time,
    memory and output: programs of util-linux, which Linux has; nothing elsewhere."""
    setpriv, prlimit = shutil.which("setpriv"), shutil.which("prlimit")
    limits = [f"--as={MEMORY_MB * _MEGABYTE}", f"--cpu={math.ceil(seconds)}", f"--fsize={_MOST_OUTPUT}", "--core=0"]
    return [
        *([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else ()),
        *([prlimit, *limits, "--"] if prlimit else ()),
    ]


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _reason(status: int, said: IO[bytes]) -> str:
    if status < 0:
        names = {one.value: one.name for one in signal.Signals}
        return f"ended by {names.get(-status, -status)}"
    said.seek(0)
    lines = said.read(4096).decode("utf-8", "replace").split("\n")
    output = " ".join(next((line for line in reversed(lines) if line.strip()), "").split())
    return output[:200] if output.isprintable() and output else f"exit status {status}"
