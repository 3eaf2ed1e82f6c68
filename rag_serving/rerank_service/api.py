"""The sidecar's HTTP API: GET /healthz, /readyz, /metrics, POST /rerank.

Belongs here: shapes, limits, the token, status codes. Does not belong here: the model (`engine`), the process
(`rerank_service.command`).
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import Field, StringConstraints, ValidationError
from starlette.exceptions import HTTPException

from rag_serving.api.bodies import Body
from rag_serving.api.traced import Traced
from rag_serving.api.wire import NO_TOKEN, BodyLimit, RequestError, bearer_token, error_response, first_fault
from rag_serving.config.reranking import RerankService
from rag_serving.rerank_service.batches import ScoringError
from rag_serving.rerank_service.cross_encoder import SHORTEST_SEQ_LEN
from rag_serving.rerank_service.engine import Engine, Meters, Model, NotReadyError
from rag_serving.tracing.names import REQUEST_MODEL, TEXTS
from rag_serving.tracing.spans import span

DEFAULT_TOP_N = 8
DEFAULT_SEQ_LEN = 512

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class RerankCandidate(Body):
    """A candidate."""

    id: str = Field(min_length=1, max_length=500)
    text: str


class RerankBody(Body):
    """POST /rerank."""

    query: Text
    candidates: list[RerankCandidate] = Field(min_length=1)
    top_n: int = Field(DEFAULT_TOP_N, ge=1)
    max_seq_len: int | None = Field(None, ge=SHORTEST_SEQ_LEN)


class Reranking:
    """What the routes share."""

    def __init__(self, settings: RerankService, engine: Engine, meters: Meters, name: str, token: str | None) -> None:
        self.settings = settings
        self.engine = engine
        self.meters = meters
        self.name = name
        self._token = token.encode() if token else None
        self._slots = asyncio.Semaphore(settings.max_concurrent)

    def check_token(self, authorization: str | None) -> None:
        """Raises RequestError unless the bearer token is ours, or none is asked for."""
        if self._token is None:
            return
        if not hmac.compare_digest(bearer_token(authorization).encode(), self._token):
            raise RequestError(401, "UNAUTHENTICATED", NO_TOKEN)

    async def rerank(self, content: bytes) -> dict[str, Any]:
        """Return the answer to a body; RequestError says what is wrong with it, or with us."""
        if self._slots.locked():
            message = f"{self.settings.max_concurrent} requests are under way; try again"
            raise RequestError(429, "BUSY", message, retry_after=1)
        async with self._slots:
            with self.meters.in_progress.track_inprogress():
                body = _parsed(content, self.settings)
                started = time.perf_counter()
                with span("score", {TEXTS: len(body.candidates), REQUEST_MODEL: self.name}):
                    scores = await self._scores(body)
                self.meters.seconds.observe(time.perf_counter() - started)
        ranked = sorted(zip(body.candidates, scores, strict=True), key=lambda pair: -pair[1])
        return {"results": [{"id": passage.id, "score": score} for passage, score in ranked[: body.top_n]]}

    async def _scores(self, body: RerankBody) -> list[float]:
        try:
            most = self.engine.max_seq_len
            length = body.max_seq_len or min(most, DEFAULT_SEQ_LEN)
            if length > most:
                raise RequestError(400, "TOO_LONG", f"'max_seq_len' is {length}, the model reads at most {most} tokens")
            passages = [passage.text for passage in body.candidates]
            async with asyncio.timeout(self.settings.timeout_s):
                future = await run_in_threadpool(self.engine.submit, body.query, passages, length)
                return await asyncio.wrap_future(future)
        except NotReadyError as error:
            raise RequestError(503, "NOT_READY", str(error), retry_after=5) from None
        except ScoringError:
            raise RequestError(
                503, "MODEL_FAILED", "the model failed; the server's log says how", retry_after=5
            ) from None
        except TimeoutError:
            raise RequestError(
                503, "TIMEOUT", f"no scores within {self.settings.timeout_s:g} s", retry_after=5
            ) from None


def create_app(
    settings: RerankService,
    name: str,
    token: str | None,
    open_model: Callable[[], Model],
    on_failure: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Yield the API over one model, which is opened when the server starts; `token` None asks nobody for one."""
    meters = Meters()
    reranking = Reranking(settings, Engine(open_model, settings, meters, on_failure), meters, name, token)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        reranking.engine.start()
        yield
        await run_in_threadpool(reranking.engine.close)

    app = FastAPI(
        title="Citelock reranker", version="1", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.reranking = reranking
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(Traced)
    _add_routes(app, reranking)
    return app


def _add_routes(app: FastAPI, reranking: Reranking) -> None:
    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        state = reranking.engine.state
        return JSONResponse({"status": state, "model": reranking.name}, 503 if state == "failing" else 200)

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        state = reranking.engine.state
        return JSONResponse({"ready": state == "ok", "status": state}, 200 if state == "ok" else 503)

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        reranking.check_token(request.headers.get("authorization"))
        return Response(reranking.meters.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.post("/rerank")
    async def rerank(request: Request) -> JSONResponse:
        reranking.check_token(request.headers.get("authorization"))
        answer = await reranking.rerank(await request.body())
        reranking.meters.requests.labels("200").inc()
        return JSONResponse(answer)

    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> JSONResponse:
        if request.url.path == "/rerank":
            reranking.meters.requests.labels(str(error.status)).inc()
        return error_response(request.url.path, error)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        refused = RequestError(error.status_code, f"HTTP_{error.status_code}", str(error.detail))
        return error_response(request.url.path, refused)


def _parsed(content: bytes, settings: RerankService) -> RerankBody:
    """Return the body, within all limits; RequestError names the field."""
    try:
        body = RerankBody.model_validate_json(content)
    except ValidationError as error:
        fault = first_fault(error.errors(include_input=False, include_url=False))
        raise RequestError(400, "BAD_REQUEST", fault) from None
    longest = max(len(passage.text) for passage in body.candidates)
    for what, value, most in (
        ("candidates", len(body.candidates), settings.max_candidates),
        ("characters in the query", len(body.query), settings.max_query_chars),
        ("characters in a candidate", longest, settings.max_text_chars),
    ):
        if value > most:
            raise RequestError(400, "TOO_LONG", f"{value} {what}, at most {most} are read")
    if len({passage.id for passage in body.candidates}) < len(body.candidates):
        raise RequestError(400, "BAD_REQUEST", "candidates: an id stands twice")
    return body
