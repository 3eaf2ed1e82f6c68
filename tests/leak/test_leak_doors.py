"""Through every door of the API a principal receives what it would if hidden pages had never been written.

The same requests go to a server over all pages and to one over those that the principal may read; the responses are the
same to the last character, but for what names a build or a moment. CITELOCK_LEAK_DOORS sets how many requests are made.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from brute_force import Judge
from built_wiki import WordEmbedder, publish_wiki
from equal_payloads import difference
from fastapi.testclient import TestClient
from httpx import Response
from restricted_wiki import TENANT, Wiki, restricted_wiki, sentence, some_principal
from support.index_backends import BACKENDS, Backends
from support.stand_in_chat import MODEL, StandInChat, served

from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.loading import Config
from rag_serving.config.phases import Degradation
from rag_serving.config.serving import CheckProxy, Serving
from rag_serving.models.lazy_embedder import GuardedEmbedder

RECEIPT_ROUTES = (
    ("GET", ""), ("POST", "/verify"), ("POST", "/share"), ("POST", "/subscription"), ("DELETE", "/subscription"),
)  # fmt: skip
REQUESTS = int(os.environ.get("CITELOCK_LEAK_DOORS", "60"))
PER_PRINCIPAL = min(REQUESTS, 1000)
Told = tuple[int, dict[str, str], list[object]]
PAGES = 300
# What names a build or a moment, not a page.
_OF_THE_BUILD = frozenset(
    {"timings_ms", "generation", "published_generation", "receipt_id", "created_at", "created", "sealed", "signature"}
    | {"id", "item_id", "ms", "path"}
)
_HEADERS_OF_A_MOMENT = frozenset({"content-length", "etag", "date"})


@dataclass
class Reader:
    """A principal who asks two servers the same."""

    whole: TestClient
    rest: TestClient
    judge: Judge
    dice: random.Random
    receipts: list[tuple[str, str]] = field(default_factory=list)

    def both(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[Response, Response]:
        return tuple(self._send(client, method, path, body) for client in (self.whole, self.rest))  # type: ignore[return-value]

    def query(self) -> str:
        page = self.judge.envelope(self.dice.choice(self.judge.page_ids))
        return self.dice.choice([str(page["title"]), sentence(self.dice, 5), f"{page['id']} {page['title']}"])

    def page_id(self) -> str:
        return str(self.dice.choice(self.judge.page_ids))

    @staticmethod
    def _send(client: TestClient, method: str, path: str, body: dict[str, Any] | None) -> Response:
        return client.request(method, path, json=body, headers={"Authorization": "Bearer token"})


Door = Callable[[Reader], tuple[Response, Response]]


def ask(reader: Reader) -> tuple[Response, Response]:
    history = [{"role": "user", "content": reader.query()}] if reader.dice.random() < 0.3 else []
    body = {"question": reader.query(), "explain": True, "history": history}
    answers = reader.both("POST", "/v1/ask", body)
    first, second = (answer.json().get("receipt_id") for answer in answers)
    if first and second:
        reader.receipts.append((first, second))
    return answers


def stream(reader: Reader) -> tuple[Response, Response]:
    return reader.both("POST", "/v1/ask", {"question": reader.query(), "explain": True, "stream": True})


def search(reader: Reader) -> tuple[Response, Response]:
    return reader.both("POST", "/v1/search", {"query": reader.query(), "k": 30, "explain": True})


def draft(reader: Reader) -> str:
    """Sentences of some page, as they are or with other figures, beside others."""
    page = reader.judge.envelope(reader.page_id())
    said = " ".join(re.sub(r"<[^>]*>", " ", page["body"]["storage"]["value"]).split())[:600]
    said = re.sub(r"\d", "7", said) if reader.dice.random() < 0.5 else said
    return f"{said}\n\n{sentence(reader.dice, 9)}. {page['title']} has {reader.dice.randint(2, 90)} rules."


def check(reader: Reader) -> tuple[Response, Response]:
    text = draft(reader)
    answers = reader.both("POST", "/v1/check", {"answer": text, "citations": [{"quote": " ".join(text.split()[:9])}]})
    first, second = (answer.json().get("receipt_id") for answer in answers)
    if first and second:
        reader.receipts.append((first, second))
    return answers


def proxied(reader: Reader) -> tuple[Response, Response]:
    """The upstream repeats the draft, which is checked."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": draft(reader)}]}
    return reader.both("POST", "/proxy/v1/chat/completions", {**body, "stream": reader.dice.random() < 0.5})


