"""Common parts of this package's HTTP servers: errors, bounded bodies, bearer tokens, spans of requests."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.tracing.spans import METHOD, ROUTE, STATUS, is_on, server_span, trace_id

BODY_S = 30.0
"""Seconds in which all of a body must come."""
LINGER_S = 1.0
ENDING = "the server is being stopped or started anew; ask again in a few seconds"
"""The message of such a refusal."""
_OPENAI_PATHS = ("/v1/chat/", "/v1/models", "/v1/responses", "/v1/embeddings", "/proxy/v1/")
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_OPENAI_CODES = {
    "UNAUTHENTICATED": "invalid_api_key",
    "TOO_LONG": "context_length_exceeded",
    "TOO_LARGE": "request_too_large",
    "HTTP_404": "not_found",
    "HTTP_429": "rate_limit_exceeded",
    "RATE_LIMIT": "rate_limit_exceeded",
    "BUDGET_EXCEEDED": "insufficient_quota",
}
_MAX_MESSAGE_CHARS = 500
NO_TOKEN = "a bearer token is needed: Authorization: Bearer TOKEN"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class RequestError(Exception):
    """A request that is not served; `status` is the HTTP status."""

    def __init__(
        self, status: int, code: str, message: str, param: str | None = None, retry_after: int | None = None
    ) -> None:
        """`param`: the part of the body that is wrong; `retry_after`: seconds."""
        super().__init__(message)
        self.status, self.code, self.param, self.retry_after = status, code, param, retry_after


def bearer_token(authorization: str | None) -> str:
    """Return the token of an `Authorization` header; empty if it has none."""
    scheme, token = get_authorization_scheme_param(authorization)
    return token.strip() if scheme.lower() == "bearer" else ""


def first_fault(errors: Sequence[Any], skip: int = 0) -> str:
    """Return the location of the first validation error, without so many parts of its path, and its message."""
    where = ".".join(str(part) for part in errors[0]["loc"][skip:] if part != "body")
    return f"{where}: {errors[0]['msg']}" if where else str(errors[0]["msg"])


def is_loopback(host: str) -> bool:
    """Return whether an address or name is this machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES


def error_body(code: str, message: str, **more: Any) -> dict[str, Any]:
    """Return the one shape of an error."""
    return {"error": True, "message": message, "code": code, **more}


def openai_error(status: int, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    """Return an error as clients of OpenAI's API read it: https://platform.openai.com/docs/guides/error-codes."""
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = _OPENAI_CODES.get(code, code.lower())
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(path: str, error: RequestError) -> JSONResponse:
    """Return an error in the shape that clients of a path read, with the headers that belong to it. Parts of a request
    in a message are cut, and never prevent the error from being sent."""
    message, param = _sendable(str(error)), _sendable(error.param) if error.param else error.param
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    more = {} if error.retry_after is None else {"retry_after": error.retry_after}
    if more:
        headers["Retry-After"] = str(error.retry_after)
    is_openai = path.startswith(_OPENAI_PATHS)
    body = (
        openai_error(error.status, error.code, message, param) if is_openai else error_body(error.code, message, **more)
    )
    return JSONResponse(body, error.status, headers)


def _sendable(text: str) -> str:
    cut = text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]}…"
    return cut.encode("utf-8", "replace").decode()


async def refuse_body(error: RequestError, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request whose body was not read to its end, and close its connection. Data that arrives within LINGER_S
    is dropped: closing at once would reset the connection, and a client or proxy that is still sending would get that
    in place of the refusal (nginx: 502)."""
    response = error_response(scope["path"], error)
    response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body"})


def replayed(body: bytes, receive: Receive | None = None) -> Receive:
    """Return a receiver of this body, then of the client's later messages; without `receive` the client has left."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if unread:
            return unread.pop()
        return await receive() if receive else {"type": "http.disconnect"}

    return replay


class BodyLimit:
    """ASGI middleware: bodies are read whole, up to `max_bytes` and within BODY_S, before anything is done with
    them; beyond is 413, later is 408. `lower`: the limits of paths that read less."""

    def __init__(self, app: ASGIApp, max_bytes: int, lower: Mapping[str, int] | None = None) -> None:
        self._app, self._max_bytes = app, max_bytes
        self._lower = lower or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except RequestError as error:
            await refuse_body(error, scope, receive, send)
            return
        if body is None:
            return
        await self._app(scope, replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body, None if the client left. Raises RequestError: it is too long or slow, or has two lengths."""
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            raise RequestError(400, "BAD_REQUEST", "a request has Content-Length or Transfer-Encoding, not both")
        max_bytes = self._lower.get(scope["path"], self._max_bytes)
        too_large = RequestError(413, "TOO_LARGE", f"a request may have {max_bytes} bytes")
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if declared.isdigit() and int(declared[:19]) > max_bytes:
            raise too_large
        body = bytearray()
        message: Message = {"more_body": True}
        try:
            async with asyncio.timeout(BODY_S):
                while message.get("more_body"):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > max_bytes:
                        raise too_large
        except TimeoutError:
            raise RequestError(408, "TOO_SLOW", f"a body must come within {BODY_S:g} seconds") from None
        return bytes(body)


HEADER = "X-Trace-Id"
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_KEY = "citelock.trace_id"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traced:
    """ASGI middleware before all others: a span for each request but probes. Without tracing it does nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_on() or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with server_span(method, Headers(scope=scope), {METHOD: method}) as opened:
            scope[_KEY] = trace_id()

            async def answering(message: Message) -> None:
                if message["type"] == "http.response.start":
                    opened.set({STATUS: message["status"]})
                    if message["status"] >= 500:
                        opened.fail(str(message["status"]))
                    if scope[_KEY]:
                        MutableHeaders(scope=message)[HEADER] = scope[_KEY]
                await send(message)

            try:
                await self._app(scope, receive, answering)
            finally:
                if route := getattr(scope.get("route"), "path", None):
                    opened.set({ROUTE: route})
                    opened.rename(f"{method} {route}")


def trace_of_request(request: Request) -> str | None:
    """Return the id of the trace of a request; None if it has none."""
    found = request.scope.get(_KEY)
    return found if isinstance(found, str) else None
