"""The deadline of a request: its work ends then, or when its client leaves, and the client gets a 504.

Belongs here: noticing both. Does not belong here: ending the work, which looks for itself (`deadline`).
"""

from __future__ import annotations

import asyncio
import logging

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.wire import ENDING, RequestError, error_response
from rag_serving.deadline import Deadline, StoppedError, within

_RETRY_AFTER_S, _ENDING_RETRY_AFTER_S = 30, 5

_log = logging.getLogger(__name__)


class Running:
    """The requests that are being answered; used by the event loop alone."""

    def __init__(self) -> None:
        self._requests = set[_Request]()
        self._ending = set[asyncio.Task[None]]()
        self._is_ending = False

    async def begin(self, request: _Request) -> None:
        self._requests.add(request)
        if self._is_ending:
            await request.give_up(server_ends=True)

    def end(self, request: _Request) -> None:
        self._requests.discard(request)

    def end_all(self) -> None:
        """Tell every client that its request is not answered because the server ends, and end the work."""
        self._is_ending = True
        for request in self._requests:
            task = asyncio.ensure_future(request.give_up(server_ends=True))
            self._ending.add(task)  # the event loop keeps none from being collected
            task.add_done_callback(self._ending.discard)


class Deadlines:
    """ASGI middleware behind `BodyLimit`, which has read the body: answers take `serving.request_timeout_s` at most."""

    def __init__(self, app: ASGIApp, running: Running) -> None:
        self._app, self._running = app, running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = Deadline(scope["app"].state.service.config.serving.request_timeout_s)
        request = _Request(scope, receive, send, deadline, await receive())
        watching = asyncio.create_task(request.watch())
        try:
            await self._running.begin(request)
            with within(deadline):
                await self._app(scope, request.receive, request.send)
        except StoppedError:
            await request.give_up()
        finally:
            self._running.end(request)
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
        """Send a part of the answer, unless the client already has a refusal."""
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

    async def give_up(self, server_ends: bool = False) -> None:
        """Tell the client that there will be no answer; an answer that has begun tells it itself."""
        self._deadline.cancel(server_ends)
        if self._has_begun or self._is_over or self._gone.is_set():
            return
        self._is_over = True
        await self._refusal()(self._scope, self._receive, self._send)

    def _refusal(self) -> JSONResponse:
        path = self._scope["path"]
        if self._deadline.is_server_ending:
            return error_response(path, RequestError(503, "UNAVAILABLE", ENDING, retry_after=_ENDING_RETRY_AFTER_S))
        _log.warning("%s: not answered within %g s", path, self._deadline.seconds)
        message = f"this took longer than {self._deadline.seconds:g} seconds; ask again, or ask for less"
        return error_response(path, RequestError(504, "TIMEOUT", message, retry_after=_RETRY_AFTER_S))
