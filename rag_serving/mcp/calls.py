"""The callers of tools, and one call: work in a thread that ends with its deadline, progress, errors in one line."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from rag_serving.access.principals import Principal
from rag_serving.ask import RETRIEVAL_DOWN, RETRIEVAL_OFF, Pipeline
from rag_serving.deadline import Deadline, StoppedError, call_soon, run_in_thread, within
from rag_serving.degradation.phases import RetrievalOffError
from rag_serving.hooks import AUDIT_DOWN, AuditUnavailableError, BudgetError
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.databases import RemoteError
from rag_serving.query.filters import FilterError
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError
from rag_serving.retrieval.hybrid import RetrievalError
from rag_serving.tracing import Listen

Release = Callable[[], None]


@dataclass(frozen=True)
class Caller:
    """A caller, and its tenant."""

    principal: Principal
    pipeline: Pipeline
    deadline: Deadline
    """When the work ends; it is cancelled where the caller leaves."""
    take_slot: Callable[[], Release] = lambda: lambda: None
    """Take one of the answers that may be under way at once; returns what gives it back when it is called for the
    second time, by the response and by the thread. Raises ToolError where none is left."""


Callers = Callable[[Any], Caller]
"""Return the caller by the HTTP request, None on standard input. Raises ToolError: the caller has no access."""


@dataclass(frozen=True)
class OneCaller:
    """The one caller of a process: the user who started it."""

    principal: Principal
    pipeline: Pipeline

    def __call__(self, request: Any) -> Caller:  # noqa: ARG002
        timeout_s = self.pipeline.config.serving.request_timeout_s
        return Caller(self.principal, self.pipeline, Deadline(timeout_s))


NO_RECEIPT = "there is no such receipt"
RECEIPTS_AWAY = "receipts cannot be read at the moment"
TOO_LATE = "the answer took too long; ask again, or ask for less"
# Details of one stage come as fast as a model writes.
_LEAST_PAUSE_S = 0.2
_MOST_WAITING = 100

Result = TypeVar("Result")


class Calls:
    """Runs the work of tools for their callers."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def run(self, context: Context, work: Callable[[Caller], Result]) -> Result:
        """Return the result of some work in a thread; it stops once nobody waits for it. Raises ToolError: the work
        failed with an error meant for the caller."""
        caller = self.caller(context)
        return await _in_thread(caller, lambda: work(caller))

    async def answer(self, context: Context, work: Callable[[Caller, Listen], Result]) -> Result:
        """Return the same for work that reports progress; it takes one of the slots for answers. Raises ToolError: the
        work failed with an error meant for the caller, or no slot is free."""
        caller, progress = self.caller(context), _Progress(context)
        ended = caller.take_slot()
        reporting = asyncio.create_task(progress.report())
        try:
            return await _in_own_thread(caller, lambda: work(caller, progress.listen), ended)
        finally:
            reporting.cancel()
            ended()

    def caller(self, context: Context) -> Caller:
        """Return the caller."""
        return self._callers(context.request_context.request)


class _Progress:
    """Stages as a thread passes them, sent to the client as notifications."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue = asyncio.Queue[str](_MOST_WAITING)
        self._last = float("-inf")

    def listen(self, stage: str, detail: str) -> None:
        """Note a stage, in the thread that works; its details not more often than anybody can read."""
        now = time.monotonic()
        if not detail or now - self._last >= _LEAST_PAUSE_S:
            self._last = now
            call_soon(self._loop, self._put, f"{stage}: {detail}" if detail else stage)

    def _put(self, message: str) -> None:
        with suppress(asyncio.QueueFull):  # a client that reads slowly misses stages, and nothing else
            self._queue.put_nowait(message)

    async def report(self) -> None:
        """Tell the client of each stage until the task is cancelled; nothing if it did not ask."""
        count = 0
        with suppress(Exception):  # a client that has gone gets nothing more; its call ends by itself
            while True:
                message = await self._queue.get()
                count += 1
                await self._context.report_progress(count, None, message)


async def _in_thread(caller: Caller, work: Callable[[], Result]) -> Result:
    """Return the result of some work in a thread that is left behind, to end by itself, where the call is cancelled."""
    run = partial(contextvars.copy_context().run, _within_deadline, caller, work)
    try:
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
    except asyncio.CancelledError:
        caller.deadline.cancel()
        raise


async def _in_own_thread(caller: Caller, work: Callable[[], Result], ended: Release) -> Result:
    """Return the same from a thread that begins at once, and that `ended` hears of when it ends: one that waited for
    its turn might be cancelled before it began, and would never end."""
    loop, run = asyncio.get_running_loop(), contextvars.copy_context().run
    outcome = run_in_thread(partial(run, _within_deadline, caller, work), "mcp")
    outcome.add_done_callback(lambda _: call_soon(loop, ended))
    try:
        return await asyncio.shield(asyncio.wrap_future(outcome))  # the thread ends by itself, and not with its call
    except asyncio.CancelledError:
        caller.deadline.cancel()
        raise


def _within_deadline(caller: Caller, work: Callable[[], Result]) -> Result:
    """Return the result of work that ends by the caller's deadline. Raises ToolError: an error meant for the caller."""
    with within(caller.deadline):
        try:
            return work()
        except StoppedError:
            raise ToolError(TOO_LATE) from None
        except Exception as error:
            if message := message_of(error):
                raise ToolError(message) from None
            raise


def message_of(error: Exception) -> str | None:
    """Return the caller's message for an error; None if the error is unexpected."""
    if isinstance(error, ReceiptsAwayError):
        return RECEIPTS_AWAY
    if isinstance(error, ReceiptError):
        return NO_RECEIPT
    if isinstance(error, AuditUnavailableError):
        return AUDIT_DOWN
    if isinstance(error, RetrievalError):
        return RETRIEVAL_OFF if isinstance(error, RetrievalOffError) else RETRIEVAL_DOWN
    if isinstance(error, RemoteError):
        return RETRIEVAL_DOWN
    return str(error) if isinstance(error, (FilterError, UnpublishedError, BudgetError)) else None
