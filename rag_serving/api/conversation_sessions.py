"""Stored sessions over HTTP: begun, listed, shown and deleted, each by its own user alone.

Belongs here: routes, the shapes of their answers. Does not belong here: keeping sessions (`conversations.sessions`),
who is signed in (`api.session`).
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.ask import Pipeline
from rag_serving.conversations.sessions import SessionStore

router = APIRouter()


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
    """Show a session of the caller's own; answers only where their pages may still be read."""
    pipeline = service.pipelines[caller.tenant]
    turns = _stored(pipeline).shown(caller, identifier)
    if turns is None:
        raise _unknown()
    readable = pipeline.readable(caller, [turn.chunks for turn in turns])
    shown = [turn.payload(turn.may_be_told(may_read)) for turn, may_read in zip(turns, readable, strict=True)]
    return JSONResponse({"session_id": identifier, "turns": shown})


@router.delete("/v1/sessions/{identifier}", status_code=204)
def delete(identifier: str, caller: Caller, service: CurrentService) -> Response:
    """Delete a session of the caller's own, with all that was asked in it."""
    if not _stored(service.pipelines[caller.tenant]).delete(caller, identifier):
        raise _unknown()
    return Response(status_code=204)


def _stored(pipeline: Pipeline) -> SessionStore:
    """Return the sessions of a tenant.

    Raises:
        RequestError: none are stored.
    """
    if pipeline.sessions is None:
        raise RequestError(501, "SESSIONS_OFF", "sessions are not kept here: sessions.store is false")
    return pipeline.sessions


def _unknown() -> RequestError:
    return RequestError(404, "NOT_FOUND", "there is no such session")
