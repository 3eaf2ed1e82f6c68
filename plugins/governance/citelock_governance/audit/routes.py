"""The route of the audit log, for auditors of its tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from citelock_governance.audit.ledger import AuditError, NoAuditLogError
from citelock_governance.audit.verification import Verifier, pages
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.pages import PRIVATE
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.hooks import Event

MAX_ROWS = 1_000

router = APIRouter()


@router.get("/v1/audit")
def audit_rows(
    caller: Caller,
    service: CurrentService,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 100,
) -> JSONResponse:
    """Return rows of the caller's tenant as they are stored, those with higher numbers than `after`, oldest first."""
    config = service.config
    if audit := service.pipelines[caller.tenant].log.audit:  # reading it is an act as well, which nothing may prevent
        audit.note(Event("audit.read", caller.user, details={"after": after, "limit": limit}))
    try:
        with Verifier(config.home, config.telemetry.url).reading() as connection:
            rows = next(pages(connection, caller.tenant, after, limit), [])
    except NoAuditLogError:
        raise RequestError(404, "NOT_FOUND", "no audit log is kept here (audit.mode)") from None
    except AuditError:
        message = "the audit log cannot be read at the moment"
        raise RequestError(503, "UNAVAILABLE", message, retry_after=RETRY_AFTER_S) from None
    following = rows[-1]["sequence"] if len(rows) == limit else None
    return JSONResponse({"rows": [dict(row) for row in rows], "next": following}, headers=PRIVATE)
