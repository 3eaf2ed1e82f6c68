"""An answer as server-sent events: how far it is, then its verified sentences, then the whole of it.

Nothing is sent of what a model writes before it was verified.

Belongs here: events and their order. Does not belong here: answering (`pipeline`), routes (`api.app`).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from rag_serving.api.wire import error_body
from rag_serving.deadline import StoppedError
from rag_serving.escaping.targets import for_json
from rag_serving.records import Answer
from rag_serving.tracing import Listen

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

INTERNAL = "something went wrong; the server's log says what"

_log = logging.getLogger(__name__)
_KEEP_ALIVE_S = 15.0
# Details of one stage come as fast as a model writes.
_LEAST_PAUSE_S = 0.2
KEEP_ALIVE = ": waiting\n\n"


@dataclass(frozen=True)
class Progress:
    """A stage that began, or goes on."""

    stage: str
    detail: str


Heard = Progress | Answer | Exception | None
"""What is heard while a question is answered; None: nothing for a while."""


def events_of(answer: Callable[[Listen], Answer], payload: Callable[[Answer], dict[str, Any]]) -> Iterator[str]:
    """`progress` for each stage, `sentence` for each verified sentence, then `answer` or, where it fails, `error`."""
    for item in heard_of(answer):
        if item is None:
            yield KEEP_ALIVE
        elif isinstance(item, Progress):
            yield event("progress", vars(item))
        elif isinstance(item, Answer):
            yield from (event("sentence", {"text": sentence}) for sentence in sentences_of(item))
            yield event("answer", payload(item))
        elif isinstance(item, TimeoutError):
            yield event("error", error_body("TIMEOUT", str(item)))
        else:
            yield event("error", error_body("INTERNAL", INTERNAL))


def heard_of(answer: Callable[[Listen], Answer]) -> Iterator[Heard]:
    """What is heard of a question until it is answered, or fails.

    It is answered in a thread of its own, which ends by itself where nobody listens any more.
    """
    heard: queue.SimpleQueue[Progress | Answer | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            heard.put(answer(lambda stage, detail: heard.put(Progress(stage, detail))))
        except StoppedError:
            heard.put(TimeoutError("the answer took too long"))
        except Exception as error:  # whatever it is, whoever waits must be told
            _log.error("request failed", exc_info=error)
            heard.put(error)

    threading.Thread(target=copy_context().run, args=(work,), name="stream", daemon=True).start()
    item: Heard = None
    told_at = float("-inf")
    while item is None or isinstance(item, Progress):
        try:
            item = heard.get(timeout=_KEEP_ALIVE_S)
        except queue.Empty:
            item = None
        if isinstance(item, Progress) and item.detail and time.monotonic() - told_at < _LEAST_PAUSE_S:
            continue
        told_at = time.monotonic()
        yield item


def sentences_of(answer: Answer) -> list[str]:
    """The verified sentences of an answer with their citations; none of any other status."""
    return answer.answer.split("\n\n") if answer.status == "answered" else []


def event(name: str, data: dict[str, Any]) -> str:
    """One event; JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {for_json(data)}\n\n"
