"""`GET /v1/events`: tells editors of documents whenever one of them changes.

Belongs here: the stream, its bounds, what is told to whom. Does not belong here: records (`rag_serving.documents`),
answers as streams (`streams`).

A stream ends with the deadline of its request, or when the server is told to end, and its reader connects again: who he
is, and what he may read, is then looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rag_serving.access.principals import Principal
from rag_serving.api.service import Caller, CurrentService, slots_within
from rag_serving.api.stream_slots import Slots
from rag_serving.api.streams import HEADERS, MEDIA_TYPE, event
from rag_serving.api.turns import end_turn
from rag_serving.api.wire import error_response
from rag_serving.deadline import current
from rag_serving.documents.inbox import Inbox, inboxes_of
from rag_serving.documents.records import UNFINISHED, Entry

LOOK_S = 0.5
"""Seconds between two looks at the inboxes; each costs two calls of `stat` where nothing changed."""
PING_S = 15.0
RETRY = "retry: 2000\n\n"
PING = ": ping\n\n"

router = APIRouter()


@router.get("/v1/events")
def events(request: HttpRequest, caller: Caller, service: CurrentService) -> Response:
    """Stream `document` events: at first of what is under way, then of what changes."""
    inboxes = [inbox for inbox in inboxes_of(service.config, caller.tenant) if inbox.is_open_to(caller)]
    slots = slots_within(request, request.app.state.event_streams)
    drain, deadline = request.app.state.drain, current()

    def is_over() -> bool:
        return bool((drain and drain.is_draining) or (deadline and deadline.left <= 0))

    return DocumentStream(changes(inboxes, caller, is_over), slots)


class DocumentStream(StreamingResponse):
    """The response; it holds a slot until it ends."""

    def __init__(self, events: AsyncIterator[str], slots: Slots) -> None:
        super().__init__(events, media_type=MEDIA_TYPE, headers=HEADERS)
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refusal := self._slots.take():
            await error_response(scope["path"], refusal)(scope, receive, send)
            return
        ended = self._slots.ended_twice()
        ended()
        end_turn(scope)
        try:
            await super().__call__(scope, receive, send)
        finally:
            ended()


async def changes(inboxes: Sequence[Inbox], caller: Principal, is_over: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield events until it is over: one for each document that changed for the caller, a comment in between."""
    yield RETRY
    told: dict[str, dict[str, Any]] = {}
    stamps: list[tuple[int, ...]] = []
    is_first, silent_s = True, 0.0
    while not is_over():
        now = await run_in_threadpool(_stamps, inboxes)
        is_silent = silent_s >= PING_S  # two changes within one tick of the file system's clock look like one
        if now != stamps or is_silent:
            stamps = now
            payloads = await run_in_threadpool(_payloads, inboxes, caller)
            for payload in _news(told, payloads, is_first):
                yield event("document", payload)
            told, is_first = payloads, False
            if is_silent:
                yield PING
            silent_s = 0.0
        await asyncio.sleep(LOOK_S)
        silent_s += LOOK_S


def _news(
    told: Mapping[str, dict[str, Any]], now: Mapping[str, dict[str, Any]], is_first: bool
) -> list[dict[str, Any]]:
    """Return what to tell: of a new listener what is under way, then what differs; what is gone is `deleted`."""
    if is_first:
        return [payload for payload in now.values() if payload["status"] in UNFINISHED]
    changed = [payload for name, payload in now.items() if told.get(name) != payload]
    gone = [{**payload, "status": "deleted", "page_id": None} for name, payload in told.items() if name not in now]
    return changed + gone


def _stamps(inboxes: Sequence[Inbox]) -> list[tuple[int, ...]]:
    return [inbox.files.stamp() for inbox in inboxes]


def _payloads(inboxes: Sequence[Inbox], caller: Principal) -> dict[str, dict[str, Any]]:
    entries: list[Entry] = [entry for inbox in inboxes for entry in inbox.entries_for(caller).values()]
    return {entry.document.document_id: entry.payload() for entry in entries}
