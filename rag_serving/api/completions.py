"""`POST /v1/chat/completions` and `/v1/responses`: the last message of the user is the question. The answer comes as
Markdown with its sources, and as annotations. Nothing is sent that was not verified, and nothing stored: a client sends
the conversation with each request. https://platform.openai.com/docs/api-reference/chat and /responses"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from rag_serving.api.bodies import MAX_MESSAGES, Message, Name, Text
from rag_serving.api.openai import (
    ChatTurn,
    ChosenModel,
    Counter,
    ShownReply,
    answer_to,
    asked_of,
    dialogue_of,
    task_reply,
)
from rag_serving.api.service import CurrentService, RequireCaller, service_of, slots_of
from rag_serving.api.streams import KEEP_ALIVE, MEDIA_TYPE, EventStream, Progress, StreamItem, event
from rag_serving.api.wire import RequestError, openai_error
from rag_serving.escaping.targets import for_json
from rag_serving.records.answers import Answer
from rag_serving.tracing import Listen

router = APIRouter()


class ChatMessage(Message):
    """A message with one of the roles of that format."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]


class StreamOptions(BaseModel):
    """What a stream is to hold."""

    include_usage: bool = False


class CompletionBody(BaseModel):
    """The request; sampling parameters and the like are ignored: there is nothing to sample."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: Name | None = None
    session_id: Name | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None


@router.post("/v1/chat/completions", dependencies=[RequireCaller])
def complete(
    body: CompletionBody, request: HttpRequest, service: CurrentService, tenant: str | None = None
) -> Response:
    asked = asked_of(request, service, tenant, body.model)
    turns = [ChatTurn(message.role, message.text) for message in body.messages]
    counter = Counter([turn.text for turn in turns], service.token_count)
    if body.stream:
        counter.is_told = body.stream_options is not None and body.stream_options.include_usage
    return _answered(_Completion(asked.model, counter), "messages", turns, asked, body, request)


@dataclass(frozen=True)
class _Completion:
    """One completion."""

    model: str
    counter: Counter
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, reply: ShownReply) -> dict[str, Any]:
        message = {"role": "assistant", "content": reply.text, "refusal": None, "annotations": _cited(reply)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = self.counter.usage.chat()
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage, **reply.structured}

    def began(self) -> Iterator[str]:
        yield _data(self._chunk({"role": "assistant", "content": ""}))

    def told(self, reply: ShownReply) -> Iterator[str]:
        for line in reply.text.splitlines(keepends=True):
            yield _data(self._chunk({"content": line}))
        if reply.citations:
            yield _data(self._chunk({"annotations": _cited(reply)}))
        yield _data({**self._chunk({}, "stop"), **reply.structured})
        if self.counter.is_told:
            usage = self.counter.usage.chat()
            yield _data({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})
        yield _DONE

    def failed(self, error: RequestError) -> str:
        return _data(openai_error(error.status, error.code, str(error))) + _DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self.counter.is_told else {}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **usage}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


_DONE = "data: [DONE]\n\n"


def _data(chunk: dict[str, Any]) -> str:
    return f"data: {for_json(chunk)}\n\n"


def _cited(reply: ShownReply) -> list[dict[str, Any]]:
    return [{"type": "url_citation", "url_citation": citation} for citation in reply.citations]


class Item(Message):
    """A message of the conversation; items of other types are not read."""

    type: Name = "message"


class ResponseBody(BaseModel):
    """The request; what is not named here is ignored: there is nothing to sample, and no tool to call."""

    input: Text | Annotated[list[Item], Field(min_length=1, max_length=MAX_MESSAGES)]
    model: Name | None = None
    instructions: Text | None = None
    previous_response_id: Name | None = None
    session_id: Name | None = None
    stream: bool = False


@router.post("/v1/responses", dependencies=[RequireCaller])
def respond(body: ResponseBody, request: HttpRequest, service: CurrentService, tenant: str | None = None) -> Response:
    asked = asked_of(request, service, tenant, body.model)
    if body.previous_response_id:
        message = "responses are not stored here: send the conversation in 'input'"
        raise RequestError(400, "BAD_REQUEST", message, "previous_response_id")
    turns = _turns(body)
    counter = Counter([turn.text for turn in turns], service.token_count)
    return _answered(_Response(asked.model, counter), "input", turns, asked, body, request)


def _turns(body: ResponseBody) -> list[ChatTurn]:
    said = [ChatTurn("user", body.input)] if isinstance(body.input, str) else [
        ChatTurn(item.role, item.text) for item in body.input if item.type == "message"
    ]  # fmt: skip
    if not said:
        raise RequestError(400, "BAD_REQUEST", "'input' has no message", "input")
    return [ChatTurn("system", body.instructions), *said] if body.instructions else said


@dataclass(frozen=True)
class _Response:
    """One response: its identity, and the number of its next event."""

    model: str
    counter: Counter
    id: str = field(default_factory=lambda: f"resp_{uuid.uuid4().hex}")
    message_id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))
    _numbers: Iterator[int] = field(default_factory=count)

    def whole(self, reply: ShownReply) -> dict[str, Any]:
        usage = self.counter.usage
        used = {
            "input_tokens": usage.read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.read + usage.written,
        }
        output = [self._message(reply, "completed")]
        return {**self._shape("completed"), "output": output, "usage": used, **reply.structured}

    def began(self) -> Iterator[str]:
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=self._shape("in_progress"))

    def told(self, reply: ShownReply) -> Iterator[str]:
        """Yield the message, then the whole response."""
        at = {"item_id": self.message_id, "output_index": 0, "content_index": 0}
        empty = {**self._message(reply, "in_progress"), "content": []}
        yield self._event("response.output_item.added", output_index=0, item=empty)
        yield self._event("response.content_part.added", **at, part=_part("", []))
        for line in reply.text.splitlines(keepends=True):
            yield self._event("response.output_text.delta", **at, delta=line, logprobs=[])
        annotations = _annotations(reply)
        for index, annotation in enumerate(annotations):
            added = {"annotation_index": index, "annotation": annotation}
            yield self._event("response.output_text.annotation.added", **at, **added)
        yield self._event("response.output_text.done", **at, text=reply.text, logprobs=[])
        yield self._event("response.content_part.done", **at, part=_part(reply.text, annotations))
        yield self._event("response.output_item.done", output_index=0, item=self._message(reply, "completed"))
        yield self._event("response.completed", response=self.whole(reply))

    def failed(self, error: RequestError) -> str:
        shape = openai_error(error.status, error.code, str(error))["error"]
        response = {**self._shape("failed"), "error": {"code": shape["code"], "message": shape["message"]}}
        return self._event("response.failed", response=response)

    def _event(self, name: str, **data: Any) -> str:
        return event(name, {"type": name, "sequence_number": next(self._numbers), **data})

    def _message(self, reply: ShownReply, status: str) -> dict[str, Any]:
        content = [_part(reply.text, _annotations(reply))]
        return {"id": self.message_id, "type": "message", "status": status, "role": "assistant", "content": content}

    def _shape(self, status: str) -> dict[str, Any]:
        made = {"id": self.id, "created_at": self.created_at, "status": status, "model": self.model}
        unset = ("error", "incomplete_details", "instructions", "previous_response_id", "temperature", "top_p", "usage")
        same = {"object": "response", "output": [], "metadata": {}, "tools": [], "tool_choice": "none", "store": False}
        text = {"text": {"format": {"type": "text"}}, "truncation": "disabled", "parallel_tool_calls": False}
        return {**made, **same, **text, **dict.fromkeys(unset)}


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _annotations(reply: ShownReply) -> list[dict[str, Any]]:
    return [{"type": "url_citation", **citation} for citation in reply.citations]


def _answered(
    shape: _Completion | _Response,
    messages: str,
    turns: Sequence[ChatTurn],
    asked: ChosenModel,
    body: CompletionBody | ResponseBody,
    request: HttpRequest,
) -> Response:
    """Return the answer to a conversation, whole or as a stream. `messages`: the field of the body that has it."""
    service = service_of(request)
    if task := task_reply(turns[-1].text):
        reply = ShownReply(task)
        shape.counter.count(reply)
        if not body.stream:
            return JSONResponse(shape.whole(reply))
        return Response("".join([*shape.began(), *shape.told(reply)]), media_type=MEDIA_TYPE)
    dialogue = dialogue_of(turns, service, messages)

    def answer(listen: Listen | None = None) -> Answer:
        made = answer_to(dialogue, asked, service, listen, body.session_id)
        shape.counter.count(ShownReply.of(made))
        return made

    if body.stream:
        return EventStream(answer, partial(_streamed, shape), slots_of(request))
    reply = ShownReply.of(answer())
    if refusal := reply.refusal:
        raise refusal
    return JSONResponse(shape.whole(reply))


async def _streamed(shape: _Completion | _Response, items: AsyncIterator[StreamItem]) -> AsyncIterator[str]:
    for began in shape.began():
        yield began
    async for item in items:
        if item is None or isinstance(item, Progress):
            yield KEEP_ALIVE
        elif isinstance(item, RequestError):
            yield shape.failed(item)
        elif refusal := (reply := ShownReply.of(item)).refusal:
            yield shape.failed(refusal)
        else:
            for told in shape.told(reply):
                yield told
