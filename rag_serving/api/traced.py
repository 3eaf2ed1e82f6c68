"""A request as the span of a trace: it goes on with the trace that its client names, and its answer names it.

Belongs here: the middleware of the API and of the reranker sidecar. Does not belong here: spans within a request
(`tracing.spans`), sending them (`tracing.exporting`).
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_serving.tracing.spans import METHOD, ROUTE, STATUS, is_on, server_span, trace_id

HEADER = "X-Trace-Id"
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_KEY = "citelock.trace_id"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traced:
    """ASGI middleware before all others: a span for each request but probes. Without tracing it does nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_on() or scope["path"] in _PROBES:
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
