"""ASGI middleware before everything else: admission and rate limits, decided by a request's headers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from fastapi import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.access.principals import Principal
from rag_serving.api.auth import AuthError, as_bearer, token_digest
from rag_serving.api.hooks import is_event
from rag_serving.api.limits import Guesses, Rates, Refusals, TenantRates, at_once_of, network_of, want_turn
from rag_serving.api.origins import SESSION, SESSION_PATH, cookie_line, forgery
from rag_serving.api.service import counted_as, known_caller, recognize, seen_of, service_of, session_of, shown_token
from rag_serving.api.wire import PROBES, RequestError, error_response, replayed
from rag_serving.config.serving import Role

HEALTH = frozenset({"/healthz", "/readyz"})


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
            await error_response(scope["path"], error)(scope, replayed(b""), _closing(send))
        elif is_known:
            tenant = _tenant_of(request)
            if tenant and (at_once := at_once_of(service_of(request).config, tenant)):
                want_turn(scope, tenant, counted_as(request), at_once)
            await self._app(scope, receive, _for_session(request, send) if session_of(request) else send)
        elif request.url.path == SESSION_PATH or is_event(request):
            # Signing in: it reads little, and delays guesses itself. An event: its body is signed.
            await self._app(scope, receive, send)
        else:
            await self._app(scope, replayed(b""), _closing(send))

    async def _page(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        """Let a request for the web page in: everyone may have it, and no body is read."""
        scope = request.scope
        if not {"content-length", "transfer-encoding"}.isdisjoint(request.headers.keys()):
            receive, send = replayed(b""), _closing(send)
        wait_s = self._rates.take(
            f"address {address_of(request)}", service_of(request).config.serving.address_limit_per_minute
        )
        try:
            if wait_s:
                raise slower(wait_s)
            service_of(request).authenticator.reach(seen_of(request))
        except RequestError as error:
            await error_response(scope["path"], error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, request: HttpRequest) -> RequestError | None:
        service, address, token = service_of(request), address_of(request), shown_token(request)
        wait_s = self._rates.take(f"address {address}", service.config.serving.address_limit_per_minute)
        if not wait_s and token and service.authenticator.is_guessable(token):
            wait_s = guesses_of(request).wait(address, token_digest(token))
        return slower(wait_s) if wait_s else forgery(request, service.config.serving, session_of(request))

    def _caller_wait(self, request: HttpRequest) -> float:
        config, counted = service_of(request).config, counted_as(request)
        if config.serving.auth == "loopback":
            return 0.0
        if wait_s := self._rates.take(f"token {counted}", config.serving.rate_limit_per_minute):
            return wait_s
        tenant = _tenant_of(request)
        return self._tenant_rates.take(tenant, counted, config.tenants[tenant].rate_limit_per_minute) if tenant else 0.0

    async def _is_known(self, request: HttpRequest) -> bool:
        await recognize(request, as_bearer if request.url.path.startswith("/v1/reports") else None)
        token, authenticator = shown_token(request), service_of(request).authenticator
        digest = token_digest(token) if token and authenticator.is_guessable(token) else ""
        try:
            known_caller(request)
        except AuthError as error:
            if digest and error.status == 401:
                guesses_of(request).wrong(address_of(request))
            return False
        if digest:
            guesses_of(request).right(address_of(request), digest)
        return True


def _tenant_of(request: HttpRequest) -> str:
    """Return the configured tenant of a known caller; empty if all are this machine's own."""
    config = service_of(request).config
    if config.serving.auth == "loopback":
        return ""
    caller = known_caller(request)
    return caller.tenant if caller and caller.tenant in config.tenants else ""


def slower(wait_s: float) -> RequestError:
    """Return the refusal for a caller who must wait so many seconds."""
    message = "too many requests; try again after the seconds in Retry-After"
    return RequestError(429, "RATE_LIMIT", message, retry_after=math.ceil(wait_s))


def guesses_of(request: HttpRequest) -> Guesses:
    """Return the wrong tokens so far, of all addresses."""
    guesses: Guesses = request.app.state.guesses
    return guesses


def address_of(request: HttpRequest) -> str:
    """Return the network under which a client's requests are counted, whoever the caller is."""
    return network_of(request.client.host if request.client else "")


def _for_session(request: HttpRequest, send: Send) -> Send:
    """Extend an active session, and keep responses to a cookie out of caches, unless the route says otherwise: caches
    do so by themselves only for requests with `Authorization` (RFC 9111, section 3.5)."""
    service, session, line = service_of(request), session_of(request), ""
    sessions = service.authenticator.sessions
    if session and request.url.path != SESSION_PATH and (later := sessions.renewed(session)):
        sealed, seconds = sessions.seal(later), sessions.seconds_left(later)
        line = cookie_line(request, service.config.serving, SESSION, sealed, seconds)

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


