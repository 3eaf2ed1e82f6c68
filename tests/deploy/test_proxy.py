"""`deploy/proxy/nginx.conf`, run by Debian's nginx before a real `citelock serve`, with shorter times."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fastapi import FastAPI
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from support import server_process
from support.api_client import QUESTION, bearer, events_in
from support.command_line import write_config
from support.nginx import PROGRAM, behind_nginx
from support.running import running
from support.server_process import Server, serving
from support.waiting import wait_until
from support.wiki import configuration

from rag_serving.api.app import MAX_BODY_BYTES, create_app
from rag_serving.api.limits import FREE_GUESSES
from rag_serving.api.process import ReadInTime
from rag_serving.api.server import uvicorn_settings
from rag_serving.api.streams import HEADERS

HEAD = "POST /v1/ask HTTP/1.1\r\nHost: citelock.test\r\nContent-Type: application/json\r\nAuthorization: Bearer ann\r\n"
SHORTER = {
    "client_header_timeout 10s;": "client_header_timeout 1s;",
    "client_body_timeout 30s;": "client_body_timeout 2s;",
    "limit_conn address 256;": "limit_conn address 4;",
    "worker_processes auto;": "worker_processes 1;",
    "worker_connections 8192;": "worker_connections 64;",
}
BODY_S = 3.0
IMPATIENT = f"import rag_serving.api.wire as w; w.BODY_S = {BODY_S}; from rag_serving.cli.main import main; main()"
OTHERS = "127.0.0.2"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key and its certificate."""
    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "citelock.test")]), datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = made.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    (folder / "tls.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    return folder


@contextmanager
def proxied(url: str, tls: Path, **changed: str) -> Iterator[str]:
    """The address of an nginx before a server; skips where it is not installed, and fails in CI."""
    if PROGRAM is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("Debian's nginx-light is not installed")
    with behind_nginx(int(url.rpartition(":")[2]), tls, {**SHORTER, **changed}) as port:
        yield f"https://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A model server that takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.fixture(scope="module")
def server(wiki_home: Path, tmp_path_factory: pytest.TempPathFactory, silent: str) -> Iterator[Server]:
    more = f"""
serving: {{auth: tokens, trusted_proxies: [127.0.0.1]}}
generation: {{provider: openai, base_url: '{silent}', model: m, timeout_s: 2}}
"""
    config = write_config(tmp_path_factory.mktemp("configured"), wiki_home, more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", json.dumps({"ann": {"tenant": "acme", "user": "ann"}}))
        patch.setattr(server_process, "CITELOCK", [sys.executable, "-c", IMPATIENT])
        with serving(config, patch, processes=1) as started:
            yield started


@pytest.fixture
def url(server: Server, certificate: Path) -> Iterator[str]:
    with proxied(server.url, certificate) as address:
        yield address


def client(url: str, address: str = "127.0.0.1", token: str = "ann") -> httpx.Client:
    transport = httpx.HTTPTransport(verify=False, local_address=address)
    return httpx.Client(base_url=url, timeout=60, headers=bearer(token), transport=transport)


def opened(url: str, content: str, address: str = OTHERS) -> ssl.SSLSocket:
    """A connection from an address on which something was sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 30, source_address=(address, 0))
    made = context.wrap_socket(plain)
    made.sendall(content.encode())
    return made


def received(connection: ssl.SSLSocket) -> bytes:
    """What comes until the connection is closed."""
    found = b""
    with suppress(ConnectionResetError, ssl.SSLError), connection:
        while part := connection.recv(65_536):
            found += part
    return found


def test_an_answer_passes_and_a_stream_passes_as_it_is_sent(url: str) -> None:
    with client(url) as good:
        assert good.post("/v1/ask", json=QUESTION).json()["status"] == "answered"
        with good.stream("POST", "/v1/ask", json={**QUESTION, "stream": True}) as stream:
            lines = [(time.monotonic(), line) for line in stream.iter_lines()]
    names = [name for name, _ in events_in("\n".join(line for _, line in lines) + "\n\n")]
    assert (names[0], names[-1]) == ("progress", "answer")
    assert lines[-1][0] - lines[0][0] > 1  # the model was waited for between them


def test_headers_that_do_not_come_close_the_connection(url: str) -> None:
    slow = [opened(url, content) for content in ("", "GET / HTT", HEAD)]
    dripping = opened(url, HEAD + "X: ")
    with suppress(OSError):
        while True:
            dripping.sendall(b"x")
            time.sleep(0.1)
    assert [received(each) for each in (*slow, dripping)] == [b""] * 4
    with client(url) as good:
        assert good.post("/v1/ask", json=QUESTION).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(url: str) -> None:
    silent = opened(url, f"{HEAD}Content-Length: 900\r\n\r\n{{")
    assert received(silent) == b""
    began, dripping = time.monotonic(), opened(url, f"{HEAD}Content-Length: 900\r\n\r\n{{")
    dripping.settimeout(0.5)
    answer = b""
    with suppress(OSError):
        while not answer:
            dripping.sendall(b" ")
            with suppress(TimeoutError):
                answer = dripping.recv(65_536)
    assert (b" 408 " in answer, b"TOO_SLOW" in answer + received(dripping)) == (True, True)
    assert time.monotonic() - began >= BODY_S


def test_one_address_has_so_many_requests_under_way(url: str) -> None:
    held: list[ssl.SSLSocket] = []
    with client(url, OTHERS) as greedy, client(url) as good:

        def is_full() -> bool:
            held.extend(opened(url, f"{HEAD}Content-Length: 900\r\n\r\n{{") for _ in range(4))
            return greedy.get("/healthz").status_code == 429

        wait_until(is_full)
        assert good.get("/healthz").status_code == 200
        for each in held:
            each.close()
        wait_until(lambda: greedy.get("/healthz").status_code == 200)


def test_one_address_has_so_many_requests_a_second(server: Server, certificate: Path) -> None:
    fewer = {"rate=100r/s;": "rate=1r/s;", "burst=400": "burst=40"}
    with proxied(server.url, certificate, **fewer) as url, client(url) as good:
        request = "GET /healthz HTTP/1.1\r\nHost: citelock.test\r\n"
        answers = received(opened(url, f"{request}\r\n" * 200 + f"{request}Connection: close\r\n\r\n"))
        assert answers.count(b"HTTP/1.1 429 ") > answers.count(b"HTTP/1.1 200 ") >= 40
        assert good.get("/healthz").status_code == 200


def test_idle_connections_make_room(url: str) -> None:
    with client(url) as good:
        idle = [opened(url, "GET /healthz HTTP/1.1\r\nHost: citelock.test\r\n\r\n") for _ in range(80)]
        assert good.get("/healthz").status_code == 200
        assert received(idle[0]).startswith(b"HTTP/1.1 200 ")
        for each in idle:
            each.close()


def test_a_huge_body_is_refused(url: str) -> None:
    with client(url) as good:
        too_much = good.post("/v1/ask", content=b" " * (MAX_BODY_BYTES + 1))
        assert (too_much.status_code, too_much.json()["code"]) == (413, "TOO_LARGE")
        endless = received(opened(url, f"{HEAD}Content-Length: {10**12}\r\n\r\n"))
        assert endless.startswith(b"HTTP/1.1 413 ")


def guesses(url: str, address: str, forged: str = "") -> int:
    """What an address is answered to one wrong token more than is free."""
    with client(url, address) as guessing:
        headers = {"X-Forwarded-For": forged} if forged else {}
        for number in range(FREE_GUESSES + 1):
            answer = guessing.get("/v1/models", headers={**bearer(f"{address} {number}"), **headers})
    return answer.status_code


def test_each_address_counts_by_itself_whatever_it_says_that_it_is(url: str) -> None:
    assert guesses(url, "127.0.0.3") == 429
    with client(url, "127.0.0.4", "wrong") as other:
        assert other.get("/v1/models").status_code == 401
    assert guesses(url, "127.0.0.5", forged="10.0.0.1") == 429


def test_a_proxy_that_is_not_trusted_is_one_address(
    wiki_home: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", '{"ann": {"tenant": "acme"}}')
    config = configuration(wiki_home, serving={"auth": "tokens"})
    with (
        running(create_app(config), **{**uvicorn_settings(config.serving), "port": 0}) as behind,
        proxied(behind, certificate) as url,
    ):
        assert guesses(url, "127.0.0.3") == 429
        with client(url, "127.0.0.4", "wrong") as other:
            assert other.get("/v1/models").status_code == 429


def test_who_takes_a_stream_byte_by_byte_holds_it_no_longer_than_the_server_lets_him(certificate: Path) -> None:
    """nginx waits anew after each byte."""
    app, ended = FastAPI(), threading.Event()
    app.add_middleware(ReadInTime, unread_s=1.0)

    class Endless(StreamingResponse):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await super().__call__(scope, receive, send)
            finally:
                ended.set()

    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000
            await asyncio.sleep(0)

    @app.get("/stream")
    async def stream() -> Response:
        return Endless(parts(), headers=HEADERS)

    with running(app, http="h11") as behind, proxied(behind, certificate) as url:
        slow = opened(url, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        until = time.monotonic() + 60
        while not ended.wait(0.2):
            assert time.monotonic() < until
            with suppress(OSError):
                slow.recv(1)
        slow.close()
