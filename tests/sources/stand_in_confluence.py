"""A stand-in Confluence on loopback, of Cloud's or Data Center's manners, with faults by script.

Belongs here: HTTP: paths, sign-in, pagination, and going wrong on purpose.
Does not belong here: what the site holds (`stand_in_site`).

    with StandIn("datacenter") as wiki:
        wiki.site.load(Path("sample/OPS"))
        wiki.faults.append(throttled(2, retry_after="1"))
        ...
        assert len(wiki.asked("rest/api/content/search")) == 1
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from sources.stand_in_site import Envelope, Site

USER, TOKEN = "bot@example.com", "s3cret"


@dataclass(frozen=True)
class Request:
    """What a client asked: the path below the context, and the query."""

    path: str
    params: dict[str, str]

    @property
    def with_body(self) -> bool:
        return "body.storage" in self.params.get("expand", "")


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


def emptied(after: int = 0) -> Fault:
    """An enumeration's page of results from `after` on, without results, though its link says that more remain."""

    def spoil(_: Request, answer: Answer) -> Answer:
        return Answer.of({**json.loads(answer.content), "results": [], "size": 0})

    def enumerates(request: Request) -> bool:
        return "spaceKey" in request.params and _start(request) >= after

    return Fault(spoil, 1, enumerates)


def poisoned(page_id: str, status: int = 500) -> Fault:
    """A page that always breaks whatever shows its body."""

    def holds(request: Request) -> bool:
        return request.with_body and page_id in f"{request.path},{request.params.get('cql', '')}"

    return Fault(lambda *_: Answer(status, b"boom"), None, holds)


class StandIn:
    """The server; `faults` are applied in order, `requests` tell what was asked."""

    def __init__(self, flavor: Literal["cloud", "datacenter"], *, caps: tuple[int, int, int] = (50, 200, 1000)) -> None:
        self.flavor = flavor
        self.site = Site()
        self.caps = caps  # with bodies, with other expansions, bare
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.authorization: str | None = None  # what a client must send
        self.context = "/wiki" if flavor == "cloud" else ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.context}"

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def require(self, kind: Literal["basic", "bearer"]) -> None:
        """Refuse who does not sign in as USER with TOKEN, or with TOKEN."""
        basic = base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
        self.authorization = f"Basic {basic}" if kind == "basic" else f"Bearer {TOKEN}"

    def asked(self, path: str = "") -> list[Request]:
        return [request for request in self.requests if path in request.path]

    def bodies_asked(self) -> set[str]:
        """Ids whose bodies were asked for."""
        asked = [request for request in self.requests if request.with_body]
        batches = {page_id for one in asked for page_id in one.params.get("cql", "")[7:-1].split(",") if page_id}
        return batches | {one.path.rpartition("/")[2] for one in asked if "cql" not in one.params}

    def answer(self, request: Request, authorization: str | None) -> Answer:
        """What a request gets, faults included."""
        self.requests.append(request)
        if self.authorization and authorization != self.authorization:
            return Answer.of({"statusCode": 401, "message": "Unauthorized"}, 401)
        answer = self._answer(request)
        for fault in self.faults:
            if fault.times != 0 and fault.matches(request):
                fault.times = fault.times and fault.times - 1
                return fault.spoil(request, answer)
        return answer

    def _answer(self, request: Request) -> Answer:
        parts = [unquote(part) for part in request.path.strip("/").split("/")][2:]
        match parts:
            case ["content"]:
                return self._listed(request)
            case ["content", "search"]:
                return self._page(request, self.site.search(request.params["cql"]))
            case ["content", page_id, *rest]:
                return self._content(request, page_id, rest)
            case ["space", key]:
                return self._space(request, key)
            case ["user", "current"]:
                return Answer.of({"type": "known", "username": USER, "timeZone": str(self.site.zone)})
        return _missing(request.path)

    def _listed(self, request: Request) -> Answer:
        key = request.params["spaceKey"]
        if not self._has(key):
            return _missing(f"space {key}")
        return self._page(request, self.site.listed(key, request.params.get("status", "current")))

    def _has(self, key: str) -> bool:
        return key in self.site.permissions or any(one["space"]["key"] == key for one in self.site.pages.values())

    def _space(self, request: Request, key: str) -> Answer:
        if not self._has(key):
            return _missing(f"space {key}")
        permissions = {"permissions": self.site.permissions[key]} if key in self.site.permissions else {}
        return Answer.of({"key": key, **(permissions if "permissions" in request.params.get("expand", "") else {})})

    def _content(self, request: Request, page_id: str, rest: list[str]) -> Answer:
        one = self.site.pages.get(page_id)
        shown = {"current", "archived"} if request.params.get("status") == "any" else {"current"}
        if page_id in self.site.forbidden and self.flavor == "datacenter":
            return Answer.of({"statusCode": 403, "message": "not permitted"}, 403)
        if one is None or page_id in self.site.forbidden or (not rest and one["status"] not in shown):
            return _missing(page_id)
        start = _start(request)
        if rest == ["label"]:
            return Answer.of(self.site.part(one["metadata"]["labels"]["results"], start))
        if rest == ["restriction", "byOperation", "read"]:
            lists = {kind: self.site.part(self.site.restricted(one, kind), start) for kind in ("user", "group")}
            return Answer.of({"operation": "read", "restrictions": lists})
        shape = self.site.shown(one, request.params.get("expand", ""))
        return Answer.of({**shape, "_links": {**shape["_links"], "base": self.url}})

    def _page(self, request: Request, found: list[Envelope]) -> Answer:
        """A page of results: by cursor on Cloud, which does not know `start`, by `start` on Data Center."""
        expand = request.params.get("expand", "")
        cap = self.caps[0] if "body." in expand else self.caps[1] if expand else self.caps[2]
        limit = min(int(request.params.get("limit", "25")), cap)
        cursors = self.flavor == "cloud"
        start = int(request.params.get("cursor", "c0")[1:]) if cursors else _start(request)
        some = found[start : start + limit]
        links: dict[str, Any] = {"base": self.url, "context": self.context}
        if start + limit < len(found):
            position = {"cursor": f"c{start + limit}"} if cursors else {"start": start + limit}
            links["next"] = f"{request.path}?{urlencode({'limit': limit, **position})}"
        results = [self.site.shown(one, expand) for one in some]
        return Answer.of({"results": results, "start": start, "limit": limit, "size": len(some), "_links": links})


def _start(request: Request) -> int:
    return int(request.params.get("start", "0"))


def _missing(what: str) -> Answer:
    return Answer.of({"statusCode": 404, "message": f"nothing found: {what}"}, 404)


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one segment an answer: head and body apart wait 40 ms for each other

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = parts.path.removeprefix(stand_in.context)
            request = Request(path, dict(parse_qsl(parts.query)))
            answer = stand_in.answer(request, self.headers.get("Authorization"))
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """A test's output is its own."""

    return Handler
