"""The deadline of a request: its work ends then, or when its client leaves, and whoever waits is told (504).

Belongs here: noticing both. Does not belong here: ending the work, which looks for itself (`deadline`).
"""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.wire import error_response
from rag_serving.deadline import Deadline, StoppedError, within

_RETRY_AFTER_S = 30

_log = logging.getLogger(__name__)


class Deadlines:
    """ASGI middleware behind `BodyLimit`, which has read the body: answers take `serving.request_timeout_s` at most."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = Deadline(scope["app"].state.service.config.serving.request_timeout_s)
        request = _Request(scope, receive, send, deadline, await receive())
        watching = asyncio.create_task(request.watch())
        try:
            with within(deadline):
                await self._app(scope, request.receive, request.send)
        except StoppedError:
            await request.give_up()
        finally:
            deadline.cancel()
            watching.cancel()


class _Request:
    """One request, whose client and clock are watched while it is answered."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, deadline: Deadline, body: Message) -> None:
        self._scope, self._receive, self._send, self._deadline = scope, receive, send, deadline
        self._unread = [body]
        self._gone = asyncio.Event()
        self._has_begun = self._is_over = False

    async def receive(self) -> Message:
        """Give the body, then, when it is so, that the client left."""
        if self._unread:
            return self._unread.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the answer, unless the client was told already that there will be none."""
        if not self._is_over:
            self._has_begun = True
            await self._send(message)

    async def watch(self) -> None:
        """End the work when its client leaves or its time is over."""
        leaving = asyncio.ensure_future(self._receive())
        try:
            done, _ = await asyncio.wait([leaving], timeout=self._deadline.left)
            if not done:
                await self.give_up()
            await leaving
        finally:
            leaving.cancel()
        self._deadline.cancel()
        self._gone.set()

    async def give_up(self) -> None:
        """Tell the client that there will be no answer; an answer that has begun tells it itself."""
        self._deadline.cancel()
        if self._has_begun or self._is_over or self._gone.is_set():
            return
        self._is_over = True
        _log.warning("%s: not answered within %g s", self._scope["path"], self._deadline.seconds)
        message = f"this took longer than {self._deadline.seconds:g} seconds; ask again, or ask for less"
        response = error_response(self._scope["path"], 504, "TIMEOUT", message, retry_after=_RETRY_AFTER_S)
        await response(self._scope, self._receive, self._send)
