"""A connection of the HTTP API: how long its headers may take, how many there may be, who makes room for a new one.

Belongs here: what uvicorn leaves open. Does not belong here: bodies (`wire`), who asks (`admission`).
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 10.0
"""Seconds in which the headers of a request must come, from the connection's or their own first byte."""
WRITE_S = 60.0
"""Seconds that a client may leave what it is sent unread."""
MAX_HEADER_BYTES = 262_144
"""Bytes without a request after which a connection is closed; asyncio reads as many at once, body included."""
MAX_CONNECTIONS = 1000
"""Of a process. Beyond, the one that has been idle for longest makes room; if all are busy, the new one does."""


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with deadlines for headers and for reading, and a bounded number of connections."""

    _unasked_bytes = 0
    _idle_since = 0.0
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._await_headers()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
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

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self._write_timer or self.loop.call_later(WRITE_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._write_timer = _cancelled(self._write_timer)
        super().resume_writing()

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
        longest._stop_timers()
        longest.transport.abort()

    def _stop_timers(self) -> None:
        self._head_timer = _cancelled(self._head_timer)
        self._write_timer = _cancelled(self._write_timer)


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Return None, having cancelled the timer."""
    if timer is not None:
        timer.cancel()
    return None
