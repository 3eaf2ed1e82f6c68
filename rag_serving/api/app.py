"""The HTTP API: shapes, limits, status codes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from rag_serving.access.principals import Principal
from rag_serving.api import check, completions, documents, history, hooks, openai, operations, pages, session
from rag_serving.api.admission import Admission, CountedResponses, check_role
from rag_serving.api.bodies import MAX_SELECTION_CHARS, Body, Filters, Message, Name, Shown, Text
from rag_serving.api.errors import RETRY_AFTER_S, add_error_handlers
from rag_serving.api.limits import ActiveStreams, Deadlines, Guesses, InTurn, Running
from rag_serving.api.origins import SESSION_PATH
from rag_serving.api.process import Drain, ReadInTime
from rag_serving.api.reload import NOT_USED, ConfigFile, Reload, Watch
from rag_serving.api.service import (
    Caller,
    CurrentService,
    RequireCaller,
    Service,
    caller_of,
    checked_text,
    counted_as,
    slots_of,
    timings_for,
)
from rag_serving.api.status import LEAVING, BackgroundWork, Readiness, TenantState, readiness_response
from rag_serving.api.streams import EventStream, events_of
from rag_serving.api.wire import BodyLimit, RequestError, Traced, error_body
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.conversations.sessions import Exchange, Remembered
from rag_serving.conversations.turns import conversation_of
from rag_serving.deadline import call_soon
from rag_serving.indexes.current import BEING_OPENED
from rag_serving.pipeline.locked import NOT_VERIFIED, book_sources
from rag_serving.plugins import ROUTES, loaded, require
from rag_serving.query.filters import parse_filters
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.flags import flags_told
from rag_serving.records.queries import Occasion, QuestionMode
from rag_serving.rendering.cited import CitedPlaces
from rag_serving.rendering.pictures import Pictures
from rag_serving.tracing import Listen
from rag_serving.tracing.exporting import check_tracing, close_tracing, open_tracing
from rag_serving.web.bundle import STATIC, WebPage, read_bundle

router = APIRouter()


MAX_BODY_BYTES = 1_000_000
MAX_RESULTS = 100
READY_S, METRICS_S = 2.0, 5.0
"""Seconds that a probe, or a reader of metrics, waits at most."""


class AskBody(Body):
    """POST /v1/ask."""

    question: Text = Field(min_length=1)
    mode: Literal["corpus", "selected_text", "book-wide", "selected-text"] = "corpus"
    context: Annotated[Text, Field(max_length=MAX_SELECTION_CHARS)] | Shown | None = None
    filters: Filters | None = None
    history: list[Message] | None = Field(None, max_length=100)
    session_id: Name | None = None
    explain: bool = False
    stream: bool = False
    sources: bool = False
    as_of: Name | None = None


class SearchBody(Body):
    """POST /v1/search."""

    query: Text = Field(min_length=1)
    k: int = Field(10, ge=1, le=MAX_RESULTS)
    filters: Filters | None = None
    explain: bool = False


@router.post("/v1/ask")
def ask(body: AskBody, request: HttpRequest, caller: Caller, service: CurrentService) -> Response:
    pipeline = service.pipelines[caller.tenant]
    question = checked_text("question", body.question, service.config)
    filters = parse_filters(body.filters)
    conversation = conversation_of((message.role, message.text) for message in body.history or ())
    selected = selection_of(body.mode, body.context)
    mode: QuestionMode = "book-wide" if body.mode == "book-wide" else "corpus"
    occasion = body.context.occasion(mode) if isinstance(body.context, Shown) else Occasion(mode)
    occasion = replace(occasion, as_of=body.as_of or "")
    if body.as_of and (selected is not None or mode == "book-wide"):
        raise RequestError(400, "BAD_REQUEST", "'as_of' asks all pages: mode corpus", "as_of")
    if mode == "book-wide":
        check_books(pipeline)

    def answer(listen: Listen | None = None) -> Answer:
        remembered = Remembered(pipeline.sessions, caller, body.session_id)
        said = remembered.conversation(conversation)
        if selected is not None:
            made = pipeline.ask_selection(question, selected, body.explain, listen, caller)
        else:
            made = pipeline.ask(caller, question, filters, body.explain, listen, said, occasion)
        return remembered.kept(Exchange(question, made, filters, selected, body.mode))

    if body.stream:
        events = partial(events_of, payload=partial(_content, caller=caller, with_sources=body.sources))
        return EventStream(answer, events, slots_of(request))
    made = answer()
    status, headers = (503, {"Retry-After": str(RETRY_AFTER_S)}) if made.status == "unavailable" else (200, None)
    return JSONResponse(_content(made, caller, body.sources), status, headers)


@router.post("/v1/search")
def search(body: SearchBody, caller: Caller, service: CurrentService) -> JSONResponse:
    query = checked_text("query", body.query, service.config)
    pipeline = service.pipelines[caller.tenant]
    results = pipeline.search(caller, query, body.k, parse_filters(body.filters), body.explain)
    return JSONResponse(replace(results, timings_ms=timings_for(caller, results.timings_ms)).payload())


@router.get("/metrics")
async def metrics(request: HttpRequest, service: CurrentService, tenant: str | None = None) -> Response:
    """Return the metrics of the caller's tenant: figures must not reveal another's questions."""

    def read() -> bytes:
        caller = caller_of(request, tenant)
        return service.exposition(caller.tenant, "operator" in caller.roles)

    try:
        content = await request.app.state.background.run(f"metrics {counted_as(request)} {tenant}", read, METRICS_S)
    except TimeoutError:
        raise RequestError(503, "UNAVAILABLE", "the figures could not be read in time") from None
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False, dependencies=[RequireCaller])
def openapi(request: HttpRequest) -> JSONResponse:
    """Return the API's description. A route of ours, because FastAPI's own requires no authentication."""
    return JSONResponse(request.app.openapi())


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answered by the event loop itself: threads may all be waiting for a generation to open."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: HttpRequest, service: CurrentService) -> JSONResponse:
    """Examined in background threads, which may wait for a first generation to open, or for a disk that hangs."""
    state = request.app.state
    if state.drain and state.drain.is_leaving:
        return JSONResponse({"ready": False, **error_body("NOT_READY", LEAVING)}, 503)

    async def look(tenant: str, pipeline: Pipeline) -> TenantState:
        try:
            problem = await state.background.run(f"readyz {tenant}", pipeline.problem, READY_S)
        except TimeoutError:
            return TenantState(BEING_OPENED, is_opening=True)
        fetching = service.awaited(tenant, has_older=problem is None)
        return TenantState(problem, fetching, still_answers=pipeline.published.is_database_away())

    found = await asyncio.gather(*(look(*each) for each in service.pipelines.items()))
    states = dict(zip(service.pipelines, found, strict=True))
    show, problem = service.config.serving.auth == "loopback", state.reload and state.reload.problem
    return readiness_response(state.readiness.of(states), states, show, problem and (problem if show else NOT_USED))


def create_app(
    config: Config,
    metrics_folder: Path | None = None,
    file: ConfigFile | None = None,
    static: Path = STATIC,
    leaves: Callable[[], bool] = lambda: True,
) -> FastAPI:
    """Return the API over the configured tenants. `metrics_folder`: shared counters of one server's processes. `file`:
    the configuration's file, followed and reread. `static`: the web page's bundle. `leaves`: whether the whole server
    is ending, rather than this process alone. Raises ConfigError: required tokens are unusable, or traces cannot be
    sent."""
    check_tracing(config.tracing)
    pictures = Pictures(config.home)
    cited = CitedPlaces(pictures)
    service = Service.open(config, metrics_folder, cited=cited)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        open_tracing(config.tracing, "citelock")
        for pipeline in service.pipelines.values():
            threading.Thread(target=pipeline.warm, name=f"warm-{pipeline.tenant}", daemon=True).start()
        looks = [app.state.reload.look] if app.state.reload else []
        end_requests = partial(call_soon, asyncio.get_running_loop(), app.state.running.end_all)
        serving = config.serving
        drain = Drain(serving.drain_s, end_requests, lambda s: app.state.service.flush(s), serving.leave_s, leaves)
        drain.watch_signals()
        app.state.drain = drain
        watch = Watch([lambda: app.state.service.follow(), lambda: app.state.service.measure(), *looks])
        watch.start()
        async with app.state.mcp.running() if app.state.mcp else nullcontext():
            yield
        watch.close()
        if app.state.reload:
            app.state.reload.close()
        app.state.service.close()
        cited.close()
        pictures.close()
        close_tracing()
        drain.closed()

    app = FastAPI(
        title="Citelock",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(check_role)],
    )
    app.state.service = service
    app.state.running, app.state.streams = Running(), ActiveStreams()
    app.state.event_streams, app.state.drain = ActiveStreams(), None
    app.state.background, app.state.guesses = BackgroundWork(), Guesses()
    app.state.pictures, app.state.readiness = pictures, Readiness()
    app.state.web = WebPage(read_bundle(static))
    app.state.reload = Reload(app.state, file, exchanges=metrics_folder is None) if file else None
    app.add_middleware(Deadlines, running=app.state.running)
    app.add_middleware(InTurn)
    app.add_middleware(BodyLimit, max_bytes=MAX_BODY_BYTES, lower={SESSION_PATH: session.MAX_SIGN_IN_BYTES})
    app.add_middleware(documents.Uploads)
    app.add_middleware(Admission)
    app.add_middleware(CountedResponses)
    app.add_middleware(Traced)
    app.add_middleware(ReadInTime, unread_s=config.serving.unread_s)  # the last one added runs first
    app.include_router(router)
    for part in (completions, openai, check, session, history, documents, hooks, pages, operations):
        app.include_router(part.router)
    for entry in loaded(ROUTES).values():
        app.include_router(entry.load())
    operations.challenge_browsers(app)
    app.state.mcp = None
    if config.serving.mcp:
        require("mcp", "serving.mcp")
        from rag_serving.api.mcp import add_mcp

        add_mcp(app, file.path if file else None)
    app.include_router(app.state.web.router())
    add_error_handlers(app)
    return app


def _content(answer: Answer, caller: Principal, with_sources: bool = False) -> dict[str, Any]:
    """Return an answer as JSON, with sources in the book clients' shape if requested; unavailable ones are errors."""
    answer = replace(answer, timings_ms=timings_for(caller, answer.timings_ms))
    if answer.status == "unavailable":
        return {**answer.payload(), **error_body("UNAVAILABLE", answer.answer, retry_after=RETRY_AFTER_S)}
    sources = {"sources": [source_payload(citation) for citation in answer.citations]} if with_sources else {}
    return {**answer.payload(), **sources}