def chat(reader: Reader) -> tuple[Response, Response]:
    messages = [{"role": "user", "content": reader.query()} for _ in range(reader.dice.randint(1, 2))]
    return reader.both("POST", "/v1/chat/completions", {"messages": messages, "stream": reader.dice.random() < 0.5})


def responses(reader: Reader) -> tuple[Response, Response]:
    return reader.both("POST", "/v1/responses", {"input": reader.query(), "stream": reader.dice.random() < 0.5})


def page(reader: Reader) -> tuple[Response, Response]:
    return reader.both("GET", f"/v1/pages/{reader.page_id()}")


def passage(reader: Reader) -> tuple[Response, Response]:
    envelope = reader.judge.envelope(reader.page_id())
    place = reader.dice.choice([0, 0, 1, 2, 1_000_000])
    return reader.both("GET", f"/v1/passages/{envelope['id']}:{envelope['version']['number']}:{place}")


def image(reader: Reader) -> tuple[Response, Response]:
    kind = reader.dice.choice(["image", "layer"])
    return reader.both("GET", f"/v1/pages/{reader.page_id()}/{kind}?page=1")


def filters(reader: Reader) -> tuple[Response, Response]:
    return reader.both("GET", "/v1/filters")


def receipt(reader: Reader) -> tuple[Response, Response]:
    """A receipt of his own: as it is, verified, shared, followed or no longer."""
    if not reader.receipts:
        return filters(reader)
    chosen, (method, part) = reader.dice.choice(reader.receipts), reader.dice.choice(RECEIPT_ROUTES)
    clients = (reader.whole, reader.rest)
    first, second = (
        reader._send(client, method, f"/v1/receipts/{identifier}{part}", None)
        for client, identifier in zip(clients, chosen, strict=True)
    )
    return first, second


def status(reader: Reader) -> tuple[Response, Response]:
    return reader.both("GET", reader.dice.choice(["/v1/status", "/v1/documents", "/v1/models", "/v1/session"]))


