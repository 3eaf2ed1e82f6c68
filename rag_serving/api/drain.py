"""The end of a process that serves: what is under way may finish, for so long, and nothing that hangs keeps it alive.

Belongs here: the order and the bounds of ending. Does not belong here: what each part does to end (`turns`,
`service`), several processes (`server`).

uvicorn closes the listening socket and waits for requests. A thread that hangs in a model, a socket or a disk it cannot
end, nor can Python: so a thread of ours, started before it is needed, ends the process from outside.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

UNWIND_S = 1
"""Seconds that requests have to end in after the server's end was announced."""
END_S = 8.0
"""Seconds, after those that requests may take, within which the process ends: telemetry may take 5 of them."""
CLOSED_S = 1.0
"""Seconds that Python may take to end once everything is closed."""
FLUSH_S = 2.0
"""Seconds before the end at which telemetry is written that nobody wrote."""

_log = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLOSED = 0


class Drain:
    """Ends this process, within `drain_s` and END_S, once a signal said so; after SIGTERM it goes on for `leave_s`
    before that, where `leaves` says that the server ends, and not this process of it alone."""

    def __init__(
        self,
        drain_s: float,
        end_requests: Callable[[], object],
        flush: Callable[[float], object],
        leave_s: float = 0.0,
        leaves: Callable[[], bool] = lambda: True,
    ) -> None:
        """`end_requests`: ends running requests; `flush`: writes telemetry within so many seconds."""
        self._drain_s, self._end_requests, self._flush = drain_s, end_requests, flush
        self._leave_s, self._leaves = leave_s, leaves
        self._news = SimpleQueue[int]()  # of signal handlers: its `put` may interrupt itself
        self._was_signalled = self._is_leaving = False
        self._begin: Callable[[], object] = lambda: None

    def watch_signals(self) -> None:
        """Handle the signals that end this process, beside earlier handlers. Only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        threading.Thread(target=self._watch, name="drain", daemon=True).start()
        for number in _SIGNALS:
            signal.signal(number, self._handler(signal.getsignal(number)))

    @property
    def is_draining(self) -> bool:
        """Whether the process received a signal to end."""
        return self._was_signalled

    @property
    def is_leaving(self) -> bool:
        """Whether the server is about to end but still accepts requests."""
        return self._is_leaving

    def closed(self) -> None:
        """Mark everything as closed: running work is not waited for."""
        self._news.put(_CLOSED)

    def _handler(self, before: Any) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            first, self._was_signalled = not self._was_signalled, True
            if first and callable(before):
                self._is_leaving = number == signal.SIGTERM and self._leave_s > 0 and self._leaves()
                self._begin = partial(before, number, frame)
            self._news.put(number)
            if first and not self._is_leaving:
                self._begin()

        return handle

    def _watch(self) -> None:
        number = self._news.get()
        if number == _CLOSED:
            return
        if self._is_leaving:
            self._wait(self._leave_s, _CLOSED, *_SIGNALS)
            self._begin()
        if self._wait(self._drain_s, _CLOSED, signal.SIGINT) != _CLOSED:
            self._end_requests()
            if self._wait(END_S - FLUSH_S, _CLOSED) != _CLOSED:
                _log.error("something hangs; the process ends without waiting for it")
                self._flush(FLUSH_S)
                os._exit(128 + number)
        time.sleep(CLOSED_S)
        os._exit(128 + number)

    def _wait(self, seconds: float, *awaited: int) -> int | None:
        """Wait for one of these numbers. Return it, or None after so many seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with suppress(Empty):
                if (number := self._news.get(timeout=left)) in awaited:
                    return number
        return None
