"""Requests of a tenant at once: no more than it may have, no turn lost, each caller's in turn."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api_client import QUESTION, bearer
from support.running import running, served
from support.stand_in_chat import MODEL, StandInChat
from support.waiting import wait_until
from support.wiki import configuration

from rag_serving.api import limits as rates
from rag_serving.api import limits as turns
from rag_serving.api.app import create_app
from rag_serving.api.limits import MOST_WAITING, Refusals, Turns, end_turn, hold


@given(
    at_once=st.integers(1, 4),
    steps=st.lists(st.sampled_from(["ask a", "ask b", "ask c", "end", "leave", "pass"]), max_size=60),
    dice=st.randoms(use_true_random=False),
)
def test_no_more_than_allowed_are_under_way_and_no_turn_is_lost(at_once: int, steps: list[str], dice: object) -> None:
    async def scenario() -> None:
        lines, ends, asking = Turns(), list[Callable[[], None]](), list[asyncio.Task[None]]()

        async def ask(caller: str) -> None:
            end = await lines.take("acme", caller, at_once)
            assert end
            ends.append(end)
            assert len(ends) <= at_once

        for step in steps:
            if step.startswith("ask"):
                asking.append(asyncio.create_task(ask(step.removeprefix("ask "))))
            elif step == "end" and ends:
                end = ends.pop(dice.randrange(len(ends)))  # type: ignore[attr-defined]
                end()
                end()  # twice is once
            elif step == "leave" and asking:
                asking.pop(dice.randrange(len(asking))).cancel()  # type: ignore[attr-defined]
            else:
                await asyncio.sleep(0)
        waiting = asyncio.gather(*asking, return_exceptions=True)
        while not waiting.done() or ends:
            await asyncio.sleep(0)
            if ends:
                ends.pop()()
        assert not [fault for fault in await waiting if isinstance(fault, AssertionError)]
        assert (lines.of_tenant("acme"), lines.waiting("acme")) == (0, 0)
        assert not lines._waiting
        assert not lines._under_way

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_callers_that_wait_come_one_after_the_other() -> None:
    async def scenario() -> list[str]:
        lines, order = Turns(), list[str]()
        first = await lines.take("acme", "flood", 1)

        async def ask(caller: str) -> None:
            end = await lines.take("acme", caller, 1)
            assert end
            order.append(caller)
            end()

        tasks = [asyncio.create_task(ask(caller)) for caller in ["flood"] * 5 + ["ann", "bob", "ann"]]
        await asyncio.sleep(0.01)
        assert first
        first()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(scenario()) == ["flood", "ann", "bob", "flood", "ann", "flood", "flood", "flood"]


def test_waiting_has_an_end_and_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT_S", 0.05)

    async def scenario() -> None:
        lines = Turns()
        end = await lines.take("acme", "a", 1)
        assert end
        asked = [lines.take("acme", "a", 1) for _ in range(MOST_WAITING + 3)]
        assert await asyncio.gather(*asked) == [None] * (MOST_WAITING + 3)
        assert lines.waiting("acme") == 0
        assert await lines.take("other", "a", 1)
        assert await lines.take("acme", "a", 0), "a limit that was taken away"
        end()
        assert lines.of_tenant("acme") == 1

    asyncio.run(scenario())


def test_who_does_not_wait_by_itself_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "LATER_S", 0.2)

    async def scenario() -> list[float]:
        refusals, took, loop = Refusals(), list[float](), asyncio.get_running_loop()
        for caller in ("flood", "flood", "calm"):
            began = loop.time()
            await refusals.refuse(caller, 5.0)
            took.append(loop.time() - began)
        assert not refusals._later
        return took

    first, again, other = asyncio.run(scenario())
    assert first < 0.1
    assert again >= 0.19
    assert other < 0.1


def test_a_turn_ends_where_a_request_only_waits() -> None:
    ended: list[int] = []
    scope: dict[str, object] = {"type": "http"}
    end_turn(scope)
    hold(scope, lambda: ended.append(1))
    end_turn(scope)
    assert ended == [1]


class Gate:
    """A model that shows that it lives and answers when it may."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, _: list[dict[str, str]]) -> Iterator[str]:
        while not self.opened.wait(0.02):
            yield ""
        yield "You must not restart a broker while partitions are under-replicated. [1]"


