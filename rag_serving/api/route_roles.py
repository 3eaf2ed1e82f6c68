"""Which role each route of the API asks of its caller: one table, and what enforces it.

Belongs here: the table, refusing by it. Does not belong here: who a caller is (`auth`), which pages he may read
(`access.principals`).

A route that is not in the table is refused to everybody: it cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fastapi import Request as HttpRequest

from rag_serving.access.principals import Principal
from rag_serving.api.service import seen_of, service_of
from rag_serving.api.wire import RequestError
from rag_serving.config.oidc import Role

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
    "POST /chat": "reader",
    "GET /v1/filters": "reader",
    "GET /v1/pages/{page_id:path}": "reader",
    "GET /v1/pages/{page_id:path}/image": "reader",
    "GET /v1/pages/{page_id:path}/layer": "reader",
    "GET /v1/passages/{chunk_id:path}": "reader",
    "GET /v1/receipts/{identifier}": "reader",
    "POST /v1/receipts/{identifier}/share": "reader",
    "DELETE /v1/receipts/{identifier}/share": "reader",
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
    "GET /v1/reports": "operator",
    "GET /v1/reports/{name}": "operator",
    "GET /v1/status": "operator",
    "POST /v1/generations/rollback": "operator",
    "POST /v1/phase": "operator",
    "GET /v1/audit": "auditor",
}
"""The route as it is written, and who may call it; the files of the web page are public."""


async def check_role(request: HttpRequest) -> None:
    """Refuse who may not call a route. A dependency of all routes; by headers alone, no file is read.

    Raises:
        AuthError: it is nobody who may ask.
        RequestError: 403, the caller has not the role.
    """
    if request.app.state.web.serves(request.method, request.url.path):
        return
    access = ROUTES.get(f"{request.method} {request.scope['route'].path}")
    if access == "public":
        return
    check_caller(service_of(request).authenticator.identify(seen_of(request, None)), access)


def check_caller(caller: Principal | None, access: Access | None) -> None:
    """Refuse a caller without a role; None is this machine's own reader, who has all.

    Raises:
        RequestError: 403.
    """
    if access is None:
        raise RequestError(403, "FORBIDDEN", "this is for nobody: api.route_roles does not name the route")
    if caller is not None and access not in ("public", "reader") and access not in caller.roles:
        raise RequestError(403, "FORBIDDEN", f"this is for callers with the role {access}")
