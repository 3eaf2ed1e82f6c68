"""Limits of bodies and headers on a real socket: however a body's length is told, and whoever sends it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.api_client import QUESTION, bearer
from support.running import running
from support.wiki import configuration

from rag_serving.api.app import MAX_BODY_BYTES, create_app
from rag_serving.api.limits import FREE_GUESSES
from rag_serving.api.server import MAX_HEADER_BYTES, uvicorn_settings
from rag_serving.config.loading import Config

HEAD = "POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer ann\r\n"
BODY = json.dumps(QUESTION).encode()
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def served(config: Config) -> AbstractContextManager[str]:
    """The API as `citelock serve` runs it."""
    return running(
        create_app(config), **{**uvicorn_settings(config.serving), "port": 0, "timeout_graceful_shutdown": 10}
    )


@pytest.fixture(scope="module")
def url(wiki_home: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", '{"ann": {"tenant": "acme"}, "bob": {"tenant": "acme"}}')
        with served(configuration(wiki_home, serving={"auth": "tokens"})) as address:
            yield address


def exchanged(url: str, *parts: bytes) -> bytes:
    """What comes for parts that are sent one after the other, each after something came for the one before."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as client:
        found = b""
        for part in parts:
            client.sendall(part)
            found += client.recv(100_000)
        while not is_whole(found) and (more := client.recv(100_000)):
            found += more
        return found


def is_whole(answer: bytes) -> bool:
    """Whether an answer has as many bytes as it says; head and body may come apart."""
    head, _, body = answer.removeprefix(CONTINUE).partition(b"\r\n\r\n")
    told = re.search(rb"content-length: (\d+)", head, re.I)
    return told is None or len(body) >= int(told[1])


def status_of(answer: bytes) -> int:
    return int(answer.removeprefix(CONTINUE).split(b" ", 2)[1])


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def chunked(*contents: bytes) -> bytes:
    return f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + b"".join(map(chunk, (*contents, b"")))


def test_a_body_in_chunks_is_read_up_to_the_limit_and_no_further(url: str) -> None:
    assert status_of(exchanged(url, chunked(BODY[:9], BODY[9:]))) == 200
    part = b" " * 50_000
    too_much = chunked(*[part] * (MAX_BODY_BYTES // len(part)), b"  ")
    answer = exchanged(url, too_much)
    assert (status_of(answer), b"TOO_LARGE" in answer) == (413, True)


@pytest.mark.parametrize("told", [MAX_BODY_BYTES + 1, 10**18])
def test_a_body_that_is_said_to_be_too_long_is_not_asked_for(url: str, told: int) -> None:
    answer = exchanged(url, f"{HEAD}Content-Length: {told}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert (status_of(answer), CONTINUE in answer) == (413, False)
    assert b"connection: close" in answer.lower()


def test_whoever_waits_to_be_asked_for_a_body_is_asked(url: str) -> None:
    head = f"{HEAD}Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n".encode()
    answer = exchanged(url, head, BODY)
    assert answer.startswith(CONTINUE)
    assert status_of(answer) == 200


def test_who_may_not_ask_is_not_asked_for_a_body(url: str) -> None:
    head = HEAD.replace("Bearer ann", "Bearer nobody")
    answer = exchanged(url, f"{head}Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert (status_of(answer), CONTINUE in answer) == (401, False)


@pytest.mark.parametrize(
    "lengths",
    ["Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
     "Content-Length: -1\r\n", f"Content-Length: {'9' * 5000}\r\n", "Content-Length: 1e3\r\n"],
)  # fmt: skip
def test_a_length_that_is_told_twice_or_is_none_is_refused(url: str, lengths: str) -> None:
    assert status_of(exchanged(url, f"{HEAD}{lengths}\r\n".encode())) == 400


def test_headers_without_end_close_the_connection(url: str) -> None:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as client:
        sent = client.send(HEAD.encode())
        with suppress(OSError):  # a reset or a broken pipe, as it comes
            while sent < 100 * MAX_HEADER_BYTES:
                sent += client.send(b"X: " + b"x" * 10_000 + b"\r\n")
    assert sent < 50 * MAX_HEADER_BYTES  # what the kernel's buffers take beside


# Behind a proxy


def guesses(url: str, forwarded: bool) -> list[int]:
    """The answers to one wrong token more than is free, each from another client as the proxy's header says."""
    found = []
    with httpx.Client(base_url=url, timeout=30) as client:
        for number in range(FREE_GUESSES + 1):
            headers = {**bearer(f"guess {number}"), "X-Forwarded-For": f"10.0.0.{number}" if forwarded else "10.0.0.1"}
            found.append(client.get("/v1/models", headers=headers).status_code)
    return found


def test_a_forwarded_address_is_not_believed_so_guessing_stays_slow(url: str) -> None:
    assert guesses(url, forwarded=True)[-1] == 429


def test_of_a_proxy_that_is_trusted_each_client_is_counted_by_itself(
    wiki_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", '{"ann": {"tenant": "acme"}}')
    config = configuration(wiki_home, serving={"auth": "tokens", "trusted_proxies": ["127.0.0.0/8"]})
    with served(config) as url:
        assert guesses(url, forwarded=True) == [401] * (FREE_GUESSES + 1)
        assert guesses(url, forwarded=False)[-1] == 429
        spoofed = {**bearer("again"), "X-Forwarded-For": "10.9.9.9, 10.0.0.1"}
        assert httpx.get(f"{url}/v1/models", headers=spoofed).status_code == 429, "the proxy's own word is the last"


def test_the_demo_does_not_answer_what_comes_through_a_proxy(wiki_home: Path) -> None:
    """A proxy on this machine would open it to everybody."""
    with served(configuration(wiki_home)) as url:
        for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
            for path in ("/v1/models", "/v1/reports", "/metrics"):
                refused = httpx.get(f"{url}{path}", headers={header: "127.0.0.1"})
                assert (path, refused.status_code) == (path, 403)
        assert httpx.get(f"{url}/v1/models").status_code == 200
