"""Items on their way to one thread that writes them, which begins with the first.

Belongs here: the queue of bounded length, the thread, waiting for it to be done, its end. Does not belong here: what is
written, and what becomes of items whose writing fails (`recorder`, `citelock_governance.audit.log`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class WritingThread(Generic[Item]):
    """What `recorder` and the audit log have in common. All fields are changed while `_news` is held."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._name = name
        self._items: deque[Item] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._deadline: float | None = None  # of the last writing, once closed
        self._writing = 0  # items that are being written

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is written or lost; return whether that came to be."""
        with self._news:
            return self._news.wait_for(lambda: not self._items and not self._writing, max(0.0, timeout_s))

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, for `timeout_s` at most; what is left then is lost, and counted."""
        with self._news:
            self._deadline = time.monotonic() + timeout_s
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s + 1)
        self._close_writer()

    def _take_in(self, item: Item, capacity: int) -> bool:
        """Queue an item, with `_news` held; return False where it is closed or full."""
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
        """Let go of what items are written by, after the thread has ended."""
        raise NotImplementedError
