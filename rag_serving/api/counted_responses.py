"""ASGI middleware that counts responses by status, for the tenant of each caller that is known.

Belongs here: which responses count. Does not belong here: the counter (`telemetry.metrics`), what a question's answer
was (`telemetry.events`).
"""

from __future__ import annotations

from fastapi import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.api.credentials import AuthError
from rag_serving.api.service import seen_of, service_of

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
