"""Error responses: a status, a code, one line; nothing internal."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rag_serving.api.wire import HEADER, RequestError, error_response, first_fault, trace_of_request
from rag_serving.ask import RETRIEVAL_DOWN, RETRIEVAL_OFF
from rag_serving.checking.guarantee import NoChannelError
from rag_serving.conversations.sessions import SessionError
from rag_serving.degradation.phases import RetrievalOffError
from rag_serving.hooks import AUDIT_DOWN, AuditUnavailableError, BudgetError
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.databases import RemoteError
from rag_serving.query.filters import FilterError
from rag_serving.receipts.receipt import NotTheAskerError, ReceiptError, ReceiptsAwayError
from rag_serving.receipts.subscriptions import TooManyError
from rag_serving.retrieval.hybrid import RetrievalError

RETRY_AFTER_S = 30
INTERNAL = "something went wrong; the server's log says what"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ErrorResponse:
    """The response to errors of a class, and their log level."""

    status: int
    code: str
    message: str | None = None  # None: the error's own
    retry_after: int | None = None
    level: int = logging.NOTSET


_AWAY = partial(ErrorResponse, 503, retry_after=RETRY_AFTER_S)
_REFUSALS: dict[type[Exception], ErrorResponse] = {
    FilterError: ErrorResponse(400, "BAD_REQUEST"),
    ReceiptError: ErrorResponse(404, "NOT_FOUND", "there is no such receipt", level=logging.INFO),
    NotTheAskerError: ErrorResponse(403, "FORBIDDEN", "only who asked, or an operator, may share an answer"),
    NoChannelError: ErrorResponse(501, "NOTICES_OFF"),
    TooManyError: ErrorResponse(409, "TOO_MANY"),
    ReceiptsAwayError: _AWAY("UNAVAILABLE", "receipts cannot be read at the moment", level=logging.ERROR),
    AuditUnavailableError: _AWAY("AUDIT_UNAVAILABLE", AUDIT_DOWN, level=logging.ERROR),
    SessionError: _AWAY("UNAVAILABLE", "sessions cannot be read at the moment", level=logging.ERROR),
    UnpublishedError: _AWAY("UNAVAILABLE"),
    RetrievalOffError: _AWAY("RETRIEVAL_DISABLED", RETRIEVAL_OFF),
    RetrievalError: _AWAY("RETRIEVAL_UNAVAILABLE", RETRIEVAL_DOWN, level=logging.ERROR),
    RemoteError: _AWAY("RETRIEVAL_UNAVAILABLE", RETRIEVAL_DOWN, level=logging.ERROR),
}


def refusal_of(error: Exception, trace: str | None = None) -> RequestError:
    """Return what the caller of a failed request is told; what operators have to know is logged."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, BudgetError):
        return RequestError(429, "BUDGET_EXCEEDED", str(error), retry_after=error.retry_after_s)
    told = next((_REFUSALS[kind] for kind in type(error).__mro__ if kind in _REFUSALS), None)
    if told is None:
        _log.error("request failed%s", f" (trace {trace})" if trace else "", exc_info=error)
        return RequestError(500, "INTERNAL", INTERNAL)
    if told.level:
        _log.log(told.level, "%s", error)
    return RequestError(told.status, told.code, told.message or str(error), retry_after=told.retry_after)


def add_error_handlers(app: FastAPI) -> None:
    """Give every error one shape that reveals no internals."""

    async def expected(request: HttpRequest, error: Exception) -> JSONResponse:
        return error_response(request.url.path, refusal_of(error))

    for kind in (RequestError, BudgetError, *_REFUSALS):
        app.add_exception_handler(kind, expected)

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: HttpRequest, error: RequestValidationError) -> JSONResponse:
        where = ".".join(str(part) for part in error.errors()[0]["loc"] if part != "body")
        refused = RequestError(400, "BAD_REQUEST", first_fault(error.errors()), where or None)
        return error_response(request.url.path, refused)

    @app.exception_handler(HTTPException)
    async def http_error(request: HttpRequest, error: HTTPException) -> JSONResponse:
        refused = RequestError(error.status_code, f"HTTP_{error.status_code}", str(error.detail))
        return error_response(request.url.path, refused)

    @app.exception_handler(Exception)
    async def unexpected(request: HttpRequest, error: Exception) -> JSONResponse:
        trace = trace_of_request(request)
        response = error_response(request.url.path, refusal_of(error, trace))
        if trace:  # it is sent from outside of the middleware that names it elsewhere
            response.headers[HEADER] = trace
        return response
