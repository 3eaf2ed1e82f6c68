"""`POST /v1/check`, and `/proxy/v1`: another server's chat completions with a check of each answer below it. The proxy
passes deltas at once; the end of an answer is held back until the check is done. Not checked are tool calls, several
choices, requested JSON, and clients' own prompts (`openai.task_reply`)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from anyio import CancelScope
from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rag_serving.api.bodies import MAX_VALUES, Body, Filters, plain
from rag_serving.api.limits import end_turn
from rag_serving.api.openai import task_reply
from rag_serving.api.service import Caller, CurrentService, slots_of
from rag_serving.api.wire import RequestError, openai_error
from rag_serving.checking.report import evidence
from rag_serving.config.serving import CheckProxy
from rag_serving.deadline import StoppedError, current
from rag_serving.escaping.targets import for_json
from rag_serving.models.http import UpstreamAnswer, UpstreamError, passed_on
from rag_serving.query.filters import parse_filters
from rag_serving.records.answers import Checked
from rag_serving.text.normalization import fault_of

router = APIRouter()

MAX_CHECKED_CHARS = 1_000_000
"""The whole body is bounded besides (`app.MAX_BODY_BYTES`), and the time that it may take."""
MAX_QUOTE_CHARS = 2_000
CheckedText = Annotated[str, Field(min_length=1, max_length=MAX_CHECKED_CHARS), AfterValidator(plain)]


class CitedQuote(BaseModel):
    """A citation of an answer, of which the quote alone is read."""

    quote: Annotated[str, Field(min_length=1, max_length=MAX_QUOTE_CHARS), AfterValidator(plain)]


class CheckBody(Body):
    """POST /v1/check: one of both texts. What an answer cites is looked for again, and not believed."""

    text: CheckedText | None = None
    answer: CheckedText | None = None
    citations: Annotated[list[CitedQuote], Field(max_length=MAX_VALUES)] = Field(default_factory=list)
    filters: Filters | None = None

    @model_validator(mode="after")
    def _has_one(self) -> CheckBody:
        if (self.text is None) == (self.answer is None):
            raise ValueError("one of 'text' and 'answer' is needed")
        return self


@router.post("/v1/check")
def check(body: CheckBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return for each claim whether it is on a page word for word, or a page says otherwise; for each citation whether
    a page has its quote."""
    pipeline, quotes = service.pipelines[caller.tenant], [citation.quote for citation in body.citations]
    checked = pipeline.check(caller, body.text or body.answer or "", parse_filters(body.filters), quotes=quotes)
    return JSONResponse(checked.payload())


NOT_CHECKED = "\n\n---\n\nThis answer could not be checked against the pages."
_END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
_CALLS = {"tool_calls", "function_call", "audio"}
_log = logging.getLogger(__name__)


@router.post("/proxy/v1/chat/completions")
@router.get("/proxy/v1/models")
async def pass_on(request: HttpRequest, caller: Caller, service: CurrentService) -> Response:
    proxy = service.config.serving.check_proxy
    if proxy is None:
        raise RequestError(404, "NOT_FOUND", "there is no proxy here; set serving.check_proxy.upstream")
    check = partial(service.pipelines[caller.tenant].check, caller)
    return _Proxied(request, await request.body(), proxy, check)


