"""The routes of uploaded documents: upload, list, show, delete, for editors.

Belongs here: shapes and status codes; `GET /v1/events`, a stream of changes. Does not belong here: receiving a file
(`uploads`), its life (`rag_serving.documents`), reading it (the build), answers as streams (`streams`).

A missing document and one that the caller may not read get the same response.

A stream ends with the deadline of its request, or when the server ends, and its reader connects again, which renews his
authentication and access.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rag_serving.access.principals import EVERYONE, Principal
from rag_serving.api.multipart import FILE, MAX_FIELD_BYTES
from rag_serving.api.pages import PRIVATE
from rag_serving.api.service import Caller, CurrentService, Service, slots_within
from rag_serving.api.stream_slots import Slots
from rag_serving.api.streams import HEADERS, MEDIA_TYPE, event
from rag_serving.api.turns import end_turn
from rag_serving.api.uploads import FIELDS, PATH, Received
from rag_serving.api.wire import RequestError, error_response
from rag_serving.artifacts.store import Store
from rag_serving.deadline import current
from rag_serving.documents.deletions import deletion_for
from rag_serving.documents.grants import GrantError, grantable, granted, narrowest
from rag_serving.documents.inbox import Inbox, NoSuchDocumentError, TooManyDocumentsError, Upload, inboxes_of
from rag_serving.documents.kinds import ACCEPTS, KindError
from rag_serving.documents.records import UNFINISHED, Entry
from rag_serving.hooks import MAX_SUBJECT_CHARS, Event, counted, of_upload
from rag_serving.text.characters import fault_of

router = APIRouter()


_LABELS = {EVERYONE: "Everyone"}


_FORM = {
    "type": "object",
    "required": [FILE],
    "properties": {
        FILE: {"type": "string", "format": "binary"},
        **{name: {"type": "string", "maxLength": MAX_FIELD_BYTES} for name in FIELDS},
    },
}


@router.post(
    PATH,
    status_code=202,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}},
)
def upload(request: HttpRequest, service: CurrentService) -> JSONResponse:
    """Keep a document, or a new version of one; the next build reads it. Its form was received before (`Uploads`)."""
    received: Received = request.state.received
    with counted(service.pipelines[received.caller.tenant].log.budget, "documents", "uploads"):
        entry = _kept(received, service)
    return JSONResponse(_short(entry), 202, PRIVATE)


@router.get(PATH)
def documents(caller: Caller, service: CurrentService) -> JSONResponse:
    """List the documents that an editor may read, the newest first."""
    inboxes = [inbox for inbox in inboxes_of(service.config, caller.tenant) if inbox.is_open_to(caller)]
    entries = [entry for inbox in inboxes for entry in inbox.entries_for(caller).values()]
    entries.sort(key=lambda entry: (entry.document.current.uploaded_at, entry.page_id), reverse=True)
    return JSONResponse(
        {
            "documents": [entry.payload() for entry in entries],
            "readers": [{"value": name, "label": _label(name)} for name in grantable(caller)],
            "accepts": list(ACCEPTS),
            "max_bytes": service.config.serving.max_document_bytes,
            "sources": [inbox.key for inbox in inboxes],
        },
        headers=PRIVATE,
    )


@router.get(PATH + "/{document_id}")
def document(document_id: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return one document; of one that is gone, what proves it."""
    for inbox in inboxes_of(service.config, caller.tenant):
        if entry := inbox.entries_for(caller).get(document_id):
            return JSONResponse(entry.payload(), headers=PRIVATE)
        if gone := deletion_for(Store(service.config.home), inbox, caller, document_id):
            return JSONResponse(gone.payload(), 410, PRIVATE)
    raise _not_found()


@router.delete(PATH + "/{document_id}")
def delete(document_id: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Take a document away: it is shown as `deleting` until a generation without it is published."""
    service.pipelines[caller.tenant].log.record(Event("document.deleted", caller.user, document_id[:MAX_SUBJECT_CHARS]))
    for inbox in inboxes_of(service.config, caller.tenant):
        try:
            return JSONResponse(_short(inbox.delete(caller, document_id)), 202, PRIVATE)
        except NoSuchDocumentError:
            continue
    raise _not_found()


def _kept(received: Received, service: Service) -> Entry:
    """Return the document that an upload became.

    Raises:
        RequestError: it is not taken, for the reason that it gives.
        AuditUnavailableError: the audit log is required, and cannot be written.
    """
    caller, fields, config = received.caller, received.form.fields, service.config
    inbox = _wanted(received)
    try:
        readers = granted(caller, fields.get("readers"))
    except GrantError as error:
        raise RequestError(403, "READERS", str(error), "readers") from None
    sent = Upload(
        spool=received.spool,
        name=received.form.filename or "",
        readers=readers,
        default_readers=narrowest(caller),
        document_id=fields.get("document_id") or None,
        by=caller.user,
    )
    service.pipelines[caller.tenant].log.record(of_upload(caller.user, inbox.key, sent))
    try:
        return inbox.receive(caller, sent, config.serving.max_documents)
    except KindError as error:
        raise RequestError(415, "MEDIA_TYPE", str(error), "file") from None
    except NoSuchDocumentError:
        raise _not_found() from None
    except TooManyDocumentsError:
        message = f"the inbox holds {config.serving.max_documents} documents, as many as it may; delete some first"
        raise RequestError(409, "TOO_MANY", message) from None
    except OSError as error:
        raise RequestError(507, "NO_SPACE", f"the file could not be kept here: {error.strerror}") from None


def _wanted(received: Received) -> Inbox:
    """Return the inbox that a form names, or that has the document to replace, or the first.

    Raises:
        RequestError: 404, there is none of this name for the caller.
    """
    fields = received.form.fields
    named = [inbox for inbox in received.inboxes if inbox.key == fields.get("source", inbox.key)]
    if not named:
        raise RequestError(404, "NOT_FOUND", "there is no upload inbox of this name for you", "source")
    if identifier := fields.get("document_id"):
        if fault := fault_of(identifier):
            raise RequestError(400, "BAD_REQUEST", f"'document_id': {fault}", "document_id")
        return next((inbox for inbox in named if identifier in inbox.entries_for(received.caller)), named[0])
    return named[0]


def _short(entry: Entry) -> dict[str, Any]:
    return {
        "document_id": entry.document.document_id,
        "version": entry.document.current.version,
        "status": entry.status,
    }


def _label(name: str) -> str:
    kind, _, rest = name.partition(":")
    return _LABELS.get(name) or (f"Group {rest}" if kind == "group" else f"Only {rest}")


def _not_found() -> RequestError:
    return RequestError(404, "NOT_FOUND", "there is no such document for you")


LOOK_S = 0.5
"""Seconds between two looks at the inboxes; each costs two calls of `stat` where nothing changed."""
PING_S = 15.0
RETRY = "retry: 2000\n\n"
PING = ": ping\n\n"


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
    """The response; it takes a slot until it ends."""

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
    """Return the events to send: to a new listener the unfinished documents, later the changes; a vanished one is
    `deleted`."""
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
