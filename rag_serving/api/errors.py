"""What a request that cannot be served is answered: a status, a code, one line; nothing of the server's inside.

Belongs here: which error has which status. Does not belong here: the shape of an error (`wire`), routes.
"""

from __future__ import annotations

import logging

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rag_serving.api.auth import AuthError
from rag_serving.api.service import RequestError
from rag_serving.api.streams import INTERNAL
from rag_serving.api.wire import error_response
from rag_serving.indexes.current import UnpublishedError
from rag_serving.pipeline import RETRIEVAL_DOWN
from rag_serving.query.filters import FilterError
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError
from rag_serving.retrieval.hybrid import RetrievalError

RETRY_AFTER_S = 30

_log = logging.getLogger(__name__)


def add_error_handlers(app: FastAPI) -> None:
    """Every error in one shape; nothing of the server's inside."""

    @app.exception_handler(AuthError)
    async def auth_error(request: HttpRequest, error: AuthError) -> JSONResponse:
        return error_response(request.url.path, error.status, error.code, str(error))

    @app.exception_handler(RequestError)
    async def request_error(request: HttpRequest, error: RequestError) -> JSONResponse:
        return error_response(request.url.path, error.status, error.code, str(error), error.param)

    @app.exception_handler(FilterError)
    async def filter_error(request: HttpRequest, error: FilterError) -> JSONResponse:
        return error_response(request.url.path, 400, "BAD_REQUEST", str(error))

    @app.exception_handler(ReceiptError)
    async def receipt_error(request: HttpRequest, error: ReceiptError) -> JSONResponse:
        _log.info("%s", error)
        return error_response(request.url.path, 404, "NOT_FOUND", "there is no such receipt")

    @app.exception_handler(ReceiptsAwayError)
    async def receipts_away(request: HttpRequest, error: ReceiptsAwayError) -> JSONResponse:
        _log.error("%s", error)
        message = "receipts cannot be read at the moment"
        return error_response(request.url.path, 503, "UNAVAILABLE", message, retry_after=RETRY_AFTER_S)

    @app.exception_handler(UnpublishedError)
    async def unpublished(request: HttpRequest, error: UnpublishedError) -> JSONResponse:
        return error_response(request.url.path, 503, "UNAVAILABLE", str(error), retry_after=RETRY_AFTER_S)

    @app.exception_handler(RetrievalError)
    async def retrieval_error(request: HttpRequest, error: RetrievalError) -> JSONResponse:
        _log.error("%s", error)
        return error_response(request.url.path, 503, "RETRIEVAL_UNAVAILABLE", RETRIEVAL_DOWN, retry_after=RETRY_AFTER_S)

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: HttpRequest, error: RequestValidationError) -> JSONResponse:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"] if part != "body")
        message = f"{where}: {fault['msg']}" if where else str(fault["msg"])
        return error_response(request.url.path, 400, "BAD_REQUEST", message, where or None)

    @app.exception_handler(HTTPException)
    async def http_error(request: HttpRequest, error: HTTPException) -> JSONResponse:
        return error_response(request.url.path, error.status_code, f"HTTP_{error.status_code}", str(error.detail))

    @app.exception_handler(Exception)
    async def unexpected(request: HttpRequest, error: Exception) -> JSONResponse:
        _log.error("request failed", exc_info=error)
        return error_response(request.url.path, 500, "INTERNAL", INTERNAL)
