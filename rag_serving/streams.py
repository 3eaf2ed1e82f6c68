"""An answer as server-sent events: how far it is, then its verified sentences, then the whole of it.

Nothing is sent of what a model writes before it was verified.

Belongs here: events and their order. Does not belong here: answering (`pipeline`), routes (`app`).
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rag_serving.attempts import Listen
from rag_serving.records import Answer
from rag_serving.wire import error_body

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

INTERNAL = "something went wrong; the server's log says what"

_log = logging.getLogger(__name__)
_KEEP_ALIVE_S = 15.0
# Details of one stage come as fast as a model writes.
_LEAST_PAUSE_S = 0.2
_KEEP_ALIVE = ": waiting\n\n"


def events_of(answer: Callable[[Listen], Answer], payload: Callable[[Answer], dict[str, Any]]) -> Iterator[str]:
    """`progress` for each stage, `sentence` for each verified sentence, then `answer` or, where it fails, `error`.

    The question is answered in a thread of its own, which ends by itself where nobody reads on.
    """
    heard: queue.SimpleQueue[tuple[str, dict[str, Any]] | Answer | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            heard.put(answer(lambda stage, detail: heard.put(("progress", {"stage": stage, "detail": detail}))))
        except BaseException as error:  # whatever it is, it is told to whoever waits
            heard.put(error)

    threading.Thread(target=work, name="stream", daemon=True).start()
    told_at = float("-inf")
    while True:
        try:
            item = heard.get(timeout=_KEEP_ALIVE_S)
        except queue.Empty:
            yield _KEEP_ALIVE
            continue
        if isinstance(item, Answer):
            yield from _told(item, payload(item))
            return
        if isinstance(item, BaseException):
            _log.error("request failed", exc_info=item)
            yield event("error", error_body("INTERNAL", INTERNAL))
            return
        if item[1]["detail"] and time.monotonic() - told_at < _LEAST_PAUSE_S:
            continue
        told_at = time.monotonic()
        yield event(*item)


def event(name: str, data: dict[str, Any]) -> str:
    """One event; JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _told(answer: Answer, payload: dict[str, Any]) -> Iterator[str]:
    if answer.status == "answered":
        for sentence in answer.answer.split("\n\n"):
            yield event("sentence", {"text": sentence})
    yield event("answer", payload)
