"""Who may not ask is refused by headers alone, and nobody may ask, or guess, as often as he likes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.types import Message
from support.api_client import QUESTION, TOKENS, bearer, client_of

from rag_serving.api import limits as rates
from rag_serving.api import wire
from rag_serving.api.limits import FREE_GUESSES, LONGEST_GUESS_WAIT_S, Guesses, Kept, Rates, network_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def secured(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TestClient]:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)

    def opened(**serving: Any) -> TestClient:
        return client_of(wiki_home, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens", **serving})

    return opened


def exchange(client: TestClient, path: str, messages: list[Message], headers: dict[str, str]) -> tuple[Any, int]:
    """What is answered to a request whose body comes in these messages, and how many were read; then nothing comes."""
    sent: list[Message] = []
    left = list(messages)

    async def receive() -> Message:
        if left:
            return left.pop(0)
        await asyncio.sleep(60)
        raise AssertionError("more was waited for than was sent")

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in {"host": "127.0.0.1", **headers}.items()]
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": raw, "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80),
        "scheme": "http", "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    return sent[0], len(messages) - len(left)


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/search", "/v1/feedback", "/v1/chat/completions", "/", "/nowhere"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}])
def test_no_body_is_read_of_who_may_not_ask(
    secured: Callable[..., TestClient], path: str, headers: dict[str, str]
) -> None:
    part: Message = {"type": "http.request", "body": b"{", "more_body": True}
    start, read = exchange(secured(), path, [part] * 5, headers)
    assert (start["status"], read) == ({"/nowhere": 404, "/": 405}.get(path, 401), 0)
    assert (b"connection", b"close") in start["headers"]


def test_a_body_that_drips_is_408(secured: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BODY_S", 0.2)
    part: Message = {"type": "http.request", "body": b"{", "more_body": True}
    start, read = exchange(secured(), "/v1/ask", [part] * 3, bearer("all"))
    assert (start["status"], read) == (408, 3)


def test_a_caller_that_asks_too_often_is_told_when_to_come_back(secured: Callable[..., TestClient]) -> None:
    client = secured(rate_limit_per_minute=3)
    statuses = [client.post("/v1/ask", json=QUESTION, headers=bearer("all")).status_code for _ in range(3)]
    refused = client.post("/v1/ask", json=QUESTION, headers=bearer("all"))
    assert (statuses, refused.status_code, refused.json()["code"]) == ([200] * 3, 429, "RATE_LIMIT")
    assert 1 <= int(refused.headers["Retry-After"]) <= 20
    assert client.post("/v1/ask", json=QUESTION, headers=bearer("hr")).status_code == 200
    assert [client.get("/healthz").status_code for _ in range(10)] == [200] * 10
    chat = {"messages": [{"role": "user", "content": "x"}]}
    error = client.post("/v1/chat/completions", json=chat, headers=bearer("all")).json()["error"]
    assert error["type"] == "rate_limit_error"


def test_an_address_that_asks_too_often_is_told_so_whatever_it_shows(secured: Callable[..., TestClient]) -> None:
    client = secured(address_limit_per_minute=4)
    shown = [{}, bearer("x"), bearer("all"), bearer("hr"), bearer("o")]
    assert [client.get("/v1/models", headers=each).status_code for each in shown] == [401, 401, 200, 200, 429]
    assert client.get("/healthz").status_code == 200


def test_guessing_tokens_is_slowed_and_shuts_nobody_out(secured: Callable[..., TestClient]) -> None:
    client = secured()
    assert client.get("/v1/models", headers=bearer("all")).status_code == 200
    guesses = [client.get("/v1/models", headers=bearer(f"guess {n}")) for n in range(FREE_GUESSES + 5)]
    assert [each.status_code for each in guesses[:FREE_GUESSES]] == [401] * FREE_GUESSES
    assert guesses[-1].status_code == 429
    assert int(guesses[-1].headers["Retry-After"]) >= 1
    assert client.get("/v1/models", headers=bearer("hr")).status_code == 429, "a right guess is not told from a wrong"
    assert client.get("/v1/models", headers=bearer("all")).status_code == 200


def test_each_wrong_token_doubles_the_wait() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    waits = []
    for _ in range(40):
        guesses.wrong("a")
        waits.append(guesses.wait("a", "t"))
    assert waits[: FREE_GUESSES - 1] == [0] * (FREE_GUESSES - 1)
    assert waits[FREE_GUESSES - 1 : FREE_GUESSES + 3] == [1, 2, 4, 8]
    assert waits[-1] == LONGEST_GUESS_WAIT_S
    assert guesses.wait("b", "t") == 0
    clock.now += LONGEST_GUESS_WAIT_S
    assert guesses.wait("a", "t") == 0


def test_a_bucket_fills_with_time() -> None:
    clock = Clock()
    buckets = Rates(clock)
    assert [buckets.take("a", 2) for _ in range(3)] == [0, 0, 30]
    clock.now += 30
    assert [buckets.take("a", 2), buckets.take("a", 2)] == [0, 30]
    assert [buckets.take("a", 0) for _ in range(100)] == [0] * 100


def test_no_more_keys_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_KEYS", 100)
    kept = Kept[int]()
    for number in range(1000):
        kept.keep(str(number), number)
    assert (len(kept), "999" in kept, "0" in kept) == (100, True, False)


def test_an_ipv6_network_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") != network_of("10.0.0.2")
    assert network_of("no address") == "no address"
