"""`POST /v1/feedback`: what a reader says of an answer that he got.

Belongs here: the shape of a verdict, which answers may be judged. Does not belong here: keeping it (`telemetry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field, StringConstraints

from rag_serving.api.bodies import Body, Name, Text
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.telemetry.events import MAX_COMMENT_CHARS, FeedbackVerdict

router = APIRouter()


class FeedbackBody(Body):
    """POST /v1/feedback; `citation` is the number of the one that is meant."""

    receipt_id: Annotated[Name, StringConstraints(min_length=1, max_length=64)]
    verdict: FeedbackVerdict
    citation: int | None = Field(None, ge=1, le=1000)
    comment: Text | None = Field(None, max_length=MAX_COMMENT_CHARS)


@router.post("/v1/feedback", status_code=202)
def feedback(body: FeedbackBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Keep a verdict on an answer of the caller's tenant whose receipt the caller may see."""
    pipeline = service.pipelines[caller.tenant]
    if pipeline.telemetry is None:
        raise RequestError(501, "FEEDBACK_OFF", "feedback is not kept here: telemetry.enabled is false")
    receipt = pipeline.receipt(caller, body.receipt_id)
    if fault := citation_fault(receipt, body.citation):
        raise RequestError(400, "BAD_REQUEST", fault)
    pipeline.telemetry.judged(caller, body.receipt_id, body.verdict, body.citation, body.comment)
    return JSONResponse({"status": "accepted"}, 202)


def citation_fault(receipt: Mapping[str, Any], citation: int | None) -> str | None:
    """Return why a number is none of a citation of the receipt's answer, or None."""
    numbers = sorted({each["index"] for each in receipt["citations"]})
    if citation is None or citation in numbers:
        return None
    return f"citation: the answer has no [{citation}], only {', '.join(f'[{n}]' for n in numbers) or 'none at all'}"
