"""A request's turn and its deadline: how many of one tenant are under way at once, and when the work of each ends.

Belongs here: counting, who is next, how long one waits; that a request's time is over, or its client left: it gets a
504. Does not belong here: how often one may ask (`rates`), who is known (`admission`), reading bodies (`wire`,
`uploads`), ending the work, which looks for itself (`deadline`).

Turns are taken by requests whose body is read: who sends slowly keeps nobody waiting. Used by the event loop alone, and
so without locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.wire import ENDING, RequestError, error_response
from rag_serving.config.loading import Config
from rag_serving.deadline import Deadline, StoppedError, within
from rag_serving.records.claims import EXTRACTIVE

LONGEST_WAIT_S = 10.0
MOST_WAITING = 32
"""Requests of one caller that may wait; each holds a connection, and no thread."""
FAIR_SHARE, FAIR_SHARE_OF_MODEL = 1, 4
"""Requests at once of each of several tenants, where the configuration says nothing. Searching and extraction keep one
core of a process busy; a request that waits for a language model keeps none."""
_STATE, _WANTED = "end_turn", "wanted_turn"
_FEWER = "too many requests of this tenant are under way; try again after the seconds in Retry-After"

_Line = deque[asyncio.Future[None]]


def at_once_of(config: Config, tenant: str) -> int:
    """Return how many requests of a tenant one process works on at once; 0: no limit."""
    chosen = config.tenants[tenant].requests_at_once
    if chosen is not None or config.serving.auth == "loopback" or len(config.tenants) < 2:
        return chosen or 0
    return FAIR_SHARE if config.generation.provider == EXTRACTIVE else FAIR_SHARE_OF_MODEL


class Turns:
    """Requests under way, by tenant. Callers that wait come one after the other: who sends many delays no one else."""

    def __init__(self) -> None:
        self._under_way = Counter[str]()
        self._waiting: dict[str, OrderedDict[str, _Line]] = {}

    async def take(self, tenant: str, caller: str, at_once: int) -> Callable[[], None] | None:
        """Wait for a turn. Return the function that ends it, or None if it did not come; an `at_once` of 0 is no
        limit."""
        if not at_once or self._under_way[tenant] < at_once:
            self._under_way[tenant] += 1
        elif not await self._is_called(tenant, caller):
            return None
        held = [tenant]

        def end() -> None:
            if held:
                self._end(held.pop())

        return end

    def of_tenant(self, tenant: str) -> int:
        """Return how many requests of a tenant are under way."""
        return self._under_way[tenant]

    def waiting(self, tenant: str) -> int:
        """Return how many requests of a tenant wait."""
        return sum(map(len, self._waiting.get(tenant, {}).values()))

    async def _is_called(self, tenant: str, caller: str) -> bool:
        """Wait in the caller's line; a called waiter takes over the turn of the one that ended."""
        line = self._waiting.setdefault(tenant, OrderedDict()).setdefault(caller, deque())
        if len(line) >= MOST_WAITING:
            return False
        called = asyncio.get_running_loop().create_future()
        line.append(called)
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                await called
        except BaseException as error:
            if called.done() and not called.cancelled():
                self._end(tenant)  # called and gone in one moment: the next one is
            else:
                self._forget(tenant, caller, called)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def _end(self, tenant: str) -> None:
        lines = self._waiting.get(tenant, OrderedDict())
        while lines:
            caller, line = lines.popitem(last=False)
            called = line.popleft()
            if line:
                lines[caller] = line  # at the end
            if not called.done():
                called.set_result(None)
                return
        self._waiting.pop(tenant, None)
        self._under_way[tenant] -= 1
        if not self._under_way[tenant]:
            del self._under_way[tenant]

    def _forget(self, tenant: str, caller: str, called: asyncio.Future[None]) -> None:
        lines = self._waiting.get(tenant, OrderedDict())
        line = lines.get(caller, deque())
        if called in line:
            line.remove(called)
        if not line:
            lines.pop(caller, None)


class WantedTurn(NamedTuple):
    """Tell whose turn a request waits for: one of `at_once` of its tenant, in its caller's line."""

    tenant: str
    caller: str
    at_once: int


def want_turn(scope: Scope, tenant: str, caller: str, at_once: int) -> None:
    """Note in a request that it has to wait for a turn."""
    scope.setdefault("state", {})[_WANTED] = WantedTurn(tenant, caller, at_once)


class InTurn:
    """ASGI middleware behind those that read bodies: a request that has to wait for a turn comes in when it has one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._turns = app, Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted: WantedTurn | None = scope.get("state", {}).get(_WANTED)
        if wanted is None:
            await self._app(scope, receive, send)
            return
        end = await self._turns.take(*wanted)
        if end is None:
            error = RequestError(429, "RATE_LIMIT", _FEWER, retry_after=1)
            await error_response(scope["path"], error)(scope, receive, send)
            return
        hold(scope, end)
        try:
            await self._app(scope, receive, send)
        finally:
            end()


def hold(scope: Scope, end: Callable[[], None]) -> None:
    """Attach to a request the function that ends its turn."""
    scope.setdefault("state", {})[_STATE] = end


def end_turn(scope: Scope) -> None:
    """End the turn of a request that only waits from now on, for a model or for news."""
    if end := scope.get("state", {}).get(_STATE):
        end()


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
    """One request, whose client and deadline are watched while it is answered."""

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
        """Send the client a refusal; a response already under way reports its own end."""
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
