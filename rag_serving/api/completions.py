"""`POST /v1/chat/completions`: chat clients that speak OpenAI's format ask Citelock instead of a model.

The last message of the user is the question; the answer comes as Markdown with its sources. Streamed or not, nothing is
sent that was not verified. https://platform.openai.com/docs/api-reference/chat

Belongs here: the shapes of that format. Does not belong here: answering (`pipeline`).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from rag_serving.api.service import Caller, RequestError, Shared, checked_text
from rag_serving.api.streams import HEADERS, INTERNAL, KEEP_ALIVE, MEDIA_TYPE, Progress, heard_of
from rag_serving.attempts import Listen
from rag_serving.records import Answer
from rag_serving.render import markdown

MODEL = "citelock"

router = APIRouter()


class Part(BaseModel):
    """A part of a message."""

    type: str
    text: str = ""


class Turn(BaseModel):
    """A message; what else clients send with it is ignored."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None


class StreamOptions(BaseModel):
    """What a stream is to hold."""

    include_usage: bool = False


class Body(BaseModel):
    """The request; sampling parameters and the like are ignored: there is nothing to sample."""

    messages: list[Turn] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None


@router.post("/v1/chat/completions")
def complete(body: Body, caller: Caller, service: Shared) -> Response:
    pipeline = service.pipelines[caller.tenant]
    question = checked_text("messages", _question(body.messages), service.config)

    def answer(listen: Listen | None = None) -> Answer:
        return pipeline.ask(caller, question, listen=listen)

    if body.stream:
        usage = body.stream_options is not None and body.stream_options.include_usage
        chunks = (f"data: {json.dumps(c, ensure_ascii=False)}\n\n" if c else KEEP_ALIVE for c in _chunks(answer, usage))
        return StreamingResponse(_ended(chunks), media_type=MEDIA_TYPE, headers=HEADERS)
    made = answer()
    if made.status == "unavailable":
        return JSONResponse(_error(made.answer), 503)
    choice = {"index": 0, "message": {"role": "assistant", "content": markdown(made)}, "finish_reason": "stop"}
    return JSONResponse(_head("chat.completion", choices=[choice], usage=_usage(made), citelock=made.payload()))


def _question(turns: list[Turn]) -> str:
    """The text of the user's last message."""
    for turn in reversed(turns):
        if turn.role == "user":
            content = turn.content or ""
            return content if isinstance(content, str) else "\n".join(part.text for part in content)
    raise RequestError(400, "BAD_REQUEST", "'messages' has no message of the role 'user'")


def _chunks(answer: Any, usage: bool) -> Iterator[dict[str, Any] | None]:
    """The chunks of a stream; None where there is only a sign of life to send."""
    head = _head("chat.completion.chunk")
    yield _delta(head, {"role": "assistant", "content": ""})
    for item in heard_of(answer):
        if item is None or isinstance(item, Progress):
            yield None
        elif isinstance(item, Exception):
            yield _error(INTERNAL)
        elif item.status == "unavailable":
            yield _error(item.answer)
        else:
            for line in markdown(item).splitlines(keepends=True):
                yield _delta(head, {"content": line})
            yield _delta(head, {}, "stop")
            if usage:
                yield {**head, "choices": [], "usage": _usage(item)}


def _ended(chunks: Iterator[str]) -> Iterator[str]:
    yield from chunks
    yield "data: [DONE]\n\n"


def _head(kind: str, **more: Any) -> dict[str, Any]:
    identifier = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": identifier, "object": kind, "created": int(time.time()), "model": MODEL, **more}


def _delta(head: dict[str, Any], delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _usage(answer: Answer) -> dict[str, int]:
    """The tokens that a model behind the answer took; none where extraction wrote it."""
    read, written = (answer.usage.prompt_tokens, answer.usage.completion_tokens) if answer.usage else (0, 0)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "server_error", "code": "unavailable"}}
