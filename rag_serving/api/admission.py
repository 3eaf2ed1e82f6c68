"""ASGI middleware before everything else: who may ask, and how often, is decided by a request's headers alone.

Belongs here: refusing before a body is read; which responses count, for the tenant of each caller that is known. Does
not belong here: tokens (`auth`), counting (`rates`), waiting for a turn (`turns`), forged requests (`origins`), bodies
(`wire`), the counter of responses (`telemetry.metrics`).
"""

from __future__ import annotations

import math

from fastapi import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.auth import as_bearer
from rag_serving.api.cookies import SESSION, cookie_line, is_https
from rag_serving.api.credentials import AuthError
from rag_serving.api.origins import SESSION_PATH, forgery
from rag_serving.api.rates import Guesses, Rates, Refusals, TenantRates, network_of
from rag_serving.api.service import counted_as, recognize, seen_of, service_of, session_of, shown_token
from rag_serving.api.static_tokens import token_digest
from rag_serving.api.turns import at_once_of, want_turn
from rag_serving.api.wire import RequestError, error_response

HEALTH = frozenset({"/healthz", "/readyz"})
_REPORTS = "/v1/reports"
_SLOWER = "too many requests; try again after the seconds in Retry-After"


class Admission:
    """Lets requests in whose headers may ask. The body of any other is never read: its route refuses it without."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._rates, self._tenant_rates = Rates(), TenantRates()
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        request = HttpRequest(scope)
        if request.app.state.web.serves(request.method, scope["path"]):
            await self._page(request, receive, send)
            return
        error = self._refused(request)
        is_known = not error and await self._is_known(request)
        if is_known and (wait_s := self._caller_wait(request)):
            await self._refusals.refuse(counted_as(request), wait_s)
            error = slower(wait_s)
        if error:
            await error_response(scope["path"], error)(scope, _nothing(), _closing(send))
        elif is_known:
            await self._let_in(request, receive, send)
        elif request.url.path == SESSION_PATH:  # where one signs in: it reads little, and waits for guesses itself
            await self._app(scope, receive, send)
        else:
            await self._app(scope, _nothing(), _closing(send))

    async def _let_in(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        """Let a known caller in, who waits for a turn once the body is read where the tenant has only so many."""
        tenant = _tenant_of(request)
        if tenant and (at_once := at_once_of(service_of(request).config, tenant)):
            want_turn(request.scope, tenant, counted_as(request), at_once)
        await self._app(request.scope, receive, _for_session(request, send) if session_of(request) else send)

    async def _page(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        """Let a request for the web page in: whoever reaches the server may have it, and no body is read."""
        scope = request.scope
        if not {"content-length", "transfer-encoding"}.isdisjoint(request.headers.keys()):
            receive, send = _nothing(), _closing(send)
        wait_s = self._rates.take(
            f"address {address_of(request)}", service_of(request).config.serving.address_limit_per_minute
        )
        try:
            if wait_s:
                raise slower(wait_s)
            service_of(request).authenticator.reach(seen_of(request, None))
        except RequestError as error:
            await error_response(scope["path"], error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, request: HttpRequest) -> RequestError | None:
        if wait_s := self._wait(request):
            return slower(wait_s)
        return forgery(request, service_of(request).config.serving, session_of(request))

    def _wait(self, request: HttpRequest) -> float:
        """Return the seconds after which this address may ask, or show another token."""
        address = address_of(request)
        wait_s = self._rates.take(f"address {address}", service_of(request).config.serving.address_limit_per_minute)
        token = shown_token(request)
        if wait_s or not token or not service_of(request).authenticator.is_guessable(token):
            return wait_s
        return _guesses(request).wait(address, token_digest(token))

    def _caller_wait(self, request: HttpRequest) -> float:
        """Return the seconds after which a caller may ask again, by its own limit or by its tenant's."""
        config, counted = service_of(request).config, counted_as(request)
        if config.serving.auth == "loopback":
            return 0.0
        if wait_s := self._rates.take(f"token {counted}", config.serving.rate_limit_per_minute):
            return wait_s
        tenant = _tenant_of(request)
        return self._tenant_rates.take(tenant, counted, config.tenants[tenant].rate_limit_per_minute) if tenant else 0.0

    async def _is_known(self, request: HttpRequest) -> bool:
        await recognize(request, as_bearer if request.url.path.startswith(_REPORTS) else None)
        token, authenticator = shown_token(request), service_of(request).authenticator
        digest = token_digest(token) if token and authenticator.is_guessable(token) else ""
        try:
            authenticator.identify(seen_of(request, None))
        except AuthError as error:
            if digest and error.status == 401:
                _guesses(request).wrong(address_of(request))
            return False
        if digest:
            _guesses(request).right(address_of(request), digest)
        return True


