"""An S3-compatible server (moto's) on a socket of this machine, and a proxy before it that fails as told."""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from support.running import served

BUCKET = "citelock"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@contextmanager
def s3_server() -> Iterator[str]:
    """The server's address; it has one empty bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name=CREDENTIALS["AWS_REGION"],
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    try:
        yield address
    finally:
        server.stop()


Fault = Callable[[str, str], str]
"""By method and path: "" for none, "500", "cut" (no answer), "cut after" (done, but no answer), "flip" (a bit of the
body), "empty list", "first of list" (all but one left out), "old list" (as it was first), "slow", "unconditional"
(conditions of writes are ignored)."""


class FaultyProxy(ThreadingHTTPServer):
    """Hands requests on to the server and answers back, unless `fault` says otherwise."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target)
        self.fault: Fault = lambda _method, _path: ""
        self.asked: list[str] = []
        self.lists: dict[str, bytes] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Of connections that were cut."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy
    hop: ClassVar[set[str]] = {"connection", "transfer-encoding", "content-length", "keep-alive"}

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.asked.append(f"{self.command} {self.path}")
            fault = self.server.fault(self.command, self.path)
        if fault == "cut":
            self.close_connection = True
            self.connection.close()
            return
        if fault == "slow":
            time.sleep(0.3)
        if fault == "500":
            self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        if fault == "unconditional":
            for name in ("If-Match", "If-None-Match"):
                del self.headers[name]
        status, headers, content = self._forwarded(body)
        if fault == "cut after":
            self.close_connection = True
            self.connection.close()
            return
        if fault == "flip" and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        if fault == "empty list":
            content = b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>'
        if fault == "first of list":
            first, _, rest = content.partition(b"</Contents>")
            content = first + b"</Contents></ListBucketResult>" if rest else content
            content = content.replace(b"<IsTruncated>true", b"<IsTruncated>false")
        if fault == "old list":
            content = self.server.lists.setdefault(self.path, content)
        self._answer(status, headers, content)

    def _forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        target = self.server.target
        connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in self.hop}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            kept = {name: value for name, value in response.getheaders() if name.lower() not in self.hop}
            return response.status, kept, response.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", headers.get("content-length", str(len(content))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def faulty(target: str) -> Iterator[FaultyProxy]:
    with served(FaultyProxy(target)) as proxy:
        yield proxy
