"""A site that leads elsewhere, never ends, or answers without bounds, over loopback."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import running

from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.transport import (
    AccessRefused,
    AtlassianTransport,
    HttpLimits,
    RefusedError,
    ServerFault,
    hosts_of,
)
from rag_serving.config.sources import NoAuth

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def served(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server whose every GET is `answer`, its address, and the paths that were asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            try:
                answer(self)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with running.served(server):
        yield f"http://127.0.0.1:{server.server_port}", asked


def client_of(url: str, *hosts: str, max_bytes: int = 200_000, deadline_s: float = 30) -> ConfluenceClient:
    transport = AtlassianTransport(url, NoAuth(), 10, HttpLimits(url, hosts, max_bytes, deadline_s))
    return ConfluenceClient(url, transport, max_retries=0)


def redirect(location: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def content(handler: BaseHTTPRequestHandler) -> None:
    body = b'{"internal": true}'
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def drip_of_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)


def drip_of_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drip_of_chunks(handler, b"x", head=False)


def drip_of_chunks(handler: BaseHTTPRequestHandler, piece: bytes = b"1\r\nx\r\n", head: bool = True) -> None:
    if head:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        handler.wfile.write(piece)
        time.sleep(0.05)


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def endless_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        handler.wfile.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")


def packed(handler: BaseHTTPRequestHandler) -> None:
    body = gzip.compress(bytes(50_000_000))
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_a_download_is_not_led_to_another_port_or_host() -> None:
    with served(content) as (inside, asked):
        port = inside.rpartition(":")[2]
        for there in (f"{inside}/secret", f"http://localhost:{port}/", f"http://[::1]:{port}/", "file:///etc/passwd"):
            with served(redirect(there)) as (site, _), client_of(site) as client, pytest.raises(AccessRefused):
                client.download("/download/a.txt")
        assert asked == []


def test_a_download_follows_to_the_site_itself_and_to_listed_hosts() -> None:
    with (
        served(content) as (inside, _),
        served(redirect(f"{inside}/file")) as (site, _),
        client_of(site, inside.removeprefix("http://")) as client,
    ):
        assert client.download("/download/a.txt") == b'{"internal": true}'
    moved = iter([redirect("/there"), content])
    with served(lambda handler: next(moved)(handler)) as (site, asked), client_of(site) as client:
        assert client.download("/here") == b'{"internal": true}'
        assert asked == ["/here", "/there"]


@pytest.mark.parametrize("answer", [drip_of_body, drip_of_headers, drip_of_chunks])
def test_a_drip_ends_at_the_deadline(answer: Answer) -> None:
    with served(answer) as (site, _), client_of(site, deadline_s=0.4) as client:
        began = time.monotonic()
        with pytest.raises(ServerFault, match=r"within 0\.4 s"):
            client.download("/a")
        assert time.monotonic() - began < 8


@pytest.mark.parametrize("answer", [endless, endless_chunks, packed])
def test_reading_stops_at_the_limit(answer: Answer) -> None:
    with (
        served(answer) as (site, _),
        client_of(site) as client,
        pytest.raises(AccessRefused, match="larger than 200000 bytes"),
    ):
        client.download("/a")


def test_an_endless_row_of_redirects_ends() -> None:
    with served(redirect("/again")) as (site, asked), client_of(site) as client:
        with pytest.raises(Exception, match="redirects"):
            client.download("/a")
        assert len(asked) <= 7


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.7"]
)
def test_a_listed_name_is_no_private_address(address: str) -> None:
    limits = HttpLimits("https://8.8.8.8", ("files.example.com",))
    with pytest.raises(RefusedError, match="private"):
        limits.check_peer("files.example.com", address)
    limits.check_peer("8.8.8.8", address)
    limits.check_peer("files.example.com", "8.8.4.4")


def test_a_connection_checks_its_address_before_it_sends() -> None:
    with served(content) as (inside, asked):
        port = inside.rpartition(":")[2]
        limits = HttpLimits("http://8.8.8.8", (f"localhost:{port}",))
        transport = AtlassianTransport(f"http://localhost:{port}", NoAuth(), 5, limits)
        with pytest.raises(RefusedError, match="private"):
            transport("a", {})
        assert asked == []


@pytest.mark.parametrize("url", ["http://wiki.example/x", "https://wiki.example:8443/x", "https://wiki.example@evil/x"])
def test_another_scheme_port_or_user_is_not_the_site(url: str) -> None:
    with pytest.raises(RefusedError):
        HttpLimits("https://wiki.example").check(url)


def test_the_cloud_keeps_files_on_a_host_of_its_own() -> None:
    limits = HttpLimits("https://acme.atlassian.net/wiki", hosts_of("https://acme.atlassian.net/wiki", []))
    limits.check("https://api.media.atlassian.com/file/1")
    assert hosts_of("https://wiki.example", []) == ()


def test_a_link_out_of_a_dump_is_not_followed(tmp_path: Path) -> None:
    from rag_assets.sources.confluence_dump import dump_files
    from rag_assets.sources.envelope import EnvelopeError

    dump = tmp_path / "dump"
    dump.mkdir()
    (tmp_path / "secret.json").write_text("{}")
    (dump / "1.json").write_text("{}")
    (dump / "2.json").symlink_to(tmp_path / "secret.json")
    (dump / "3.json").symlink_to(dump / "1.json")
    with dump_files(dump) as files:
        inside, out, beside = files.envelopes
        assert inside.read() == beside.read() == b"{}"
        with pytest.raises(EnvelopeError, match="out of the dump"):
            out.read()


def test_a_link_in_a_zip_is_no_page(tmp_path: Path) -> None:
    import stat
    import zipfile

    from rag_assets.sources.confluence_dump import dump_files
    from rag_assets.sources.envelope import EnvelopeError

    link = zipfile.ZipInfo("1.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "dump.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with dump_files(tmp_path / "dump.zip") as files, pytest.raises(EnvelopeError, match="link"):
        files.envelopes[0].read()
