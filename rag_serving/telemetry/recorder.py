"""Rows on their way to the database, behind a queue that never makes a question wait. A full queue drops the new row
and counts it. While the database is away rows wait in the queue; those that came before it went are written when it is
back. A row that the database refuses is dropped and counted alone. How many were dropped is written down as soon as the
database takes rows."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from rag_serving.escaping.redaction import RedactedError

Item = TypeVar("Item")


class WritingThread(Generic[Item]):
    """The common part of `recorder` and the audit log. All fields are changed under `_news`."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._name = name
        self._items: deque[Item] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._deadline: float | None = None  # of the last writing, once closed
        self._writing = 0  # items that are being written

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all submitted rows are written or lost; return whether that happened in time."""
        with self._news:
            return self._news.wait_for(lambda: not self._items and not self._writing, max(0.0, timeout_s))

    def close(self, timeout_s: float = 5.0) -> None:
        """Write queued items, for `timeout_s` at most; the rest is lost, and counted."""
        with self._news:
            self._deadline = time.monotonic() + timeout_s
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s + 1)
        self._close_writer()

    def _take_in(self, item: Item, capacity: int) -> bool:
        if self._deadline is not None or len(self._items) >= capacity:
            return False
        self._items.append(item)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._news.notify()
        return True

    def _run(self) -> None:
        """Write items until it is closed and none is left, in the thread."""
        raise NotImplementedError

    def _close_writer(self) -> None:
        """Release the resources of writing, after the thread has ended."""
        raise NotImplementedError


CAPACITY = 20_000
BATCH = 500
_GATHER_S = 0.2  # a batch waits this long for company
_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0

_log = logging.getLogger(__name__)

TableName = Literal["questions", "feedback", "losses"]
Row = tuple[TableName, Mapping[str, Any]]


class TelemetryError(RedactedError):
    """The telemetry database cannot be used; the message says how to mend it."""


class Writer(Protocol):
    """A writer of rows into a database."""

    def write(self, batch: Sequence[Row]) -> int:
        """Write the rows, once each; how many the database took. Raises TelemetryError: the database is away; the same
        rows may be given again."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Counts:
    """Rows so far."""

    recorded: int
    dropped: int
    waiting: int


class Recorder(WritingThread[Row]):
    """Writes rows from one thread. `record` never blocks and never raises."""

    def __init__(
        self, open_writer: Callable[[], Writer], capacity: int = CAPACITY, loss_of: Callable[[int], Row] | None = None
    ) -> None:
        """`open_writer` is called with the first row, in the writing thread; it may raise TelemetryError. `loss_of`
        makes the row that says how many rows were dropped; without it that is only counted."""
        super().__init__("telemetry")
        self._open, self._capacity, self._loss_of = open_writer, capacity, loss_of
        self._writer: Writer | None = None
        self._recorded = self._dropped = self._losses_written = 0

    def record(self, table: TableName, row: Mapping[str, Any]) -> None:
        """Hand over a row; it is written soon, or dropped and counted."""
        with self._news:
            self._dropped += not self._take_in((table, row), self._capacity)

    def counts(self) -> Counts:
        with self._news:
            return Counts(self._recorded, self._dropped, len(self._items) + self._writing)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _run(self) -> None:
        while batch := self._next():
            self._written(batch)
            with self._news:
                self._writing = 0
                self._news.notify_all()

    def _next(self) -> list[Row]:
        with self._news:
            self._news.wait_for(lambda: self._items or self._deadline is not None)
            if self._deadline is None and len(self._items) < BATCH:
                self._news.wait_for(lambda: len(self._items) >= BATCH or self._deadline is not None, _GATHER_S)
            batch = [self._items.popleft() for _ in range(min(BATCH, len(self._items)))]
            self._writing = len(batch)
            return batch

    def _written(self, batch: Sequence[Row]) -> None:
        """Write a batch however long the database is away; after the deadline it is dropped."""
        wait_s = _WAIT_S
        while True:
            try:
                self._writer = self._writer or self._open()
                recorded = self._writer.write(batch)
                self._write_losses(self._writer, len(batch) - recorded)
                break
            except TelemetryError as error:
                _log.warning("telemetry waits: %s", error)
            except Exception as error:  # of a driver: these rows are lost, the next ones are tried
                _log.warning("telemetry lost %d rows: %s: %s", len(batch), type(error).__name__, error)
                recorded = 0
                break
            if self._is_over(wait_s):
                recorded = 0
                break
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        with self._news:
            self._recorded += recorded
            self._dropped += len(batch) - recorded

    def _write_losses(self, writer: Writer, refused: int) -> None:
        """Write down how many rows were dropped since this was last done, `refused` ones just now."""
        with self._news:
            dropped = self._dropped + refused
        if self._loss_of is not None and dropped > self._losses_written:
            writer.write([self._loss_of(dropped - self._losses_written)])
            self._losses_written = dropped

    def _is_over(self, wait_s: float) -> bool:
        """Wait before another try; whether there is no time left for one."""
        with self._news:
            if self._deadline is None:
                self._news.wait_for(lambda: self._deadline is not None, wait_s)
                return False
            left = self._deadline - time.monotonic()
        time.sleep(max(0.0, min(wait_s, left)))
        return left <= 0
