"""What the HTTP servers of this package have in common.

Belongs here: the shape of an error, the limit of a body, which addresses are this machine's own.
Does not belong here: routes (`app`, `reranking.api`).
"""

from __future__ import annotations

import ipaddress
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES


def error_body(code: str, message: str, **more: Any) -> dict[str, Any]:
    """The one shape of an error."""
    return {"error": True, "message": message, "code": code, **more}


class BodyLimit:
    """ASGI middleware: bodies are read whole, up to `max_bytes`, before anything is done with them; beyond is 413."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        message: Message = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                error = error_body("TOO_LARGE", f"a request may have {self._max_bytes} bytes")
                await JSONResponse(error, 413)(scope, receive, send)
                return
        unread: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)
