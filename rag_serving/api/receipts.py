"""Receipts over HTTP: shown, shared, and replayed in front of the reader.

Belongs here: routes. Does not belong here: who may see a receipt and whether it holds (`receipts.proofs`).
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from rag_serving.api.service import Caller, CurrentService

router = APIRouter()


@router.get("/v1/receipts/{identifier}")
def receipt(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    return JSONResponse(service.pipelines[caller.tenant].receipt(caller, identifier))


@router.post("/v1/receipts/{identifier}/share")
def share(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Show a receipt to everybody who may read all of its passages; its asker or an operator may."""
    service.pipelines[caller.tenant].proofs.share(caller, identifier)
    return JSONResponse({"receipt_id": identifier, "shared": True, "path": f"/a/{identifier}"})


@router.delete("/v1/receipts/{identifier}/share", status_code=204)
def unshare(identifier: str, caller: Caller, service: CurrentService) -> Response:
    """Show a receipt to its asker and operators alone again."""
    service.pipelines[caller.tenant].proofs.share(caller, identifier, is_shared=False)
    return Response(status_code=204)


@router.post("/v1/receipts/{identifier}/verify")
def verify(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Replay a receipt for who may see it, as `citelock receipt verify` does."""
    start = time.perf_counter()
    proof = service.pipelines[caller.tenant].proof(identifier, caller)
    return JSONResponse({**proof.payload(), "ms": round((time.perf_counter() - start) * 1000)})
