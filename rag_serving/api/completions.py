"""`POST /v1/chat/completions` and `/v1/responses`: the last message of the user is the question. The answer comes as
Markdown with its sources, and as annotations. Nothing is sent that was not verified, and nothing stored: a client sends
the conversation with each request. https://platform.openai.com/docs/api-reference/chat and /responses"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from rag_serving.api.bodies import MAX_MESSAGES, Message, Name, Text
from rag_serving.api.openai import (
    ChatTurn,
    Counter,
    ShownReply,
    TokenCounts,
    answer_to,
    asked_of,
    dialogue_of,
    task_reply,
)
from rag_serving.api.service import CurrentService, RequireCaller, slots_of
from rag_serving.api.streams import KEEP_ALIVE, EventStream, Progress, StreamItem, event
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
    if task := task_reply(turns[-1].text):
        reply = ShownReply(task)
        if not body.stream:
            return _whole(asked.model, reply, counter)
        lines = [_data(chunk) for chunk in _Chunks(asked.model, None).chunks(reply)]
        return Response("".join([*lines, _DONE]), media_type="text/event-stream")
    dialogue = dialogue_of(turns, service, "messages")

    def answer(listen: Listen | None = None) -> Answer:
        made = answer_to(dialogue, asked, service, listen, body.session_id)
        if is_counted:
            counter.count(ShownReply.of(made))
        return made

    is_counted = body.stream and body.stream_options is not None and body.stream_options.include_usage
    if body.stream:
        return EventStream(answer, _Chunks(asked.model, counter if is_counted else None).events_of, slots_of(request))
    return _whole(asked.model, ShownReply.of(answer()), counter)


def _whole(model: str, reply: ShownReply, counter: Counter) -> Response:
    if refusal := reply.refusal:
        raise refusal
    message = {
        "role": "assistant",
        "content": reply.text,
        "refusal": None,
        "annotations": [{"type": "url_citation", "url_citation": each} for each in reply.citations],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = counter.count(reply).chat()
    return JSONResponse(_head("chat.completion", model, choices=[choice], usage=usage, **reply.structured))


@dataclass(frozen=True)
class _Chunks:
    """A stream in OpenAI's format."""

    model: str
    counter: Counter | None  # filled once the answer is complete; None: not requested

    async def events_of(self, items: AsyncIterator[StreamItem]) -> AsyncIterator[str]:
        head = self._head()
        yield _data(_delta(head, {"role": "assistant", "content": ""}))
        async for item in items:
            if item is None or isinstance(item, Progress):
                yield KEEP_ALIVE
            elif isinstance(item, RequestError):
                yield _data(openai_error(item.status, item.code, str(item)))
            else:
                for chunk in self._rest(head, ShownReply.of(item)):
                    yield _data(chunk)
        yield _DONE

    def chunks(self, reply: ShownReply) -> Iterator[dict[str, Any]]:
        """Yield all chunks of a complete reply."""
        head = self._head()
        yield _delta(head, {"role": "assistant", "content": ""})
        yield from self._rest(head, reply)

    def _head(self) -> dict[str, Any]:
        return _head("chat.completion.chunk", self.model, **({"usage": None} if self.counter else {}))

    def _rest(self, head: dict[str, Any], reply: ShownReply) -> Iterator[dict[str, Any]]:
        if refusal := reply.refusal:
            yield openai_error(refusal.status, refusal.code, str(refusal))
            return
        for line in reply.text.splitlines(keepends=True):
            yield _delta(head, {"content": line})
        if reply.citations:
            annotations = [{"type": "url_citation", "url_citation": each} for each in reply.citations]
            yield _delta(head, {"annotations": annotations})
        yield {**_delta(head, {}, "stop"), **reply.structured}
        if self.counter:
            yield {**head, "choices": [], "usage": self.counter.usage.chat()}


_DONE = "data: [DONE]\n\n"


def _data(chunk: dict[str, Any]) -> str:
    return f"data: {for_json(chunk)}\n\n"


def _head(kind: str, model: str, **more: Any) -> dict[str, Any]:
    identifier = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": identifier, "object": kind, "created": int(time.time()), "model": model, **more}


def _delta(head: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}


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
    response = _Response(asked.model)
    if task := task_reply(turns[-1].text):
        reply = ShownReply(task)
        counter.count(reply)
        if not body.stream:
            return JSONResponse(response.completed(reply, counter.usage))
        return Response("".join(response.events(reply, counter.usage)), media_type="text/event-stream")
    dialogue = dialogue_of(turns, service, "input")

    def answer(listen: Listen | None = None) -> Answer:
        made = answer_to(dialogue, asked, service, listen, body.session_id)
        counter.count(ShownReply.of(made))
        return made

    if body.stream:
        return EventStream(answer, lambda items: _stream(response, counter, items), slots_of(request))
    reply = ShownReply.of(answer())
    if refusal := reply.refusal:
        raise refusal
    return JSONResponse(response.completed(reply, counter.usage))


def _turns(body: ResponseBody) -> list[ChatTurn]:
    said = [ChatTurn("user", body.input)] if isinstance(body.input, str) else [
        ChatTurn(item.role, item.text) for item in body.input if item.type == "message"
    ]  # fmt: skip
    if not said:
        raise RequestError(400, "BAD_REQUEST", "'input' has no message", "input")
    return [ChatTurn("system", body.instructions), *said] if body.instructions else said


async def _stream(response: _Response, counter: Counter, items: AsyncIterator[StreamItem]) -> AsyncIterator[str]:
    for began in response.began():
        yield began
    async for item in items:
        if item is None or isinstance(item, Progress):
            yield KEEP_ALIVE
        elif isinstance(item, RequestError):
            yield response.failed(item)
        elif refusal := ShownReply.of(item).refusal:
            yield response.failed(refusal)
        else:
            for told in response.told(ShownReply.of(item), counter.usage):
                yield told


@dataclass
class _Response:
    """One response: its identity, and the number of its next event."""

    model: str
    id: str = field(default_factory=lambda: f"resp_{uuid.uuid4().hex}")
    message_id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))
    _numbers: Iterator[int] = field(default_factory=count)

    def completed(self, reply: ShownReply, usage: TokenCounts) -> dict[str, Any]:
        shape = {**self._shape("completed"), "output": [self._message(reply, "completed")]}
        used = {
            "input_tokens": usage.read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.read + usage.written,
        }
        return {**shape, "usage": used, **reply.structured}

    def events(self, reply: ShownReply, usage: TokenCounts) -> Iterator[str]:
        """Yield all events of a complete reply."""
        yield from self.began()
        yield from self.told(reply, usage)

    def began(self) -> Iterator[str]:
        """Yield the events before the answer."""
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=self._shape("in_progress"))

    def told(self, reply: ShownReply, usage: TokenCounts) -> Iterator[str]:
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
        yield self._event("response.completed", response=self.completed(reply, usage))

    def failed(self, error: RequestError) -> str:
        """Return the event of a response that will not come."""
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
