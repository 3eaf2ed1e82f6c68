"""A stand-in Confluence on loopback, of Cloud's or Data Center's manners.

Belongs here: HTTP: paths, sign-in, pagination, a rate limit.
Does not belong here: what the site holds (`stand_in_site`), how v2 shows it (`stand_in_v2`), going wrong on purpose
(`stand_in_faults`).

    with StandIn("datacenter") as wiki:
        wiki.site.load(Path("sample/OPS"))
        wiki.faults.append(throttled(2, retry_after="1"))
        ...
        assert len(wiki.asked("rest/api/content/search")) == 1
"""

from __future__ import annotations

import base64
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from sources.stand_in_faults import Answer, Fault, Request
from sources.stand_in_hanging import Hanging, shown
from sources.stand_in_site import Envelope, Site
from sources.stand_in_v2 import StandInV2

USER, TOKEN = "bot@example.com", "s3cret"


class StandIn:
    """The server; `faults` are applied in order, `requests` tell what was asked."""

    def __init__(self, flavor: Literal["cloud", "datacenter"], *, caps: tuple[int, int, int] = (50, 200, 1000)) -> None:
        self.flavor = flavor
        self.site = Site()
        self.caps = caps  # with bodies, with other expansions, bare
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.meanwhile: Callable[[], None] = _nothing  # what happens after each answer, before the next request
        self.authorization: str | None = None  # what a client must send
        self.per_second: int | None = None  # more requests are throttled
        self.context = "/wiki" if flavor == "cloud" else ""
        self._recent: deque[float] = deque()
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
        lists = [one.params.get("id") or one.params.get("cql", "")[7:-1] for one in asked]
        batches = {page_id for ids in lists for page_id in ids.split(",") if page_id}
        return batches | {one.path.rpartition("/")[2] for one, ids in zip(asked, lists, strict=True) if not ids}

    def answer(self, request: Request, authorization: str | None) -> Answer:
        """What a request gets, faults included; then the site lives on."""
        answer = self._spoiled(request, authorization)
        self.meanwhile()
        return answer

    def _spoiled(self, request: Request, authorization: str | None) -> Answer:
        self.requests.append(request)
        if self.authorization and authorization != self.authorization:
            return Answer.of({"statusCode": 401, "message": "Unauthorized"}, 401)
        if self._too_many():
            return Answer(429, b"{}", {"Retry-After": "1"})
        answer = self._answer(request)
        for fault in self.faults:
            if fault.times != 0 and fault.matches(request):
                fault.times = fault.times and fault.times - 1
                return fault.spoil(request, answer)
        return answer

    def _too_many(self) -> bool:
        now = time.monotonic()
        while self._recent and self._recent[0] < now - 1:
            self._recent.popleft()
        self._recent.append(now)
        return self.per_second is not None and len(self._recent) > self.per_second

    def _answer(self, request: Request) -> Answer:
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        match parts:
            case ["api", "v2", *rest] if self.flavor == "cloud":
                return StandInV2(self.site, self.url).answer(request, rest)
            case ["rest", "api", "content"]:
                return self._listed(request)
            case ["rest", "api", "content", "search"] if hanging := Hanging.asked(request.params["cql"]):
                expand = request.params.get("expand", "")
                return self.page(request, self.site.search_hanging(*hanging), lambda one: shown(one, expand))
            case ["rest", "api", "content", "search"]:
                return self.page(request, self.site.search(request.params["cql"]), self._show(request))
            case ["rest", "api", "search"]:
                return self.page(
                    request,
                    self.site.search(request.params["cql"]),
                    lambda one: {"content": self.site.shown(one, ""), "title": one["title"]},
                )
            case ["rest", "api", "content", page_id, *rest]:
                return self._content(request, page_id, rest)
            case ["download", "attachments", page_id, name]:
                return self._download(page_id, name)
            case ["rest", "api", "space", key]:
                return self._space(request, key)
            case ["rest", "api", "group", *rest]:
                return self._group(request, rest)
            case ["rest", "api", "user", "current"]:
                return Answer.of({"type": "known", "username": USER})
            case ["rest", "api", "user", *rest]:
                return self._people(request, rest == ["bulk"])
        return _missing(request.path)

    def _show(self, request: Request) -> Callable[[Envelope], Envelope]:
        return lambda one: self.site.shown(one, request.params.get("expand", ""))

    def _listed(self, request: Request) -> Answer:
        key, kind = request.params["spaceKey"], request.params.get("type", "page")
        if not self._has(key):
            return _missing(f"space {key}")
        found = self.site.listed(key, request.params.get("status", "current"), kind)
        return self.page(request, found, self._show(request))

    def _has(self, key: str) -> bool:
        return key in self.site.permissions or any(one["space"]["key"] == key for one in self.site.pages.values())

    def _space(self, request: Request, key: str) -> Answer:
        if not self._has(key):
            return _missing(f"space {key}")
        permissions = {"permissions": self.site.permissions[key]} if key in self.site.permissions else {}
        return Answer.of({"key": key, **(permissions if "permissions" in request.params.get("expand", "") else {})})

    def _group(self, request: Request, parts: list[str]) -> Answer:
        """Data Center knows groups by name, Cloud by id."""
        on_cloud = self.flavor == "cloud"
        names = {f"id-of-{name}" if on_cloud else name: name for name in self.site.groups}
        match parts:
            case ["by-name"] if on_cloud and request.params["name"] in self.site.groups:
                name = request.params["name"]
                return Answer.of({"type": "group", "name": name, "id": f"id-of-{name}"})
            case [group, "membersByGroupId" | "member" as how] if group in names and (how != "member") == on_cloud:
                users = self.site.groups[names[group]]
                return self.page(request, [{"user": user} for user in users], lambda one: self._user(one["user"]))
        return _missing(request.path)

    def _people(self, request: Request, together: bool) -> Answer:
        """Cloud tells many people by their account ids in one answer; both tell one."""
        people = self.site.people
        if together and self.flavor == "cloud":
            asked = parse_qs(request.query)["accountId"]
            return Answer.of({"results": [self._person(one) for one in asked if one in people]})
        one = next((value for name, value in request.params.items() if name in ("accountId", "key", "username")), "")
        return Answer.of(self._person(one)) if one in people and not together else _missing(request.path)

    def _person(self, one: str) -> Envelope:
        return {"type": "known", "accountId": one, "displayName": self.site.people[one]}

    def _user(self, name: str) -> Envelope:
        told = {"accountId": f"id-{name}"} if self.flavor == "cloud" else {"username": name, "userKey": f"key-{name}"}
        return {"type": "known", **told, "displayName": name.title()}

    def _refused(self, page_id: str, statuses: Sequence[str]) -> Answer | None:
        """Why a page is not shown by its id: Cloud does not tell a forbidden one from one that is not there."""
        one = self.site.pages.get(page_id)
        if page_id in self.site.forbidden and self.flavor == "datacenter":
            return Answer.of({"statusCode": 403, "message": "not permitted"}, 403)
        if one is None or page_id in self.site.forbidden or one["status"] not in statuses:
            return _missing(page_id)
        return None

    def _content(self, request: Request, page_id: str, rest: list[str]) -> Answer:
        asked_any = request.params.get("status") == "any" or bool(rest)
        refused = self._refused(page_id, ("current", "archived") if asked_any else ("current",))
        if refused is not None:
            return refused
        one = self.site.pages[page_id]
        if rest == ["label"]:
            return Answer.of(self.site.part(one["metadata"]["labels"]["results"], request.start))
        if rest in (["child", "attachment"], ["child", "comment"]):
            expand = request.params.get("expand", "")
            return self.page(request, self.site.hanging.entries(page_id, rest[1]), lambda entry: shown(entry, expand))
        if rest == ["restriction", "byOperation", "read"]:
            lists = {kind: self.site.part(self.site.restricted(one, kind), request.start) for kind in ("user", "group")}
            return Answer.of({"operation": "read", "restrictions": lists})
        shape = self.site.shown(one, request.params.get("expand", ""))
        return Answer.of({**shape, "_links": {**shape["_links"], "base": self.url}})

    def _download(self, page_id: str, name: str) -> Answer:
        refused = self._refused(page_id, ("current", "archived"))
        file = self.site.hanging.files.get(page_id, {}).get(name)
        if refused is not None or file is None:
            return refused or _missing(name)
        return Answer(200, file.content, {"Content-Type": file.media_type})

    def page(self, request: Request, found: Sequence[Envelope], show: Callable[[Envelope], Envelope]) -> Answer:
        """A page of results: by cursor on Cloud, which does not know `start`, by `start` on Data Center."""
        expand = request.params.get("expand", "")
        cap = self.caps[0] if "body." in expand else self.caps[1] if expand else self.caps[2]
        limit = min(int(request.params.get("limit", "25")), cap)
        cursors = self.flavor == "cloud"
        start = int(request.params.get("cursor", "c0")[1:]) if cursors else request.start
        some = found[start : start + limit]
        links: dict[str, Any] = {"base": self.url, "context": self.context}
        if start + limit < len(found):
            position = {"cursor": f"c{start + limit}"} if cursors else {"start": start + limit}
            links["next"] = f"{request.path}?{urlencode({'limit': limit, **position})}"
        counts = {"start": start, "limit": limit, "size": len(some), "totalSize": len(found)}
        return Answer.of({"results": [show(one) for one in some], **counts, "_links": links})


def _nothing() -> None:
    """Nobody does anything."""


def _missing(what: str) -> Answer:
    return Answer.of({"statusCode": 404, "message": f"nothing found: {what}"}, 404)


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one segment an answer: head and body apart wait 40 ms for each other

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = parts.path.removeprefix(stand_in.context)
            request = Request(path, dict(parse_qsl(parts.query)), parts.query)
            answer = stand_in.answer(request, self.headers.get("Authorization"))
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def date_time_string(self, timestamp: float | None = None) -> str:  # noqa: ARG002
            return format_datetime(stand_in.site.now(), usegmt=True)

        def log_message(self, *_: object) -> None:
            """A test's output is its own."""

    return Handler
