"""Limits: how often callers may ask or guess, how many streams and requests run at once, and until when. Used by the
event loop alone, and so without locks. Turns are taken by requests whose body is read: who sends slowly keeps nobody
waiting."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.wire import ENDING, RequestError, error_response
from rag_serving.config.loading import Config
from rag_serving.config.serving import Serving
from rag_serving.deadline import Deadline, StoppedError, within
from rag_serving.records.claims import EXTRACTIVE

MAX_KEYS = 10_000
"""Callers, or addresses, that are remembered; beyond, those that were not seen for longest are forgotten."""
FREE_GUESSES = 10
LONGEST_GUESS_WAIT_S = 300.0
LATER_S = 1.0
MOST_LATER = 64
"""Refusals of one caller that are held back at once."""
FORGOTTEN_S = 900.0
MINUTE_S = 60.0
"""Seconds over which what a caller took of its tenant's limit is forgotten, by a factor of e."""

Clock = Callable[[], float]
Value = TypeVar("Value")


class Kept(OrderedDict[str, Value]):
    """A mapping of at most MAX_KEYS keys."""

    def keep(self, key: str, value: Value) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > MAX_KEYS:
            self.popitem(last=False)


class Rates:
    """A token bucket for each key: a minute's worth at once, then as fast as it fills."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._buckets = Kept[tuple[float, float]]()  # what is left, and when that was

    def take(self, key: str, per_minute: int) -> float:
        """Take one. Return 0, or the seconds until there is one to take; a limit of 0 is none."""
        if not per_minute:
            return 0.0
        now = self._clock()
        left, at = self._buckets.get(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        taken = left >= 1
        self._buckets.keep(key, (left - 1 if taken else left, now))
        return 0.0 if taken else (1 - left) * 60 / per_minute


class TenantRates:
    """A token bucket for each tenant that its callers share fairly. While more than half of a minute's worth is left,
    every caller may take one. Below that a caller who took more than its share of the last minute waits until the
    others had theirs: a flood drives nobody out."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._buckets = Kept[tuple[float, float]]()  # what is left, and when that was
        self._callers: dict[str, Kept[tuple[float, float]]] = {}  # of a tenant: what each took lately, and when

    def take(self, tenant: str, caller: str, per_minute: int) -> float:
        """Take one. Return 0, or the seconds until there may be one to take; a limit of 0 is none."""
        if not per_minute:
            return 0.0
        now, active = self._clock(), self._active(tenant)
        left, at = self._buckets.get(tenant, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        taken, seen = active.get(caller, (0.0, now))
        taken *= math.exp((seen - now) / MINUTE_S)
        active.keep(caller, (taken, now))
        share = per_minute / len(active)
        if left < 1:
            wait_s = (1 - left) * 60 / per_minute
        elif left < per_minute / 2 and len(active) > 1 and taken + 1 > share:
            # until the caller has its share again, or the bucket is half full, whichever comes first
            wait_s = (per_minute / 2 - left) * 60 / per_minute
            if share > 1:
                wait_s = min(wait_s, MINUTE_S * math.log(max(1.0, taken / (share - 1))))
        else:
            wait_s, left = 0.0, left - 1
            active.keep(caller, (taken + 1, now))
        self._buckets.keep(tenant, (left, now))
        return wait_s

    def _active(self, tenant: str) -> Kept[tuple[float, float]]:
        active = self._callers.setdefault(tenant, Kept())
        while active and (first := next(iter(active.items())))[1][1] < self._clock() - MINUTE_S:
            del active[first[0]]
        return active


class Refusals:
    """The delay of a caller's refusals. A caller that retries too early gets its refusal later: it is made to wait, and
    costs nothing meanwhile."""

    def __init__(self) -> None:
        self._told = Kept[float]()  # until when
        self._later = Counter[str]()

    async def refuse(self, caller: str, wait_s: float) -> None:
        """Delay the refusal of a caller that retries before its wait is over."""
        now = time.monotonic()
        is_impatient = now < self._told.get(caller, 0.0)
        self._told.keep(caller, now + wait_s)
        if is_impatient and self._later[caller] < MOST_LATER:
            self._later[caller] += 1
            try:
                await asyncio.sleep(min(wait_s, LATER_S))
            finally:
                self._later[caller] -= 1
                if not self._later[caller]:
                    del self._later[caller]


class Guesses:
    """Wrong tokens by address: after some, each doubles the time for which no new token of that address is looked at.
    Tokens that the address has shown to be right are looked at all the same: who guesses behind a proxy shuts nobody
    out."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._wrong = Kept[tuple[int, float]]()  # how many, and the last one's time
        self._right = Kept[None]()

    def wait(self, address: str, token: str) -> float:
        """Return the seconds for which this token is not looked at."""
        count, at = self._wrong.get(address, (0, 0.0))
        if count < FREE_GUESSES or f"{address} {token}" in self._right:
            return 0.0
        return max(0.0, at + min(2.0 ** min(count - FREE_GUESSES, 20), LONGEST_GUESS_WAIT_S) - self._clock())

    def wrong(self, address: str) -> None:
        now = self._clock()
        count, at = self._wrong.get(address, (0, now))
        self._wrong.keep(address, (1 if now - at > FORGOTTEN_S else count + 1, now))

    def right(self, address: str, token: str) -> None:
        self._right.keep(f"{address} {token}", None)


def network_of(address: str) -> str:
    """Return the key for counting one caller: an address; of IPv6 the /64, which is one customer's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


RETRY_AFTER_S = 5


TakeSlot = Callable[[], Callable[[], None]]
"""`ActiveStreams.take` of one caller."""


@dataclass
class ActiveStreams:
    """The streams that are under way, of all configurations that this process has had."""

    by_caller: Counter[str] = field(default_factory=Counter)
    """By the caller's tenant and name, with a space between; without one where nobody is asked who he is."""

    @property
    def all(self) -> int:
        return self.by_caller.total()

    def of_tenant(self, tenant: str) -> int:
        """Return how many of them are a tenant's."""
        mine = (count for caller, count in self.by_caller.items() if not caller or caller.startswith(f"{tenant} "))
        return sum(mine)

    def take(self, serving: Serving, caller: str) -> Callable[[], None]:
        """Begin another one. Return a function whose second call says that it ended: by the response, and by the
        thread. `caller` without a name: not limited individually (loopback). Raises RequestError: no more may begin."""
        taken, most = self.by_caller, -(-serving.streams // serving.streams_share)
        if caller and taken[caller] >= most:
            message = f"at most {most} answers are streamed to one caller at once"
            message = f"{message}; read one to its end, or ask without `stream`"
            raise RequestError(429, "RATE_LIMIT", message, retry_after=RETRY_AFTER_S)
        if self.all >= serving.streams:
            message = "too many answers are being streamed; try again in a few seconds"
            raise RequestError(503, "UNAVAILABLE", message, retry_after=RETRY_AFTER_S)
        taken[caller] += 1
        left = [None, None]

        def ended() -> None:
            left.pop()
            if not left:
                taken[caller] -= 1
                if not taken[caller]:
                    del taken[caller]

        return ended


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
        """Wait for a turn. Return the function that ends it, or None if none came; an `at_once` of 0 is no limit."""
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


def want_turn(scope: Scope, tenant: str, caller: str, at_once: int) -> None:
    """Note in a request that it has to wait for a turn: one of `at_once` of its tenant, in its caller's line."""
    scope.setdefault("state", {})[_WANTED] = tenant, caller, at_once


class InTurn:
    """ASGI middleware behind those that read bodies: a request that has to wait for a turn comes in when it has one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._turns = app, Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted: tuple[str, str, int] | None = scope.get("state", {}).get(_WANTED)
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
        path, seconds = self._scope["path"], self._deadline.seconds
        if self._deadline.is_server_ending:
            refusal = RequestError(503, "UNAVAILABLE", ENDING, retry_after=_ENDING_RETRY_AFTER_S)
        else:
            _log.warning("%s: not answered within %g s", path, seconds)
            message = f"this took longer than {seconds:g} seconds; ask again, or ask for less"
            refusal = RequestError(504, "TIMEOUT", message, retry_after=_RETRY_AFTER_S)
        await error_response(path, refusal)(self._scope, self._receive, self._send)
