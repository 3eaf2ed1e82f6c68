"""Uploaded documents: receiving a form (RFC 7578) piece by piece to the disk, their routes, a stream of changes. A
missing document and one that the caller may not read get the same response. A stream ends with the deadline of its
request, or when the server ends, and its reader connects again, which renews his authentication and access."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.access.principals import EVERYONE, Principal
from rag_serving.api.limits import TakeSlot, end_turn
from rag_serving.api.pages import PRIVATE
from rag_serving.api.service import Caller, CurrentService, Service, caller_of, counted_as, service_of, slots_of
from rag_serving.api.streams import HEADERS, MEDIA_TYPE, event
from rag_serving.api.wire import BODY_S, RequestError, refuse_body, replayed
from rag_serving.artifacts.document_files import Spool
from rag_serving.artifacts.store import Store
from rag_serving.deadline import current
from rag_serving.documents.inbox import (
    UNFINISHED,
    Entry,
    GrantError,
    Inbox,
    NoSuchDocumentError,
    TooManyDocumentsError,
    Upload,
    deletion_for,
    grantable,
    granted,
    inboxes_of,
    most_bytes,
    narrowest,
)
from rag_serving.documents.kinds import ACCEPTS, KindError, kind_of, safe_name
from rag_serving.hooks import MAX_SUBJECT_CHARS, Event, counted, of_upload
from rag_serving.text.normalization import fault_of

router = APIRouter()

MAX_PARTS = 8
MAX_FIELD_BYTES = 20_000
MAX_HEADERS = 8
MAX_HEADER_BYTES = 16_384
FILE = "file"


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a form. Raises RequestError: 415 for anything but a form, 400 if it names no boundary."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise RequestError(415, "MEDIA_TYPE", "send a form: Content-Type: multipart/form-data, with the part `file`")
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise RequestError(400, "BAD_REQUEST", "the form does not say its boundary")
    return boundary


class FileForm:
    """One form with a part `file` and some fields; `feed` it with chunks, and take `pending` in between."""

    def __init__(self, content_type: str, fields: Collection[str]) -> None:
        """`fields`: the names that a form may have beside `file`. Raises RequestError: see `boundary_of`."""
        self.pending = bytearray()  # of the file, not yet taken
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.has_ended = False
        self._allowed = frozenset(fields)
        self._parts = 0
        self._name = ""
        self._header = [bytearray(), bytearray()]
        self._disposition = b""
        self._field = bytearray()
        calls: Any = {
            "on_part_begin": self._part_begins,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._header_ends,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._part_ends,
            "on_end": self._ends,
        }
        bounds = {"max_header_count": MAX_HEADERS, "max_header_size": MAX_HEADER_BYTES}
        try:
            self._parser = MultipartParser(boundary_of(content_type), calls, **bounds)
        except FormParserError as error:
            raise _broken(error) from None

    def feed(self, data: bytes) -> None:
        """Read a piece of the body. Raises RequestError: 400, it is no such form, or past a bound."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _broken(error) from None

    def take(self) -> bytes:
        """Return the part of the file received since the last call."""
        data, self.pending = bytes(self.pending), bytearray()
        return data

    def finish(self) -> None:
        """Say that the body is over. Raises RequestError: 400, the form is not: it was cut off, or has no file."""
        if not self.has_ended:
            raise RequestError(400, "BAD_REQUEST", "the form is cut off: its last boundary is missing")
        if self.filename is None:
            raise RequestError(400, "BAD_REQUEST", "the form has no part `file` with a file name", FILE)

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise RequestError(400, "BAD_REQUEST", f"a form has at most {MAX_PARTS} parts")
        self._name, self._disposition = "", b""
        self._field = bytearray()

    def _header_ends(self) -> None:
        name, value = self._header
        if bytes(name).strip().lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = [bytearray(), bytearray()]

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if kind != b"form-data" or self._name not in self._allowed | {FILE}:
            allowed = ", ".join(f"`{name}`" for name in [FILE, *sorted(self._allowed)])
            raise RequestError(400, "BAD_REQUEST", f"the form has a part that is not known; there are {allowed}")
        if self._name == FILE:
            if self.filename is not None or b"filename" not in options:
                raise RequestError(400, "BAD_REQUEST", "send one file in one part `file`, with its file name", FILE)
            self.filename = options[b"filename"].decode("utf-8", "replace")
        elif self._name in self.fields:
            raise RequestError(400, "BAD_REQUEST", f"the form has `{self._name}` twice", self._name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE:
            self.pending += data[start:end]
            return
        self._field += data[start:end]
        if len(self._field) > MAX_FIELD_BYTES:
            raise RequestError(400, "TOO_LONG", f"`{self._name}` has more than {MAX_FIELD_BYTES} bytes", self._name)

    def _part_ends(self) -> None:
        if self._name != FILE:
            self.fields[self._name] = bytes(self._field).decode("utf-8", "replace")

    def _ends(self) -> None:
        self.has_ended = True


def _broken(error: Exception) -> RequestError:
    return RequestError(400, "BAD_REQUEST", f"the form cannot be read: {error}")


PATH = "/v1/documents"
FIELDS = ("readers", "document_id", "source")
FORM_BYTES = 256 * 1024
"""That a form may have beside its file."""
LEAST_BYTES_PER_S = 16_384
"""A slower sender is not waited for, after BODY_S."""
WRITE_BYTES = 1024**2
"""Written at once; as much of one upload is in memory."""
MOST, MOST_OF_CALLER = 16, 4
"""Uploads that are received at once in a process, of all callers and of one."""
RETRY_AFTER_S = 5


@dataclass(frozen=True)
class Received:
    """A form that was received; its file is in a spool."""

    caller: Principal
    inboxes: list[Inbox]
    spool: Spool
    form: FileForm


class Uploads:
    """Receives `POST /v1/documents` before the rest of the application sees it; that finds `request.state.received`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._under_way = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = HttpRequest(scope)
        caller = counted_as(request)
        try:
            self._begin(caller)
        except RequestError as error:
            await refuse_body(error, scope, receive, send)
            return
        spools: list[Spool] = []
        try:
            received = await self._received(request, receive, spools)
            if received is not None:
                # the application sees no body; the state carries its parts
                headers = [pair for pair in scope["headers"] if pair[0] not in (b"content-length", b"content-type")]
                state = {**scope.get("state", {}), "received": received}
                await self._app({**scope, "headers": headers, "state": state}, replayed(b"", receive), send)
        except RequestError as error:
            await refuse_body(error, scope, receive, send)
        except OSError as error:
            full = RequestError(507, "NO_SPACE", f"the file could not be kept here: {error.strerror}")
            await refuse_body(full, scope, receive, send)
        finally:
            self._under_way[caller] -= 1
            for spool in spools:
                await run_in_threadpool(spool.discard)

    def _begin(self, caller: str) -> None:
        if self._under_way[caller] >= MOST_OF_CALLER:
            message = f"at most {MOST_OF_CALLER} files are received of one caller at once; send the others after them"
            raise RequestError(429, "RATE_LIMIT", message, retry_after=RETRY_AFTER_S)
        if self._under_way.total() >= MOST:
            message = "too many files are being received; try again in a few seconds"
            raise RequestError(503, "UNAVAILABLE", message, retry_after=RETRY_AFTER_S)
        self._under_way[caller] += 1

    async def _received(self, request: HttpRequest, receive: Receive, spools: list[Spool]) -> Received | None:
        """Return the received parts; None if the client left. Raises RequestError: the caller may not, or the body is
        not taken; OSError: the disk does not take it."""
        caller = await run_in_threadpool(caller_of, request, request.query_params.get("tenant"))
        inboxes = await run_in_threadpool(open_inboxes, request, caller)
        most = most_bytes(inboxes)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:19]) > most + FORM_BYTES:
            raise too_large(most)
        form = FileForm(request.headers.get("content-type", ""), FIELDS)
        spool = await run_in_threadpool(inboxes[0].files.spool)
        spools.append(spool)
        is_whole = await _read_body(receive, form, spool, partial(_check_size, spool, form, most))
        if not is_whole:
            return None
        form.finish()
        if not spool.size:
            raise RequestError(400, "EMPTY", "the file is empty", "file")
        return Received(caller, inboxes, spool, form)


def open_inboxes(request: HttpRequest, caller: Principal) -> list[Inbox]:
    """Return the inboxes that an editor may write to. Raises RequestError: 403, he is none; 409, there is no inbox."""
    if "editor" not in caller.roles:
        raise RequestError(403, "FORBIDDEN", "documents are for callers with the role editor")
    inboxes = [inbox for inbox in inboxes_of(service_of(request).config, caller.tenant) if inbox.is_open_to(caller)]
    if not inboxes:
        message = "there is no upload inbox for you: a source of kind `files` without `path` is one"
        raise RequestError(409, "NO_INBOX", message)
    return inboxes


def too_large(most: int) -> RequestError:
    """Return the refusal of a file that is larger than so many bytes."""
    return RequestError(413, "TOO_LARGE", f"a document may have {most} bytes (max_file_bytes of the source)")


async def _read_body(receive: Receive, form: FileForm, spool: Spool, check: Callable[[], None]) -> bool:
    """Read a whole body into form and spool. Return False if the client left. Raises RequestError: it is past a bound,
    or comes too slowly; OSError: the disk does not take it."""
    began, length = time.monotonic(), 0
    message: Message = {"more_body": True}
    while message.get("more_body"):
        late = began + BODY_S + length / LEAST_BYTES_PER_S - time.monotonic()
        try:
            message = await asyncio.wait_for(receive(), min(BODY_S, max(0.0, late)))
        except TimeoutError:
            raise RequestError(408, "TOO_SLOW", "the file comes too slowly; send it again") from None
        if message["type"] == "http.disconnect":
            return False
        body = message.get("body", b"")
        length += len(body)
        form.feed(body)
        check()
        if len(form.pending) >= WRITE_BYTES or not message.get("more_body"):
            await run_in_threadpool(spool.write, form.take())
            check()
    return True


def _check_size(spool: Spool, form: FileForm, most: int) -> None:
    if spool.size + len(form.pending) > most:
        raise too_large(most)
    if spool.size:
        try:
            kind_of(safe_name(form.filename or ""), spool.head)
        except KindError as error:
            raise RequestError(415, "MEDIA_TYPE", str(error), "file") from None


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
    content = {
        "documents": [entry.payload() for entry in entries],
        "readers": [{"value": name, "label": _label(name)} for name in grantable(caller)],
        "accepts": list(ACCEPTS),
        "max_bytes": most_bytes(inboxes),
        "sources": [inbox.key for inbox in inboxes],
    }
    return JSONResponse(content, headers=PRIVATE)


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
    """Return the document that an upload became. Raises RequestError: it is not taken, for the reason that it gives;
    AuditUnavailableError: the audit log is required, and cannot be written."""
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
    """Return the inbox that a form names, or that has the document to replace, or the first. Raises RequestError: 404,
    there is none of this name for the caller."""
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
    return "Everyone" if name == EVERYONE else f"Group {rest}" if kind == "group" else f"Only {rest}"


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
    take_slot = slots_of(request, request.app.state.event_streams)
    drain, deadline = request.app.state.drain, current()

    def is_over() -> bool:
        return bool((drain and drain.is_draining) or (deadline and deadline.left <= 0))

    return DocumentStream(changes(inboxes, caller, is_over), take_slot)


class DocumentStream(StreamingResponse):
    """The response; it takes a slot until it ends."""

    def __init__(self, events: AsyncIterator[str], take_slot: TakeSlot) -> None:
        super().__init__(events, media_type=MEDIA_TYPE, headers=HEADERS)
        self._take_slot = take_slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ended = self._take_slot()
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
    """Return the events to send: first the unfinished documents, later the changes; a vanished one is `deleted`."""
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
