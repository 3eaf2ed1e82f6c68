"""`POST /mcp`: the MCP server behind the same door as the API, with the same callers, limits and deadlines. Each
request is self-contained (protocol 2026-07-28; older clients without a session): any worker answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rag_serving import deadline
from rag_serving.api.service import seen_of, service_of, slots_of
from rag_serving.api.wire import RequestError, error_response
from rag_serving.config.serving import Serving
from rag_serving.deadline import Deadline
from rag_serving.mcp.calls import Caller, Release
from rag_serving.mcp.server import build_server

PATH = "/mcp"


class McpEndpoint:
    """ASGI app: a server of the tools that read, and one of those that write as well, for editors."""

    def __init__(self, config: Path | None) -> None:
        self._managers = {is_editor: _manager(is_editor, config) for is_editor in (False, True)}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests within this block."""
        async with AsyncExitStack() as stack:
            for manager in self._managers.values():
                await stack.enter_async_context(manager.run())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope)
        try:
            _check_origin(request, service_of(request).config.serving)
            seen, tenant = seen_of(request), request.query_params.get("tenant")
            if seen.session:  # by the `Authorization` header alone: cookies belong to the web page
                seen = replace(seen, session=None, recognized=None)
            principal = await anyio.to_thread.run_sync(service_of(request).authenticator.principal, seen, tenant)
        except RequestError as error:
            await error_response(scope["path"], error)(scope, receive, send)
            return
        pipeline, take_slot = service_of(request).pipelines[principal.tenant], slots_of(request)

        def take() -> Release:
            try:
                return take_slot()
            except RequestError as refusal:
                raise ToolError(str(refusal)) from None

        until = deadline.current() or Deadline(pipeline.config.serving.request_timeout_s)
        request.state.mcp = Caller(principal, pipeline, until, take)
        await self._managers["editor" in principal.roles].handle_request(scope, receive, send)


def add_mcp(app: FastAPI, config: Path | None) -> None:
    """Serve MCP at PATH; `app.state.mcp.running()` is part of the app's life. `config`: the file that a build reads."""
    app.state.mcp = McpEndpoint(config)
    app.router.routes.append(Route(PATH, app.state.mcp, methods=["POST"]))


def _manager(is_editor: bool, config: Path | None) -> StreamableHTTPSessionManager:
    """Return the handler of requests of one kind of caller. Host and Origin were checked before."""
    server = build_server(attrgetter("state.mcp"), is_editor, config)
    looked_at = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(stateless_http=True, transport_security=looked_at)  # makes the manager
    return server.session_manager


def _check_origin(request: HttpRequest, serving: Serving) -> None:
    """Refuse web pages of other sites (MCP, Streamable HTTP, Security Warning). Raises RequestError: it is from one."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    shown = urlsplit(origin)
    own = {request.headers.get("host"), urlsplit(serving.public_url).netloc if serving.public_url else None}
    if not shown.netloc or shown.netloc not in own:
        raise RequestError(403, "CROSS_SITE", "this request was sent by a page of another site")