BookMode = Literal["book-wide", "selected-text"]


class ChatBody(Body):
    """POST /chat."""

    query: Text = Field(min_length=1)
    mode: BookMode = "book-wide"
    context: Text | None = Field(None, max_length=MAX_SELECTION_CHARS)


@router.post("/chat")
def chat(body: ChatBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Answer from the tenant's books, or from the selected text alone."""
    pipeline = service.pipelines[caller.tenant]
    question = checked_text("query", body.query, service.config)
    selected = selection_of(body.mode, body.context)
    if selected is None:
        check_books(pipeline)
        answer = pipeline.ask(caller, question, occasion=Occasion("book-wide"))
    else:
        answer = pipeline.ask_selection(question, selected, principal=caller)
    if answer.status == "unavailable":
        raise RequestError(503, "RETRIEVAL_UNAVAILABLE", answer.answer, retry_after=RETRY_AFTER_S)
    return JSONResponse({"mode": body.mode, **chat_payload(answer)})


def selection_of(mode: str, context: str | Shown | None) -> str | None:
    """Return the selected text; None for questions about pages. Raises RequestError: the mode needs a text and has
    none, or has one and does not use it."""
    if mode in ("selected-text", "selected_text"):
        if not isinstance(context, str) or not context.strip():
            raise RequestError(400, "BAD_REQUEST", f"mode {mode!r} needs the selected text in 'context'", "context")
        return context
    if isinstance(context, str):
        name = "selected-text" if mode == "book-wide" else "selected_text"
        told = f"'context' is only read in mode {name!r}"
        raise RequestError(400, "BAD_REQUEST", told, "context")
    return None


def check_books(pipeline: Pipeline) -> None:
    """Do nothing if the tenant has a book. Raises RequestError: it has none."""
    if not book_sources(pipeline.config, pipeline.tenant):
        told = "no source of this tenant is a book; give one `profile: book`, or ask without mode 'book-wide'"
        raise RequestError(400, "BAD_REQUEST", told, "mode")


def chat_payload(answer: Answer) -> dict[str, Any]:
    """Return an answer in the book clients' JSON shape: unconfident answers are refusals."""
    is_told = answer.outcome == "told"
    is_withheld = not is_told and answer.status in ("answered", "not_found", "needs_more_context")
    clarification = answer.clarification.payload() if answer.clarification and answer.status == "clarify" else None
    return {
        "answer": NOT_VERIFIED if is_withheld else answer.answer,
        "sources": [source_payload(citation) for citation in answer.citations] if is_told else [],
        "refused": not is_told and answer.status != "clarify",
        "confidence": answer.gates.get("confidence"),
        "clarification": clarification,
        "warnings": [] if is_withheld else [told["text"] for told in flags_told(answer.flags)],
        "receipt_id": answer.receipt_id,
    }


def source_payload(citation: Citation) -> dict[str, Any]:
    """Return a source as JSON: a quote and its place in the book. Outside books, the passage's id, title and heading
    replace the place; in a selected text, the offsets do."""
    if citation.book:
        place = citation.book.payload()
        named = {name: place[name] for name in ("passage_id", "chapter", "section", "page")}
    elif citation.page_id == "selection":
        named = {"passage_id": f"selection:{citation.start}-{citation.end}", "chapter": None, "section": None}
    else:
        section = citation.heading_path[-1] if len(citation.heading_path) > 1 else None
        title = citation.heading_path[0] if citation.heading_path else citation.title
        named = {"passage_id": citation.chunk_id, "chapter": title, "section": section}
    return {"index": citation.index, "page": citation.page, **named, "snippet": citation.quote, "url": citation.url}
