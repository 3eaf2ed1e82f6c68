"""A stand-in for an object store: ListObjectsV2 and GetObject over loopback, a few objects a page, with faults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from support.running import served


class Bucket:
    """Objects by key, and what goes wrong: `faults` answers of that status first, then all is well."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.page = 2  # keys of a listing in one answer
        self.faults: list[int] = []
        self.broken_after: str | None = None  # a listing that gets here fails for good
        self.fetched: list[str] = []
        self.url = ""

    def listing(self, query: dict[str, list[str]]) -> str:
        """Return one page of a listing as XML."""
        prefix, token = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > token)
        page, more = keys[: self.page], len(keys) > self.page
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-01T10:00:00.000Z</LastModified>"
            f"<ETag>&quot;{etag(self.objects[key])}&quot;</ETag><Size>{len(self.objects[key])}</Size></Contents>"
            for key in page
        )
        following = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(page)}</KeyCount>"
            f"{contents}{following}</ListBucketResult>"
        )


def etag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@contextmanager
def running(bucket: Bucket) -> Iterator[Bucket]:
    """Serve a bucket on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query, key = parse_qs(parts.query), unquote(parts.path).removeprefix("/team").lstrip("/")
            if bucket.faults:
                self._answer(bucket.faults.pop(0), b"<Error><Code>SlowDown</Code></Error>")
            elif "list-type" in query:
                token = query.get("continuation-token", [""])[0]
                is_broken = bucket.broken_after is not None and token >= bucket.broken_after
                self._answer(403 if is_broken else 200, b"" if is_broken else bucket.listing(query).encode())
            elif (content := bucket.objects.get(key)) is None:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            elif self.headers.get("If-Match", "").strip('"') not in ("", etag(content)):
                self._answer(412, b"")
            else:
                bucket.fetched.append(key)
                self._answer(200, content)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{etag(body)}"')
            self.send_header("Last-Modified", "Sun, 01 Nov 2026 10:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    bucket.url = f"http://127.0.0.1:{server.server_port}"
    with served(server):
        yield bucket
