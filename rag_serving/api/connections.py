"""The time limit for a client to read a response: after it the request ends, and frees its turn and thread.

Belongs here: sending. Does not belong here: bodies (`wire`, `uploads`), the request's own deadline (`turns`), slow
headers, idle and too many connections (the proxy: `deploy/proxy/nginx.conf`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
