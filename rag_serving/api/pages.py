"""`GET /v1/pages/{page_id}`, `/v1/passages/{chunk_id}`, `/v1/filters`: what the caller may read, as it is read.

Belongs here: routes and their headers. Does not belong here: putting a page together (`rag_serving.reading.page`),
pictures of pages.

What is not there and what is not for the caller is one answer, and takes the same work.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from rag_serving.api.bodies import MAX_NAME_CHARS
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.reading.page import read_page
from rag_serving.reading.passage import read_passage
from rag_serving.retrieval.examples import example_questions
from rag_serving.text.characters import fault_of

router = APIRouter()

PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Authorization, Cookie", "X-Content-Type-Options": "nosniff"}
"""Of everything that depends on who asks: no cache keeps it."""


@router.get("/v1/pages/{page_id:path}")
def page(page_id: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return a page's sections in order, with the passages that the caller may read."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        found = read_page(view, checked_id(page_id))
        if found is None:
            raise not_there()
        return JSONResponse(found.payload(), headers=PRIVATE)


@router.get("/v1/passages/{chunk_id:path}")
def passage(chunk_id: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return a passage in blocks, with what stands around it."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        found = read_passage(view, checked_id(chunk_id))
        if found is None:
            raise not_there()
        return JSONResponse(found.payload(), headers=PRIVATE)


@router.get("/v1/filters")
def filters(caller: Caller, service: CurrentService) -> JSONResponse:
    """Return what questions can be narrowed to, and examples of questions, from what the caller may read."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        examples = example_questions(view, service.config.ingestion.drop_labels)
        return JSONResponse({**view.facets().payload(), "examples": examples}, headers=PRIVATE)


def not_there() -> RequestError:
    """Return the one refusal of what is not there or not for the caller."""
    return RequestError(404, "NOT_FOUND", "there is no such page or passage, or not for you")


def checked_id(identifier: str) -> str:
    """Return an id that can be one.

    Raises:
        RequestError: no page or passage can have it.
    """
    if len(identifier) > MAX_NAME_CHARS or fault_of(identifier):
        raise not_there()
    return identifier
