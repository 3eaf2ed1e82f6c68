"""`POST /v1/chat/completions`: a question of a chat client and its verified answer.

The last message of the user is the question; the answer comes as Markdown with its sources, and as annotations.
Streamed or not, nothing is sent that was not verified. https://platform.openai.com/docs/api-reference/chat

Belongs here: the shapes of that format. Does not belong here: the question, and the reply's text (`exchange`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from rag_serving.api.bodies import MAX_MESSAGES, Message, Name
from rag_serving.api.openai.exchange import ChatTurn, Counter, ShownReply, answer_to, dialogue_of, task_reply
from rag_serving.api.openai.models import asked_of
from rag_serving.api.service import CurrentService, RequireCaller, slots_of
from rag_serving.api.streams import KEEP_ALIVE, EventStream, Progress, StreamItem
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
        return _task_stream(asked.model, reply) if body.stream else _whole(asked.model, reply, counter)
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
    """Return a reply in one piece.

    Raises:
        RequestError: nothing can be answered now.
    """
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


def _task_stream(model: str, reply: ShownReply) -> Response:
    """Return a reply to a client's own prompt as a stream."""
    lines = [_data(chunk) for chunk in _Chunks(model, None).chunks(reply)]
    return Response("".join([*lines, _DONE]), media_type="text/event-stream")


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
        """Yield the chunks after the first: text, annotations, the end with the whole answer, usage."""
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
