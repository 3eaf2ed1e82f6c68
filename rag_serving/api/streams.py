"""An answer as server-sent events: how far it is, then its verified sentences, then the whole of it. Nothing is sent of
what a model writes before it was verified."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rag_serving.answering.citations import claims_of
from rag_serving.api.errors import refusal_of
from rag_serving.api.limits import TakeSlot, end_turn
from rag_serving.api.wire import ENDING, RequestError, error_body
from rag_serving.deadline import Deadline, StoppedError, call_soon, current
from rag_serving.escaping.targets import for_json
from rag_serving.records.answers import Answer
from rag_serving.tracing import Listen

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_KEEP_ALIVE_S = 15.0
# Details of one stage come as fast as a model writes.
_LEAST_PAUSE_S = 0.2
KEEP_ALIVE = ": waiting\n\n"


@dataclass(frozen=True)
class Progress:
    """A stage that began, or goes on."""

    stage: str
    detail: str


StreamItem = Progress | Answer | RequestError | None
"""What happens while a question is answered; None: nothing for a while."""
Events = Callable[[AsyncIterator[StreamItem]], AsyncIterator[str]]


class EventStream(StreamingResponse):
    """A response that answers in a thread of its own while it streams; it takes a slot from its beginning until
    response and thread have both ended."""

    def __init__(self, answer: Callable[[Listen], Answer], events: Events, take_slot: TakeSlot) -> None:
        super().__init__(iter(()), media_type=MEDIA_TYPE, headers=HEADERS)
        self._work, self._events, self._take_slot = _Work(answer), events, take_slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ended = self._take_slot()
        self._work.start(ended)
        self.body_iterator = self._events(_watched(self._work.items(), scope))
        try:
            await super().__call__(scope, receive, send)
        finally:
            ended()


async def events_of(
    items: AsyncIterator[StreamItem], payload: Callable[[Answer], dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield `progress` for each stage, `sentence` for each verified one with the outcome, then `answer` or `error`."""
    async for item in items:
        if item is None:
            yield KEEP_ALIVE
        elif isinstance(item, Progress):
            yield event("progress", vars(item))
        elif isinstance(item, Answer):
            for sentence in claims_of(item) if item.status == "answered" else ():
                yield event("sentence", {"text": sentence, "outcome": item.outcome})
            yield event("answer", payload(item))
        else:
            yield event("error", error_body(item.code, str(item)))


async def _watched(items: AsyncIterator[StreamItem], scope: Scope) -> AsyncIterator[StreamItem]:
    """End the turn of a request once a model writes its answer: that costs this process little, and takes long."""
    async for item in items:
        if isinstance(item, Progress) and item.stage == "generate" and item.detail:
            end_turn(scope)
        yield item


class _Work:
    """A question that is answered in a thread, and the queue from there to the event loop."""

    def __init__(self, answer: Callable[[Listen], Answer]) -> None:
        self._answer = answer
        self._last_progress = float("-inf")

    def start(self, ended: Callable[[], None]) -> None:
        """Begin to answer; `ended` is called by the event loop when the thread ends."""
        self._loop = asyncio.get_running_loop()
        self._queue = asyncio.Queue[Progress | Answer | RequestError]()
        if deadline := current():
            deadline.on_cancel(lambda: self._put(_stopped(deadline)))
        run = copy_context().run
        threading.Thread(target=run, args=(self._run, ended), name="stream", daemon=True).start()

    async def items(self) -> AsyncIterator[StreamItem]:
        """Yield items until the question is answered, or fails, or its time is over."""
        item: StreamItem = None
        while item is None or isinstance(item, Progress):
            try:
                async with asyncio.timeout(_KEEP_ALIVE_S):
                    item = await self._queue.get()
            except TimeoutError:
                item = None
            yield item

    def _run(self, ended: Callable[[], None]) -> None:
        try:
            self._put(self._answer(self._progress))
        except StoppedError:
            self._put(_stopped(current()))
        except Exception as error:  # any error must reach the waiting client
            self._put(refusal_of(error))
        finally:
            call_soon(self._loop, ended)

    def _progress(self, stage: str, detail: str) -> None:
        """Report a stage; its details not more often than anybody can read."""
        now = time.monotonic()
        if not detail or now - self._last_progress >= _LEAST_PAUSE_S:
            self._last_progress = now
            self._put(Progress(stage, detail))

    def _put(self, item: Progress | Answer | RequestError) -> None:
        call_soon(self._loop, self._queue.put_nowait, item)


def _stopped(deadline: Deadline | None) -> RequestError:
    if deadline and deadline.is_server_ending:
        return RequestError(503, "UNAVAILABLE", ENDING)
    return RequestError(504, "TIMEOUT", "the answer took too long")


def event(name: str, data: dict[str, Any]) -> str:
    """Return one event; JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {for_json(data)}\n\n"