@pytest.fixture
def model() -> Iterator[StandInChat]:
    with served(StandInChat(Gate())) as server:
        yield server


@pytest.fixture
def url(wiki_home: Path, model: StandInChat, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"a": {"tenant": "acme"}, "o": {"tenant": "other"}}))
    config = configuration(
        wiki_home,
        serving={"auth": "tokens"},
        tenants={"acme": {"requests_at_once": 1}, "other": {}},
        generation={"provider": "openai", "base_url": f"{model.url}/v1", "model": MODEL},
        degradation={"phase_timeout_s": 60},  # a lower phase asks no model
    )
    with running(create_app(config)) as address:
        yield address


@pytest.mark.parametrize(
    ("more", "at_once"),
    [
        ({}, 1),
        ({"generation": {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}, 4),
        ({"tenants": {"acme": {}}}, 0),
        ({"tenants": {"acme": {"requests_at_once": 0}, "other": {}}}, 0),
        ({"tenants": {"acme": {"requests_at_once": 7}, "other": {}}}, 7),
        ({"serving": {"auth": "loopback"}}, 0),
    ],
)
def test_each_of_several_tenants_has_a_fair_share_unless_told_otherwise(
    tmp_path: Path, more: dict[str, Any], at_once: int
) -> None:
    said: dict[str, Any] = {"serving": {"auth": "tokens"}, "tenants": {"acme": {}, "other": {}}, **more}
    assert turns.at_once_of(configuration(tmp_path, **said), "acme") == at_once


@pytest.mark.parametrize(("stream", "at_once"), [(False, 1), (True, 3)])
def test_a_tenant_has_so_many_requests_at_once_and_others_do_not_wait(
    url: str, model: StandInChat, stream: bool, at_once: int
) -> None:
    """A streamed answer for which only the model is waited for is none of them."""
    statuses: list[int] = []

    def ask() -> None:
        body = {**QUESTION, "stream": stream}
        statuses.append(httpx.post(f"{url}/v1/ask", headers=bearer("a"), json=body, timeout=60).status_code)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: model.open_streams == at_once)
    assert httpx.get(f"{url}/v1/models", headers=bearer("o"), timeout=60).status_code == 200
    time.sleep(0.2)
    assert model.open_streams == at_once
    model.script.opened.set()  # type: ignore[attr-defined]
    for thread in threads:
        thread.join()
    assert statuses == [200] * 3


def test_who_gets_no_turn_is_told_to_come_back(url: str, model: StandInChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT_S", 0.1)
    thread = threading.Thread(target=partial(httpx.post, f"{url}/v1/ask", headers=bearer("a"), json=QUESTION))
    thread.start()
    wait_until(lambda: model.open_streams == 1)
    refused = httpx.post(f"{url}/v1/ask", headers=bearer("a"), json=QUESTION)
    model.script.opened.set()  # type: ignore[attr-defined]
    thread.join()
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.json()["code"] == "RATE_LIMIT"
    assert httpx.post(f"{url}/v1/ask", headers=bearer("a"), json=QUESTION, timeout=60).status_code == 200


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/documents"])
def test_who_sends_slowly_keeps_nobody_waiting(copied_wiki: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    tokens = {"a": {"tenant": "acme"}, "e": {"tenant": "acme", "user": "ed", "roles": ["editor"]}}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(tokens))
    config = configuration(
        copied_wiki,
        serving={"auth": "tokens"},
        tenants={"acme": {"requests_at_once": 1}},
        sources={"inbox": {"kind": "files", "tenant": "acme", "readers": "everyone"}},
    )
    kind = "application/json" if path == "/v1/ask" else "multipart/form-data; boundary=x"
    with running(create_app(config)) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 80)) as slow:
            lines = f"POST {path} HTTP/1.1", f"Host: {address.host}", "Authorization: Bearer e", f"Content-Type: {kind}"
            slow.sendall("\r\n".join([*lines, "Content-Length: 500", "", "--x"]).encode())
            asked = [httpx.post(f"{url}/v1/ask", headers=bearer("a"), json=QUESTION, timeout=60) for _ in "123"]
            slow.settimeout(0.1)
            with pytest.raises(TimeoutError):  # it was let in, and is waited for
                slow.recv(1)
    assert [answer.status_code for answer in asked] == [200] * 3
