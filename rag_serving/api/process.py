"""A process that serves: what it is forked from, how long clients may read, and its end. uvicorn closes the listening
socket and waits for requests. A thread that hangs in a model, a socket or a disk it cannot end, nor can Python: so a
thread of ours, started before it is needed, ends the process from outside."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_IMPORTED = ("rag_serving.api.server", "onnxruntime")
_ENDING = frozenset({signal.SIGTERM, signal.SIGHUP})


def fork_context() -> ForkServerContext:
    """Return the fork server's context, starting the server if needed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_IMPORTED])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def hear_signals() -> None:
    """Unblock the ending signals in a forked process; its parent blocks them. systemd and a closed terminal signal all
    processes. The fork server must outlive the others, because it reports their exits to the first process. It ends
    with the first process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


PART_BYTES = 65_536
"""uvicorn lets an app wait before its next part while more than this is unread, and takes any part at once."""
_TCP, _NODELAY, _USER_TIMEOUT = 6, 1, 18  # IPPROTO_TCP, and options of tcp(7); the last is Linux's


class ReadInTime:
    """ASGI middleware before all others: what an app sends at once is read within `unread_s`, or the request is
    cancelled. A proxy is no substitute: nginx's `send_timeout` begins anew with each byte that its client takes."""

    def __init__(self, app: ASGIApp, unread_s: float) -> None:
        self._app, self._unread_s = app, unread_s
        logging.getLogger("uvicorn.error").addFilter(_is_news)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(None) as unread:

                async def sending(message: Message) -> None:
                    unread.reschedule(now() + self._unread_s)
                    for part in _parts(message):
                        await send(part)
                    unread.reschedule(None)

                await self._app(scope, receive, sending)
        except TimeoutError:
            if not unread.expired():
                raise


def end_unacknowledged(listening: Iterable[Any], unread_s: float) -> None:
    """Let the kernel close connections whose client vanished or stopped reading (RFC 5482), and send bodies at once:
    asyncio sets TCP_NODELAY only on sockets that name their protocol, so a body would wait 40 ms for the
    acknowledgement of its headers. Connections inherit both options from the listening socket."""
    if sys.platform == "linux":
        for each in listening:
            with suppress(OSError):  # not TCP
                each.setsockopt(_TCP, _NODELAY, 1)
                each.setsockopt(_TCP, _USER_TIMEOUT, int(unread_s * 1000))


def _parts(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if len(body) <= PART_BYTES:
        yield message
        return
    for start in range(0, len(body), PART_BYTES):
        end = start + PART_BYTES
        yield {**message, "body": body[start:end], "more_body": end < len(body) or message.get("more_body", False)}


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether uvicorn says more than that an answer was not sent whole: strangers could fill the log."""
    return record.msg != "ASGI callable returned without completing response."


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
        self.is_draining = False  # it received a signal to end
        self.is_leaving = False  # it is about to end but still accepts requests
        self._begin: Callable[[], object] = lambda: None

    def watch_signals(self) -> None:
        """Handle the signals that end this process, beside earlier handlers. Only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        threading.Thread(target=self._watch, name="drain", daemon=True).start()
        for number in _SIGNALS:
            signal.signal(number, self._handler(signal.getsignal(number)))

    def closed(self) -> None:
        """Mark everything as closed: running work is not waited for."""
        self._news.put(_CLOSED)

    def _handler(self, before: Any) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            first, self.is_draining = not self.is_draining, True
            if first and callable(before):
                self.is_leaving = number == signal.SIGTERM and self._leave_s > 0 and self._leaves()
                self._begin = partial(before, number, frame)
            self._news.put(number)
            if first and not self.is_leaving:
                self._begin()

        return handle

    def _watch(self) -> None:
        number = self._news.get()
        if number == _CLOSED:
            return
        if self.is_leaving:
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
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with suppress(Empty):
                if (number := self._news.get(timeout=left)) in awaited:
                    return number
        return None
