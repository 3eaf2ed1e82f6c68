"""A connection of the HTTP API: how long its headers may take, how many there may be, who makes room for a new one.

Belongs here: what uvicorn leaves open. Does not belong here: bodies (`wire`), who asks (`admission`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from functools import cache
from typing import ClassVar
from weakref import WeakSet

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

HEADERS_S = 10.0
"""Seconds in which the headers of a request must come, from the connection's or their own first byte."""
UNREAD = "unread_s"
"""The key, in what the app's lifespan gives, of the seconds that a client may leave unread what it is sent."""
UNREAD_S = 30.0
"""The same where the app does not say."""
ENDING_S = 5.0
"""Seconds that the rest of a body may take to come once the server ends."""
MAX_PIPELINED = 16
"""Requests that a client may send before it has the answer to the first one."""
MAX_HEADER_BYTES = 262_144
"""Bytes without a request after which a connection is closed; asyncio reads as many at once, body included."""
MAX_CONNECTIONS = 1000
"""Of a process. Beyond, the one that has been idle for longest makes room; if all are busy, the new one does."""


_TCP, _USER_TIMEOUT = 6, 18  # IPPROTO_TCP, and TCP_USER_TIMEOUT of Linux (tcp(7))


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with deadlines for headers and for reading, and a bounded number of connections.

    What a client sends wrongly is answered with 400 and not logged: a line each would fill the log.
    """

    _swept: ClassVar[WeakSet[ServerState]] = WeakSet()

    _unasked_bytes = 0
    _idle_since = 0.0
    _head_timer: asyncio.TimerHandle | None = None
    _answered: RequestResponseCycle | None = None
    _unread_since: float | None = None
    _requests = _requests_then = 0

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.logger = _errors_alone()
        self._unread_s = float(self.app_state.get(UNREAD, UNREAD_S))
        self._idle_since = self.loop.time()
        self._end_when_unacknowledged()
        self._await_headers()
        self._sweep_from_now()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell_of_loss()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.busy:
            self._unasked_bytes += len(data)
            self._await_headers()
        super().data_received(data)
        if self.busy:
            self._unasked_bytes = 0
            self._head_timer = _cancelled(self._head_timer)
        elif self._unasked_bytes > MAX_HEADER_BYTES:
            self.transport.close()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._requests += 1
        if len(self.pipeline) > MAX_PIPELINED:
            self._drop()
            raise ValueError("more requests are sent than answers are read")

    def shutdown(self) -> None:
        super().shutdown()
        if self.busy and self.cycle.more_body:
            self.loop.call_later(ENDING_S, self._close_incomplete, self.cycle)

    def abort_if_unread(self) -> None:
        """Close the connection if its client has left unread what it was sent, for as long as it may.

        A client that asks again after an answer, and not before, has read that answer.
        """
        asked_anew = self._requests != self._requests_then and not self.pipeline
        self._requests_then = self._requests
        if asked_anew or not self.transport.get_write_buffer_size():
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = self.loop.time()
        elif self.loop.time() - self._unread_since >= self._unread_s:
            self._drop()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _drop(self) -> None:
        self._tell_of_loss()
        self.transport.abort()

    def _tell_of_loss(self) -> None:
        """Tell the request that is being answered: uvicorn tells the last one that came, which may be another."""
        self._head_timer = _cancelled(self._head_timer)
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def _close_incomplete(self, cycle: RequestResponseCycle) -> None:
        if self.cycle is cycle and cycle.more_body and not cycle.response_started:
            self._drop()

    def _end_when_unacknowledged(self) -> None:
        """Let the kernel end a connection whose client is gone without a word, or reads nothing (RFC 5482)."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None and sys.platform == "linux":
            with suppress(OSError):  # closed already, or not TCP
                connected.setsockopt(_TCP, _USER_TIMEOUT, int(self._unread_s * 1000))

    def _sweep_from_now(self) -> None:
        """Look at all connections of this server every so often, as long as there are any."""
        if self.server_state not in self._swept:
            self._swept.add(self.server_state)
            self.loop.call_later(self._unread_s / 8, self._sweep)

    def _sweep(self) -> None:
        connections = [each for each in self.connections if isinstance(each, Connection)]
        for each in connections:
            each.abort_if_unread()
        if connections:
            self.loop.call_later(self._unread_s / 8, self._sweep)
        else:
            self._swept.discard(self.server_state)

    def _await_headers(self) -> None:
        self._head_timer = self._head_timer or self.loop.call_later(HEADERS_S, self._close_idle)

    def _close_idle(self) -> None:
        self._head_timer = None
        if not self.busy and not self.transport.is_closing():
            self.transport.close()

    def _make_room(self) -> None:
        others = (each for each in self.connections if isinstance(each, Connection) and each is not self)
        idle = [each for each in others if not each.busy and not each.transport.is_closing()]
        longest = min(idle, key=lambda each: each._idle_since, default=self)
        self.connections.discard(longest)
        longest._drop()


@cache
def _errors_alone() -> logging.Logger:
    """Return a logger of errors: what strangers send makes warnings."""
    logger = logging.getLogger("uvicorn.error.connections")
    logger.setLevel(logging.ERROR)
    return logger


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
