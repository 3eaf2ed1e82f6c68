"""What a stand-in Confluence is asked, what it answers, and how it goes wrong by script.

Belongs here: requests, answers, and faults that spoil answers.
Does not belong here: serving them (`stand_in_confluence`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode


@dataclass(frozen=True)
class Request:
    """What a client asked: the path below the context, and the query."""

    path: str
    params: dict[str, str]
    query: str = ""

    @property
    def with_body(self) -> bool:
        return "body.storage" in self.params.get("expand", "") or self.params.get("body-format") == "storage"

    @property
    def start(self) -> int:
        return int(self.params.get("start", "0"))


@dataclass(frozen=True)
class Answer:
    """What it gets."""

    status: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: object, status: int = 200) -> Answer:
        return cls(status, json.dumps(value).encode())


@dataclass
class Fault:
    """Something that goes wrong for requests that match, so many times (None: always)."""

    spoil: Callable[[Request, Answer], Answer]
    times: int | None = 1
    matches: Callable[[Request], bool] = lambda request: True  # noqa: ARG005


def throttled(times: int, retry_after: str | None = None, status: int = 429, **spent: str) -> Fault:
    """Too many requests; further headers by keyword (`X_RateLimit_Remaining="0"`)."""
    headers = {name.replace("_", "-"): value for name, value in spent.items()}
    headers.update({"Retry-After": retry_after} if retry_after is not None else {})
    return Fault(lambda *_: Answer(status, b"{}", headers), times)


def broken(times: int | None, status: int = 500, path: str = "") -> Fault:
    """Server errors; `path` narrows to requests whose path contains it."""
    return Fault(lambda *_: Answer(status, b"<h1>Oops</h1>"), times, lambda request: path in request.path)


def cut(times: int) -> Fault:
    """An answer whose JSON ends in the middle."""
    return Fault(lambda _, answer: replace(answer, content=answer.content[: len(answer.content) // 2]), times)


def slow(seconds: float, times: int = 1) -> Fault:
    """An answer that comes late."""

    def spoil(_: Request, answer: Answer) -> Answer:
        time.sleep(seconds)
        return answer

    return Fault(spoil, times)


def emptied(after: int = 0, times: int | None = 1, signed: bool = True) -> Fault:
    """An enumeration's pages from `after` on without results; if signed, their links say that more remain."""

    def spoil(request: Request, answer: Answer) -> Answer:
        content = json.loads(answer.content)
        position = {"cursor": request.params["cursor"]} if "cursor" in request.params else {"start": request.start}
        links = {"next": f"{request.path}?{urlencode(position)}", **content["_links"]} if signed else {}
        return Answer.of({**content, "results": [], "size": 0, "_links": links})

    def enumerates(request: Request) -> bool:
        return "spaceKey" in request.params and request.start >= after

    return Fault(spoil, times, enumerates)


def poisoned(page_id: str, status: int = 500) -> Fault:
    """A page that always breaks whatever shows its body."""

    def holds(request: Request) -> bool:
        asked = re.split(r"[/,()]", f"{request.path},{request.params.get('cql', '')}")
        return request.with_body and page_id in asked

    return Fault(lambda *_: Answer(status, b"boom"), None, holds)


def hidden(page_id: str) -> Fault:
    """A page that is listed, and answers 404 by its id: what Cloud says of a forbidden page."""
    missing = Answer.of({"statusCode": 404}, 404)
    return Fault(lambda *_: missing, None, lambda request: request.path.endswith(f"/{page_id}"))


def gone_v1() -> Fault:
    """The content endpoints of v1 answer 410, as Cloud does to OAuth apps; restrictions and search stay."""
    removed = Answer.of({"statusCode": 410, "message": "This endpoint has been removed."}, 410)

    def is_gone(request: Request) -> bool:
        parts = request.path.strip("/").split("/")
        return parts[:3] == ["rest", "api", "content"] and len(parts) in (3, 4) and parts[3:] != ["search"]

    return Fault(lambda *_: removed, None, is_gone)