def _closing(send: Send) -> Send:
    """Close the connection after the response: the rest of the request is not waited for."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await send(message)

    return closing


class CountedResponses:
    """Counts what is answered to callers, refusals included; pages of the web page, which anybody may have, are not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
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
            if not begun:  # its handler runs before all middleware
                _count(request, 500)
            raise


def _count(request: HttpRequest, code: int) -> None:
    service = service_of(request)
    if request.app.state.web.serves(request.method, request.url.path):
        return
    try:
        caller = known_caller(request)
    except AuthError:
        return
    tenant = caller.tenant if caller else request.query_params.get("tenant") or next(iter(service.pipelines), None)
    if tenant and tenant in service.pipelines:
        service.metrics.add_response(tenant, code)


Access = Literal["public"] | Role
"""`public`: nobody is asked who he is. `reader`: every caller is one, whatever else he may do."""

ROUTES: Mapping[str, Access] = {
    "GET /healthz": "public",
    "GET /readyz": "public",
    "GET /v1/session": "public",
    "POST /v1/session": "public",
    "DELETE /v1/session": "public",
    "GET /v1/session/oidc": "public",
    "GET /v1/session/oidc/callback": "public",
    "POST /v1/ask": "reader",
    "POST /v1/search": "reader",
    "POST /v1/check": "reader",
    "POST /proxy/v1/chat/completions": "reader",
    "GET /proxy/v1/models": "reader",
    "POST /chat": "reader",
    "GET /v1/filters": "reader",
    "GET /v1/pages/{page_id:path}": "reader",
    "GET /v1/pages/{page_id:path}/image": "reader",
    "GET /v1/pages/{page_id:path}/layer": "reader",
    "GET /v1/passages/{chunk_id:path}": "reader",
    "GET /v1/receipts/{identifier}": "reader",
    "POST /v1/receipts/{identifier}/share": "reader",
    "DELETE /v1/receipts/{identifier}/share": "reader",
    "POST /v1/receipts/{identifier}/subscription": "reader",
    "DELETE /v1/receipts/{identifier}/subscription": "reader",
    "POST /v1/receipts/{identifier}/verify": "reader",
    "POST /v1/feedback": "reader",
    "POST /v1/sessions": "reader",
    "GET /v1/sessions": "reader",
    "GET /v1/sessions/{identifier}": "reader",
    "DELETE /v1/sessions/{identifier}": "reader",
    "GET /v1/models": "reader",
    "GET /v1/models/{model}": "reader",
    "POST /v1/chat/completions": "reader",
    "POST /v1/responses": "reader",
    "POST /v1/embeddings": "reader",  # and the role of serving.embeddings
    "POST /mcp": "reader",  # its tools that write are for editors
    "GET /openapi.json": "reader",
    "GET /metrics": "reader",
    "POST /v1/documents": "editor",
    "GET /v1/documents": "editor",
    "GET /v1/documents/{document_id}": "editor",
    "DELETE /v1/documents/{document_id}": "editor",
    "GET /v1/events": "editor",
    "POST /v1/hooks/confluence/{source}": "public",  # events that are signed with the source's secret
    "GET /v1/reports": "operator",
    "GET /v1/reports/{name}": "operator",
    "GET /v1/status": "operator",
    "POST /v1/generations/rollback": "operator",
    "POST /v1/phase": "operator",
    "POST /v1/sources": "operator",
    "POST /v1/sources/check": "operator",
    "GET /v1/audit": "auditor",
}
"""The route as it is written, and who may call it; the files of the web page are public."""


async def check_role(request: HttpRequest) -> None:
    """Refuse callers without access to a route. A dependency of all routes; by headers alone, no file is read. Raises
    AuthError: the caller has no access; RequestError: 403, the caller lacks the role."""
    if request.app.state.web.serves(request.method, request.url.path):
        return
    access = ROUTES.get(f"{request.method} {request.scope['route'].path}")
    if access == "public":
        return
    check_caller(known_caller(request), access)


def check_caller(caller: Principal | None, access: Access | None) -> None:
    """Refuse a caller without a role; None is this machine's own reader, who has all. Raises RequestError: 403."""
    if access is None:
        raise RequestError(403, "FORBIDDEN", "this is for nobody: api.admission does not name the route")
    if caller is not None and access not in ("public", "reader") and access not in caller.roles:
        raise RequestError(403, "FORBIDDEN", f"this is for callers with the role {access}")