class _Proxied(Response):
    """The upstream's answer to one request; it takes a slot, and ends once nobody waits for it."""

    def __init__(self, request: HttpRequest, body: bytes, proxy: CheckProxy, check: Callable[[str], Checked]) -> None:
        super().__init__()
        self._take_slot, self._check, self._is_checked = slots_of(request), check, _is_for_people(_json(body))
        path, self._has_begun = request.url.path.removeprefix("/proxy/v1"), False
        self._asked = partial(passed_on, proxy, request.method, path, request.headers, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        ended, failure = self._take_slot(), RequestError(504, "TIMEOUT", "the answer took too long")
        end_turn(scope)  # from here it waits for another server
        try:
            with CancelScope() as work:
                if deadline := current():
                    deadline.on_cancel(work.cancel)
                async with self._asked() as answer:
                    return await self._pass(answer, send)
        except UpstreamError as error:
            _log.warning("%s: %s", error, error.__cause__ or "")
            failure = RequestError(error.status, "UPSTREAM", str(error))
        finally:
            ended()
            ended()
        if self._has_begun:
            last = _data(openai_error(failure.status, failure.code, str(failure))) + b"data: [DONE]\n\n"
            return await send({"type": "http.response.body", "body": last})
        raise failure

    async def _pass(self, answer: UpstreamAnswer, send: Send) -> None:
        is_stream = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
        whole = b"" if is_stream else await self._whole(b"".join([chunk async for chunk in answer.chunks]))
        shown = {**answer.headers, "cache-control": "no-store", "x-accel-buffering": "no"}
        headers = [(name.encode(), value.encode()) for name, value in shown.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        self._has_begun = is_stream
        if is_stream:
            async for event in self._events(answer.chunks):
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": whole})

    async def _whole(self, body: bytes) -> bytes:
        said, shape = _Reply(), _json(body)
        forged = shape.pop("citelock", None)
        said.add(shape, "message")
        if more := await self._evidence(said):
            shape["choices"][0]["message"]["content"] += more[0]
            shape["citelock"] = more[1]
        return for_json(shape).encode() if more or forged is not None else body

    async def _events(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the events of a stream, and the evidence before those that end it."""
        said, held, data = _Reply(), list[bytes](), b""
        async for event in _cut(chunks):
            data = b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
            shape = _json(data)
            shown = event if shape.pop("citelock", None) is None else _data(shape)  # ours alone has verdicts
            has_words = said.add(shape, "delta")
            if data == b"[DONE]" or (said.is_over and self._is_checked and not has_words):
                held.append(shown)
            else:
                yield shown
            if data == b"[DONE]":
                break
        if self._is_checked and not said.is_over and data != b"[DONE]":
            raise UpstreamError("the upstream's answer broke off; it was not checked")
        if more := await self._evidence(said):
            choice = {"index": 0, "delta": {"content": more[0]}, "logprobs": None, "finish_reason": None}
            yield _data({**said.head, "choices": [choice], "citelock": more[1]})
        for event in held:
            yield event

    async def _evidence(self, said: _Reply) -> tuple[str, dict[str, Any] | None] | None:
        text = "".join(said.words) if self._is_checked and said.is_text else ""
        return await run_in_threadpool(self._checked, text) if text.strip() else None

    def _checked(self, text: str) -> tuple[str, dict[str, Any] | None]:
        try:
            if len(text) <= MAX_CHECKED_CHARS and not fault_of(text):
                checked = self._check(text)
                return evidence(checked, text), checked.payload()
        except (Exception, StoppedError) as error:  # whatever it is, the answer arrives
            _log.error("an upstream's answer could not be checked: %s", type(error).__name__, exc_info=error)
        return NOT_CHECKED, None


@dataclass
class _Reply:
    """The received text of an answer."""

    words: list[str] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)
    is_text: bool = True  # of one choice, and no call of a tool
    is_over: bool = False

    def add(self, shape: dict[str, Any], key: str) -> bool:
        """Add the text of a completion, or of a chunk of one; return whether it has words."""
        before = len(self.words)
        choices = shape.get("choices") or ()
        if "error" in shape or not isinstance(choices, (list, tuple)) or len(choices) > 1:
            self.is_text, self.is_over, choices = False, self.is_over or "error" in shape, ()
        for choice in choices:
            said = choice.get(key) if isinstance(choice, dict) else None
            if not isinstance(said, dict) or choice.get("index") or not _CALLS.isdisjoint(filter(said.get, said)):
                self.is_text = False
                continue
            self.head = {name: shape[name] for name in ("id", "object", "created", "model") if name in shape}
            self.is_over |= choice.get("finish_reason") is not None
            if isinstance(said.get("content"), str) and said["content"]:
                self.words.append(said["content"])
        return len(self.words) > before


async def _cut(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for chunk in chunks:
        at = max(0, len(rest) - 3)
        rest += chunk
        while end := _END_OF_EVENT.search(rest, at):
            yield bytes(rest[: end.end()])
            del rest[: end.end()]
            at = 0
    if rest:
        yield bytes(rest + b"\n\n")


def _is_for_people(asked: dict[str, Any]) -> bool:
    """Return whether a request wants one answer in words and is no client-internal prompt."""
    layout, messages = asked.get("response_format"), asked.get("messages")
    if asked.get("n", 1) not in (1, None) or (isinstance(layout, dict) and layout.get("type", "text") != "text"):
        return False
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) else None
    return not (isinstance(content, str) and task_reply(content))


def _json(content: bytes) -> dict[str, Any]:
    try:
        shape = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return shape if isinstance(shape, dict) else {}


def _data(chunk: dict[str, Any]) -> bytes:
    return f"data: {for_json(chunk)}\n\n".encode()
