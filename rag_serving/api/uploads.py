"""ASGI middleware: the body of an upload goes to the disk as it comes, at no time whole into memory.

Belongs here: receiving within bounds of size, time and number, and refusing before a body is read.
Does not belong here: forms (`multipart`), what becomes of a file that was received (`documents`), other bodies
(`wire`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.access.principals import Principal
from rag_serving.api.multipart import FileForm
from rag_serving.api.service import caller_of, counted_as, service_of
from rag_serving.api.wire import BODY_S, RequestError, refuse_body
from rag_serving.artifacts.document_files import Spool
from rag_serving.documents.inbox import Inbox, inboxes_of
from rag_serving.documents.kinds import KindError, kind_of
from rag_serving.documents.names import safe_name

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
                await self._app(_without_body(scope, received), _replayed(receive), send)
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
        """Return the received parts; None if the client left.

        Raises:
            RequestError: the caller may not, or the body is not taken.
            OSError: the disk does not take it.
        """
        caller = await run_in_threadpool(caller_of, request, request.query_params.get("tenant"))
        config = service_of(request).config
        inboxes = await run_in_threadpool(open_inboxes, request, caller)
        most = config.serving.max_document_bytes
        check_length(request, most)
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


def editor_of(caller: Principal) -> Principal:
    """Return the caller if he is an editor.

    Raises:
        RequestError: 403, the same for everybody else.
    """
    if "editor" not in caller.roles:
        raise RequestError(403, "FORBIDDEN", "documents are for callers with the role editor")
    return caller


def open_inboxes(request: HttpRequest, caller: Principal) -> list[Inbox]:
    """Return the inboxes that an editor may write to, at least one.

    Raises:
        RequestError: 403, he is none; 409, there is no inbox for him.
    """
    editor_of(caller)
    inboxes = [inbox for inbox in inboxes_of(service_of(request).config, caller.tenant) if inbox.is_open_to(caller)]
    if not inboxes:
        message = "there is no upload inbox for you: a source of kind `files` without `path` is one"
        raise RequestError(409, "NO_INBOX", message)
    return inboxes


def too_large(most: int) -> RequestError:
    """Return the refusal of a file that is larger than so many bytes."""
    return RequestError(413, "TOO_LARGE", f"a document may have {most} bytes (serving.max_document_bytes)")


def check_length(request: HttpRequest, most: int) -> None:
    """Refuse a body that says it is too long before it is read."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > most + FORM_BYTES:
        raise too_large(most)


async def _read_body(receive: Receive, form: FileForm, spool: Spool, check: Callable[[], None]) -> bool:
    """Read a whole body into form and spool. Return False if the client left.

    Raises:
        RequestError: it is past a bound, or comes too slowly.
        OSError: the disk does not take it.
    """
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
        _check_kind(form, spool)


def _check_kind(form: FileForm, spool: Spool) -> None:
    """Refuse a file of no kind that is read."""
    try:
        kind_of(safe_name(form.filename or ""), spool.head)
    except KindError as error:
        raise RequestError(415, "MEDIA_TYPE", str(error), "file") from None


def _without_body(scope: Scope, received: Received) -> Scope:
    """Return the request as the application sees it: without a body; the state carries its parts."""
    headers = [(name, value) for name, value in scope["headers"] if name not in (b"content-length", b"content-type")]
    return {**scope, "headers": headers, "state": {**scope.get("state", {}), "received": received}}


def _replayed(receive: Receive) -> Receive:
    """Return an empty body, then the client's later messages."""
    unread: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def replay() -> Message:
        return unread.pop() if unread else await receive()

    return replay
