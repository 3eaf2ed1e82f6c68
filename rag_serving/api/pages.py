"""`GET /v1/pages/{page_id}`, `/v1/passages/{chunk_id}`, `/v1/filters`: what the caller may read, as it is read. What is
not there and what is not for the caller is one answer, and takes the same work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response

from rag_serving.access.principals import Principal
from rag_serving.api.bodies import MAX_NAME_CHARS
from rag_serving.api.service import Caller, CurrentService, Service
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.store import StoreError
from rag_serving.indexes.originals import Original
from rag_serving.reading import media_of, read_page, read_passage
from rag_serving.rendering.layer import QuoteContext
from rag_serving.rendering.pictures import MissingRendererError, RenderError, RenderersBusyError
from rag_serving.retrieval.examples import example_questions
from rag_serving.text.normalization import fault_of

router = APIRouter()


PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Authorization, Cookie", "X-Content-Type-Options": "nosniff"}
"""Of everything that depends on who asks: no cache keeps it."""
MOST_QUOTE_CHARS = 2_000
RETRY_AFTER_S = 2

_log = logging.getLogger(__name__)

PageNumber = Annotated[int, Query(ge=1, le=100_000)]


@router.get("/v1/passages/{chunk_id:path}")
def passage(chunk_id: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return a passage in blocks, with its context."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        found = read_passage(view, checked_id(chunk_id))
        if found is None:
            raise not_there()
        return JSONResponse(found.payload(), headers=PRIVATE)


@router.get("/v1/filters")
def filters(caller: Caller, service: CurrentService) -> JSONResponse:
    """Return the filters of questions, and example questions, from pages that the caller may read."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        examples = example_questions(view, service.config.ingestion.drop_labels)
        return JSONResponse({**view.facets().payload(), "examples": examples}, headers=PRIVATE)


def not_there() -> RequestError:
    """Return the one refusal of missing and hidden pages."""
    return RequestError(404, "NOT_FOUND", "there is no such page or passage, or not for you")


def checked_id(identifier: str) -> str:
    """Return an id that can be one. Raises RequestError: no page or passage can have it."""
    if len(identifier) > MAX_NAME_CHARS or fault_of(identifier):
        raise not_there()
    return identifier


@router.get("/v1/pages/{page_id:path}/image")
def image(
    page_id: str,
    request: HttpRequest,
    caller: Caller,
    service: CurrentService,
    page: PageNumber = 1,
    scale: Annotated[int, Query(ge=1, le=3)] = 2,
) -> Response:
    """Return a page of a document as a picture."""
    original = _original(service, caller, page_id, page)
    with _refusals():
        content = request.app.state.pictures.image(caller.tenant, caller.user or "", original, page, scale)
    headers = {
        **PRIVATE,
        "Content-Security-Policy": "default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return Response(content, media_type="image/png", headers=headers)


@router.get("/v1/pages/{page_id:path}/layer")
def layer(
    page_id: str,
    request: HttpRequest,
    caller: Caller,
    service: CurrentService,
    page: PageNumber = 1,
    quote: Annotated[str, Query(max_length=MOST_QUOTE_CHARS)] = "",
    before: Annotated[str, Query(max_length=MOST_QUOTE_CHARS)] = "",
    after: Annotated[str, Query(max_length=MOST_QUOTE_CHARS)] = "",
) -> JSONResponse:
    """Return the words on a page with their places, and the rectangles of a quote; `before` and `after` distinguish
    it from the same words elsewhere on the page."""
    original = _original(service, caller, page_id, page)
    with _refusals():
        words = request.app.state.pictures.layer(caller.tenant, caller.user or "", original, page)
    return JSONResponse(words.payload(page, QuoteContext(quote, before, after)), headers=PRIVATE)


@router.get("/v1/pages/{page_id:path}")  # behind its pictures: a page id may contain slashes
def page(page_id: str, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return a page's sections in order, with the passages that the caller may read."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        found = read_page(view, checked_id(page_id))
        if found is None:
            raise not_there()
        return JSONResponse(found.payload(), headers=PRIVATE)


def _original(service: Service, caller: Principal, page_id: str, page: int) -> Original:
    """Return the file of a page whose whole text the caller may read, if it has that many pages."""
    with service.pipelines[caller.tenant].reading(caller) as view:
        original = view.original(checked_id(page_id))
    if original is None or media_of(original) != "pdf" or page > (original.page_count or page):
        raise not_there()
    return original


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn errors of rendering into responses that reveal no internals."""
    try:
        yield
    except RenderError as error:
        raise RequestError(422, "NOT_SHOWN", str(error)) from None
    except RenderersBusyError as error:
        raise RequestError(503, "BUSY", f"{error}; try again", retry_after=RETRY_AFTER_S) from None
    except MissingRendererError as error:
        raise RequestError(501, "NOT_INSTALLED", str(error)) from None
    except StoreError as error:
        _log.error("%s", error)
        raise RequestError(503, "UNAVAILABLE", "the file of this page cannot be read at the moment") from None
