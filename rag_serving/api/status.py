"""`GET /v1/status`: the state of a tenant, for its operators.

Belongs here: the route. Does not belong here: what they are told (`rag_serving.api.tenant_status`), who may ask
(`route_roles`).
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse

from rag_serving.api.reload import NOT_USED
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.tenant_status import status_of

router = APIRouter()


@router.get("/v1/status")
def status(request: HttpRequest, caller: Caller, service: CurrentService) -> JSONResponse:
    """Tell an operator what is published and what does not work; `streams` are those of the tenant in
    this process."""
    told, reload = status_of(service.pipelines[caller.tenant], service.behind(caller.tenant)), request.app.state.reload
    if reload:
        restart = [f"restart the server for {key} of the configuration file" for key in reload.waiting]
        told["degraded"] += [*([NOT_USED] if reload.problem else []), *restart]
    return JSONResponse(
        {**told, "streams": request.app.state.streams.of_tenant(caller.tenant)}, headers={"Cache-Control": "no-store"}
    )
