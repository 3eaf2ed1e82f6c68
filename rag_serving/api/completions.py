"""`POST /v1/chat/completions`: chat clients that speak OpenAI's format ask Citelock instead of a model.

The last message of the user is the question; the answer comes as Markdown with its sources. Streamed or not, nothing is
sent that was not verified. https://platform.openai.com/docs/api-reference/chat

Belongs here: the shapes of that format. Does not belong here: answering (`pipeline`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from rag_serving.answering.citations import markdown
from rag_serving.api.bodies import MAX_MESSAGES, Name, Parts, Text
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.openai_models import caller_for, model_of
from rag_serving.api.service import Known, RequestError, Shared, checked_text, timings_for
from rag_serving.api.streams import HEADERS, INTERNAL, KEEP_ALIVE, MEDIA_TYPE, Progress, heard_of
from rag_serving.api.wire import error_response, openai_error
from rag_serving.escaping.targets import for_json
from rag_serving.models.embedding.token_count import TokenCount
from rag_serving.records import Answer
from rag_serving.tracing import Listen

Count = Callable[[Answer], dict[str, int]]

router = APIRouter()


class Turn(BaseModel):
    """A message; what else clients send with it is ignored."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Text | Parts | None = None

    @property
    def text(self) -> str:
        content = self.content or ""
        return content if isinstance(content, str) else "\n".join(part.text for part in content)


class StreamOptions(BaseModel):
    """What a stream is to hold."""

    include_usage: bool = False


class Body(BaseModel):
    """The request; sampling parameters and the like are ignored: there is nothing to sample."""

    messages: list[Turn] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: Name | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None


@router.post("/v1/chat/completions", dependencies=[Known])
def complete(body: Body, request: HttpRequest, service: Shared, tenant: str | None = None) -> Response:
    caller = caller_for(request, service, tenant, body.model)
    pipeline = service.pipelines[caller.tenant]
    question = checked_text("messages", _question(body.messages), service.config)

    def answer(listen: Listen | None = None) -> Answer:
        return pipeline.ask(caller, question, listen=listen)

    def usage(made: Answer) -> dict[str, int]:
        return _usage(made, body.messages, service.token_count)

    model = model_of(caller.tenant)
    if body.stream:
        is_counted = body.stream_options is not None and body.stream_options.include_usage
        chunks = _chunks(answer, model, usage if is_counted else None)
        return StreamingResponse(_events(chunks), media_type=MEDIA_TYPE, headers=HEADERS)
    made = answer()
    made = replace(made, timings_ms=timings_for(caller, made.timings_ms))
    if made.status == "unavailable":
        return error_response(request.url.path, 503, "UNAVAILABLE", made.answer, retry_after=RETRY_AFTER_S)
    choice = {"index": 0, "message": {"role": "assistant", "content": markdown(made)}, "finish_reason": "stop"}
    return JSONResponse(_head("chat.completion", model, choices=[choice], usage=usage(made), citelock=made.payload()))


def _question(turns: list[Turn]) -> str:
    """The text of the user's last message."""
    for turn in reversed(turns):
        if turn.role == "user":
            return turn.text
    raise RequestError(400, "BAD_REQUEST", "'messages' has no message of the role 'user'", "messages")


def _chunks(answer: Any, model: str, usage: Count | None) -> Iterator[dict[str, Any] | None]:
    """The chunks of a stream, with `usage` where that is given; None where there is only a sign of life to send."""
    head = _head("chat.completion.chunk", model, **({"usage": None} if usage else {}))
    yield _delta(head, {"role": "assistant", "content": ""})
    for item in heard_of(answer):
        if item is None or isinstance(item, Progress):
            yield None
        elif isinstance(item, TimeoutError):
            yield openai_error(504, "TIMEOUT", str(item))
        elif isinstance(item, Exception):
            yield openai_error(500, "INTERNAL", INTERNAL)
        elif item.status == "unavailable":
            yield openai_error(503, "UNAVAILABLE", item.answer)
        else:
            for line in markdown(item).splitlines(keepends=True):
                yield _delta(head, {"content": line})
            yield _delta(head, {}, "stop")
            if usage:
                yield {**head, "choices": [], "usage": usage(item)}


def _events(chunks: Iterator[dict[str, Any] | None]) -> Iterator[str]:
    for chunk in chunks:
        yield f"data: {for_json(chunk)}\n\n" if chunk else KEEP_ALIVE
    yield "data: [DONE]\n\n"


def _head(kind: str, model: str, **more: Any) -> dict[str, Any]:
    identifier = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": identifier, "object": kind, "created": int(time.time()), "model": model, **more}


def _delta(head: dict[str, Any], delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _usage(answer: Answer, turns: list[Turn], count: TokenCount) -> dict[str, int]:
    """The tokens that a model behind the answer took, as its server says; else those of what came in and went out."""
    if answer.usage:
        read, written = answer.usage.prompt_tokens, answer.usage.completion_tokens
    else:
        read, written = count(turn.text for turn in turns), count([markdown(answer)])
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
