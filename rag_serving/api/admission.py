"""ASGI middleware before everything else: who may ask, and how often, is decided by a request's headers alone.

Belongs here: refusing before a body is read. Does not belong here: tokens (`auth`), counting (`rates`), bodies
(`wire`).
"""

from __future__ import annotations

import math

from fastapi import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.auth import AuthError, as_bearer
from rag_serving.api.rates import Guesses, Rates, network_of
from rag_serving.api.service import seen_of, service_of, token_of
from rag_serving.api.wire import RequestError, error_response

HEALTH = frozenset({"/healthz", "/readyz"})
_REPORTS = "/v1/reports"
_SLOWER = "too many requests; try again after the seconds in Retry-After"


class Admission:
    """Lets requests in whose headers may ask. The body of any other is never read: its route refuses it without."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._rates, self._guesses = Rates(), Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        request = HttpRequest(scope)
        wait_s = self._wait(request)
        is_known = not wait_s and self._is_known(request)
        if is_known:
            wait_s = self._caller_wait(request)
        if wait_s:
            error = RequestError(429, "RATE_LIMIT", _SLOWER, retry_after=math.ceil(wait_s))
            await error_response(scope["path"], error)(scope, _nothing(), _closing(send))
        elif is_known:
            await self._app(scope, receive, send)
        else:
            await self._app(scope, _nothing(), _closing(send))

    def _wait(self, request: HttpRequest) -> float:
        """Return the seconds after which this address may ask, or show another token."""
        address = _address(request)
        wait_s = self._rates.take(f"address {address}", service_of(request).config.serving.address_limit_per_minute)
        return wait_s or (self._guesses.wait(address, token) if (token := token_of(request)) else 0.0)

    def _caller_wait(self, request: HttpRequest) -> float:
        serving = service_of(request).config.serving
        if serving.auth == "loopback":
            return 0.0
        return self._rates.take(f"token {token_of(request)}", serving.rate_limit_per_minute)

    def _is_known(self, request: HttpRequest) -> bool:
        seen = seen_of(request, None, as_bearer if request.url.path.startswith(_REPORTS) else None)
        token = token_of(request)
        try:
            service_of(request).authenticator.identify(seen)
        except AuthError as error:
            if token and error.status == 401:
                self._guesses.wrong(_address(request))
            return False
        if token:
            self._guesses.right(_address(request), token)
        return True


def _address(request: HttpRequest) -> str:
    return network_of(request.client.host if request.client else "")


def _nothing() -> Receive:
    """Return what receives an empty body instead of the one that is sent."""
    unread: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return unread.pop() if unread else {"type": "http.disconnect"}

    return receive


def _closing(send: Send) -> Send:
    """Close the connection after the response: the rest of the request is not waited for."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await send(message)

    return closing
