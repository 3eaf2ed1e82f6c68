"""`POST /v1/chat/completions`: chat clients that speak OpenAI's format ask Citelock instead of a model.

The last message of the user is the question; the answer comes as Markdown with its sources. Streamed or not, nothing is
sent that was not verified. https://platform.openai.com/docs/api-reference/chat

Belongs here: the shapes of that format. Does not belong here: answering (`pipeline`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from rag_serving.answering.citations import markdown
from rag_serving.api.bodies import MAX_MESSAGES, Message, Name
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.openai_models import caller_for, model_of
from rag_serving.api.service import CurrentService, RequireCaller, checked_text, slots_of, timings_for
from rag_serving.api.streams import KEEP_ALIVE, EventStream, Progress, StreamItem
from rag_serving.api.wire import RequestError, error_response, openai_error
from rag_serving.escaping.targets import for_json
from rag_serving.models.embedding.token_count import TokenCount
from rag_serving.records import Answer
from rag_serving.tracing import Listen

router = APIRouter()

# What the last chunk of a stream says of the answer, beside its text.
_OF_STREAMS = frozenset({"status", "outcome", "confidence", "threshold", "flags", "receipt_id"})


class Turn(Message):
    """A message with one of the roles of that format."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]


class StreamOptions(BaseModel):
    """What a stream is to hold."""

    include_usage: bool = False


class Body(BaseModel):
    """The request; sampling parameters and the like are ignored: there is nothing to sample."""

    messages: list[Turn] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: Name | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None


@router.post("/v1/chat/completions", dependencies=[RequireCaller])
def complete(body: Body, request: HttpRequest, service: CurrentService, tenant: str | None = None) -> Response:
    caller = caller_for(request, service, tenant, body.model)
    pipeline = service.pipelines[caller.tenant]
    question = checked_text("messages", _question(body.messages), service.config)

    used: dict[str, int] = {}

    def answer(listen: Listen | None = None) -> Answer:
        made = pipeline.ask(caller, question, listen=listen)
        if is_counted:
            used.update(_usage(made, body.messages, service.token_count))
        return made

    model = model_of(caller.tenant)
    is_counted = not body.stream or (body.stream_options is not None and body.stream_options.include_usage)
    if body.stream:
        chunks = _Chunks(model, used if is_counted else None)
        return EventStream(answer, chunks.events_of, slots_of(request))
    made = answer()
    made = replace(made, timings_ms=timings_for(caller, made.timings_ms))
    if made.status == "unavailable":
        return error_response(
            request.url.path, RequestError(503, "UNAVAILABLE", made.answer, retry_after=RETRY_AFTER_S)
        )
    choice = {"index": 0, "message": {"role": "assistant", "content": markdown(made)}, "finish_reason": "stop"}
    return JSONResponse(_head("chat.completion", model, choices=[choice], usage=used, citelock=made.payload()))


def _question(turns: list[Turn]) -> str:
    """Return the text of the user's last message."""
    for turn in reversed(turns):
        if turn.role == "user":
            return turn.text
    raise RequestError(400, "BAD_REQUEST", "'messages' has no message of the role 'user'", "messages")


@dataclass(frozen=True)
class _Chunks:
    """A stream in OpenAI's format."""

    model: str
    usage: dict[str, int] | None  # filled when the answer is there; None: nobody asked for it

    async def events_of(self, items: AsyncIterator[StreamItem]) -> AsyncIterator[str]:
        head = _head("chat.completion.chunk", self.model, **({} if self.usage is None else {"usage": None}))
        yield _data(_delta(head, {"role": "assistant", "content": ""}))
        async for item in items:
            if item is None or isinstance(item, Progress):
                yield KEEP_ALIVE
            else:
                for chunk in self._last(head, item):
                    yield _data(chunk)
        yield "data: [DONE]\n\n"

    def _last(self, head: dict[str, Any], item: Answer | RequestError) -> Iterator[dict[str, Any]]:
        """Yield the chunks of the answer, or of what kept it from coming."""
        if isinstance(item, RequestError):
            yield openai_error(item.status, item.code, str(item))
        elif item.status == "unavailable":
            yield openai_error(503, "UNAVAILABLE", item.answer)
        else:
            for line in markdown(item).splitlines(keepends=True):
                yield _delta(head, {"content": line})
            told = {name: value for name, value in item.payload().items() if name in _OF_STREAMS}
            yield {**_delta(head, {}, "stop"), "citelock": told}
            if self.usage is not None:
                yield {**head, "choices": [], "usage": self.usage}


def _data(chunk: dict[str, Any]) -> str:
    return f"data: {for_json(chunk)}\n\n"


def _head(kind: str, model: str, **more: Any) -> dict[str, Any]:
    identifier = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": identifier, "object": kind, "created": int(time.time()), "model": model, **more}


def _delta(head: dict[str, Any], delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _usage(answer: Answer, turns: list[Turn], count: TokenCount) -> dict[str, int]:
    """Return the tokens that a model behind the answer took, as its server says; else those of what came in and went
    out."""
    if answer.usage:
        read, written = answer.usage.prompt_tokens, answer.usage.completion_tokens
    else:
        read, written = count(turn.text for turn in turns), count([markdown(answer)])
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
