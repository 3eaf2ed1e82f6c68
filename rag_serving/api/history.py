"""Records of answers for their readers: receipts, sessions, feedback."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import Field, StringConstraints

from rag_serving.api.bodies import Body, Name, Text
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.ask import Pipeline
from rag_serving.checking.guarantee import follow
from rag_serving.conversations.sessions import SessionStore
from rag_serving.receipts.receipt import ReceiptError
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


@router.get("/v1/receipts/{identifier}")
def receipt(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    return JSONResponse(service.pipelines[caller.tenant].receipt(caller, identifier))


@router.post("/v1/receipts/{identifier}/share")
def share(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Show a receipt to everybody who may read all of its passages; its asker or an operator may. Who shares it follows
    it, where notices are sent."""
    pipeline = service.pipelines[caller.tenant]
    pipeline.proofs.share(caller, identifier)
    with suppress(ReceiptError):
        follow(pipeline, caller, identifier)
    return JSONResponse({"receipt_id": identifier, "shared": True, "path": f"/a/{identifier}"})


@router.delete("/v1/receipts/{identifier}/share", status_code=204)
def unshare(identifier: str, caller: Caller, service: CurrentService) -> Response:
    """Show a receipt to its asker and operators alone again."""
    service.pipelines[caller.tenant].proofs.share(caller, identifier, is_shared=False)
    return Response(status_code=204)


@router.post("/v1/receipts/{identifier}/subscription")
def subscribe(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Subscribe a caller, who may see the receipt, to changes of the answer."""
    follow(service.pipelines[caller.tenant], caller, identifier)
    return JSONResponse({"receipt_id": identifier, "subscribed": True})


@router.delete("/v1/receipts/{identifier}/subscription", status_code=204)
def unsubscribe(identifier: str, caller: Caller, service: CurrentService) -> Response:
    """End the caller's subscription; the reply is the same if there is none."""
    service.pipelines[caller.tenant].subscriptions.remove(caller, identifier)
    return Response(status_code=204)


@router.post("/v1/receipts/{identifier}/verify")
def verify(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Replay a receipt for who may see it, as `citelock receipt verify` does."""
    start = time.perf_counter()
    proof = service.pipelines[caller.tenant].proof(identifier, caller)
    return JSONResponse({**proof.payload(), "ms": round((time.perf_counter() - start) * 1000)})


@router.post("/v1/sessions")
def begin(caller: Caller, service: CurrentService) -> JSONResponse:
    """Begin a session: questions that name its id are kept in it."""
    store = _stored(service.pipelines[caller.tenant])
    return JSONResponse({"session_id": store.begin(caller)}, 201)


@router.get("/v1/sessions")
def sessions(caller: Caller, service: CurrentService) -> JSONResponse:
    """List the caller's sessions, the newest first."""
    listed = _stored(service.pipelines[caller.tenant]).listed(caller)
    return JSONResponse({"sessions": [line.payload() for line in listed]})


@router.get("/v1/sessions/{identifier}")
def session(identifier: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Show a session of the caller's own; answers only if their pages may still be read."""
    pipeline = service.pipelines[caller.tenant]
    turns = _stored(pipeline).shown(caller, identifier)
    if turns is None:
        raise _unknown()
    readable = pipeline.readable(caller, [turn.chunks for turn in turns])
    shown = [turn.payload(turn.may_be_told(may_read)) for turn, may_read in zip(turns, readable, strict=True)]
    return JSONResponse({"session_id": identifier, "turns": shown})


@router.delete("/v1/sessions/{identifier}", status_code=204)
def delete(identifier: str, caller: Caller, service: CurrentService) -> Response:
    """Delete a session of the caller's own, with all its questions."""
    if not _stored(service.pipelines[caller.tenant]).delete(caller, identifier):
        raise _unknown()
    return Response(status_code=204)


def _stored(pipeline: Pipeline) -> SessionStore:
    """Return the sessions of a tenant. Raises RequestError: none are stored."""
    if pipeline.sessions is None:
        raise RequestError(501, "SESSIONS_OFF", "sessions are not kept here: sessions.store_days is 0")
    return pipeline.sessions


def _unknown() -> RequestError:
    return RequestError(404, "NOT_FOUND", "there is no such session")