DOORS: dict[Door, int] = {
    ask: 6, stream: 3, search: 4, check: 5, proxied: 3, chat: 4, responses: 4, page: 10, passage: 8, image: 2,
    filters: 1, receipt: 4, status: 1,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_secret() -> Iterator[None]:
    """Both homes name an asker by the same secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_ENV, "the same in both homes")
        yield


@pytest.fixture(scope="module")
def wiki(seed: int, size: Callable[[int], int]) -> Wiki:
    return restricted_wiki(size(PAGES), seed + 5000, including=0.1)


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with served(StandInChat(lambda messages: [messages[-1]["content"]])) as server:
        yield f"{server.url}/v1"


@pytest.fixture(scope="module", params=BACKENDS)
def whole(
    request: pytest.FixtureRequest, backends: Backends, wiki: Wiki, tmp_path_factory: pytest.TempPathFactory
) -> Config:
    """All pages, searched in a folder or in a database."""
    return backends.moved(str(request.param), publish_wiki(tmp_path_factory.mktemp("whole"), wiki), TENANT)


@pytest.mark.parametrize("number", range(REQUESTS // PER_PRINCIPAL))
def test_no_door_tells_of_hidden_pages(
    tmp_path: Path, wiki: Wiki, whole: Config, upstream: str, seed: int, number: int
) -> None:
    dice = random.Random(f"doors {seed} {number}")
    judge = Judge(wiki)
    who = some_principal(dice)
    hidden = judge.unreadable(who)
    assert hidden
    rest = publish_wiki(tmp_path, wiki.without(hidden))
    is_same = (lambda got, wanted: got == wanted) if whole.index.kind == "disk" else is_alike
    opened: Counter[str] = Counter()
    with ExitStack() as stack:
        clients = [stack.enter_context(client_as(who, each, upstream)) for each in (whole, rest)]
        reader = Reader(*clients, judge, dice)
        count = PER_PRINCIPAL if whole.index.kind == "disk" else PER_PRINCIPAL // 2
        for door in [*DOORS, *dice.choices(list(DOORS), list(DOORS.values()), k=count - len(DOORS))]:
            got, wanted = door(reader)
            assert is_same(told_by(got), told_by(wanted)), f"{who} at {got.request.method} {got.request.url}"
            opened[door.__name__] += got.status_code == 200
        for method, part in RECEIPT_ROUTES if reader.receipts else ():  # each once, whatever was drawn
            identifiers = reader.receipts[0]
            got, wanted = (
                reader._send(client, method, f"/v1/receipts/{identifier}{part}", None)
                for client, identifier in zip(clients, identifiers, strict=True)
            )
            assert got.status_code in (200, 204), f"{who} at {method} {part}: {got.text}"
            assert is_same(told_by(got), told_by(wanted)), f"{who} at {method} {part}"
    closed = {door.__name__ for door in DOORS} - {name for name, count in opened.items() if count} - {"image", "status"}
    assert not closed, f"never opened: {closed}"


class _Client:
    """A server in this process whose one token is a principal's."""

    def __init__(self, who: Principal, config: Config, upstream: str) -> None:
        self.who, self.config = who, config
        self.proxy = CheckProxy(upstream=upstream)

    def __enter__(self) -> TestClient:
        token = {"tenant": TENANT, "user": self.who.user or None, "groups": sorted(self.who.groups)}
        self._patch = pytest.MonkeyPatch()
        self._patch.setenv("CITELOCK_TOKENS", json.dumps({"token": token}))
        self._patch.setattr("rag_serving.api.service.open_guarded", lambda _: GuardedEmbedder(WordEmbedder))
        serving = Serving(auth="tokens", rate_limit_per_minute=0, check_proxy=self.proxy)
        monitoring = self.config.monitoring.model_copy(update={"notice_folder": self.config.home / "notices"})
        patient = Degradation(phase_timeout_s=60)  # what takes too long, on a busy machine, is another phase's
        more = {"serving": serving, "monitoring": monitoring, "degradation": patient}
        app = create_app(self.config.model_copy(update=more))
        self._client = TestClient(app, "http://wiki.example", raise_server_exceptions=False)
        return self._client.__enter__()

    def __exit__(self, *error: object) -> None:
        self._client.__exit__(None, None, None)
        self._patch.undo()


def client_as(who: Principal, config: Config, upstream: str) -> _Client:
    return _Client(who, config, upstream)


def is_alike(got: Told, wanted: Told) -> bool:
    """Whether all is the same but for the last bits of numbers."""
    return difference([*got], [*wanted]) is None


def told_by(response: Response) -> Told:
    """What a response tells: status, headers, content without what names a build or a moment."""
    headers = {
        name: value for name, value in response.headers.items() if name not in ("content-length", "etag", "date")
    }
    return response.status_code, headers, list(_parsed(response))


def _parsed(response: Response) -> Iterator[object]:
    kind = response.headers.get("content-type", "")
    if kind.startswith("application/json"):
        yield _of_the_pages(response.json())
    elif kind.startswith("text/event-stream"):
        for line in response.text.splitlines():
            name, _, value = line.partition(": ")
            yield name, _of_the_pages(json.loads(value)) if name == "data" and value != "[DONE]" else value
    else:
        yield response.content


def _of_the_pages(value: object) -> object:
    if isinstance(value, dict):
        return {name: _of_the_pages(item) for name, item in value.items() if name not in _OF_THE_BUILD}
    return [_of_the_pages(item) for item in value] if isinstance(value, list) else value