def _tenant_of(request: HttpRequest) -> str:
    """Return the configured tenant of a known caller; empty where all are this machine's own."""
    config = service_of(request).config
    if config.serving.auth == "loopback":
        return ""
    caller = service_of(request).authenticator.identify(seen_of(request, None))
    return caller.tenant if caller and caller.tenant in config.tenants else ""


def slower(wait_s: float) -> RequestError:
    """Return what is answered to who must wait so many seconds."""
    return RequestError(429, "RATE_LIMIT", _SLOWER, retry_after=math.ceil(wait_s))


def _guesses(request: HttpRequest) -> Guesses:
    guesses: Guesses = request.app.state.guesses
    return guesses


def address_of(request: HttpRequest) -> str:
    """Return what a client's requests are counted by, whoever asks."""
    return network_of(request.client.host if request.client else "")


def _nothing() -> Receive:
    """Return what receives an empty body instead of the one that is sent."""
    unread: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return unread.pop() if unread else {"type": "http.disconnect"}

    return receive


def _for_session(request: HttpRequest, send: Send) -> Send:
    """Let a session that is used go on, and no cache keep what is answered to a cookie, unless the route says
    otherwise: caches do so by themselves only for requests with `Authorization` (RFC 9111, section 3.5)."""
    line = None if request.url.path == SESSION_PATH else _renewal(request)

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", []), (b"vary", b"Cookie")]
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"private, no-store"))
            if line:
                headers.append((b"set-cookie", line.encode()))
            message = {**message, "headers": headers}
        await send(message)

    return sent


def _renewal(request: HttpRequest) -> str | None:
    """Return the line of the cookie of a session that goes on; None where that is not due."""
    service, session = service_of(request), session_of(request)
    sessions = service.authenticator.sessions
    later = sessions.renewed(session) if session else None
    if later is None:
        return None
    https = is_https(request, service.config.serving)
    return cookie_line(SESSION, sessions.seal(later), sessions.seconds_left(later), https=https)


def _closing(send: Send) -> Send:
    """Close the connection after the response: the rest of the request is not waited for."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await send(message)

    return closing


_UNCOUNTED = frozenset({"/healthz", "/readyz", "/metrics"})


class CountedResponses:
    """Counts what is answered to callers, refusals included; pages of the web page, which anybody may have, are not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNCOUNTED:
            await self._app(scope, receive, send)
            return
        request, begun = HttpRequest(scope), False

        async def answering(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _count(request, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, answering)
        except Exception:
            if not begun:  # what answers it stands before all middleware
                _count(request, 500)
            raise


def _count(request: HttpRequest, code: int) -> None:
    if request.app.state.web.serves(request.method, request.url.path):
        return
    if tenant := _tenant(request):
        service_of(request).metrics.add_response(tenant, code)


def _tenant(request: HttpRequest) -> str | None:
    """Return the tenant of a caller who was recognized; None where nobody was."""
    service = service_of(request)
    try:
        caller = service.authenticator.identify(seen_of(request, None))
    except AuthError:
        return None
    if caller:
        return caller.tenant if caller.tenant in service.pipelines else None
    asked = request.query_params.get("tenant") or next(iter(service.pipelines), None)
    return asked if asked in service.pipelines else None
