"""The web page: its files, read once with their compressed copies, and its routes. Nothing of a tenant is in any of
them, so they need no authentication; the page gets its data from the API."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""Content codings by preference, with the ending of the copy."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Types by ending: those of the machine's own table differ from one to the next."""
_PACKED = frozenset({"image/png", "font/woff2"})
"""Types that are compressed as they are."""
_MAX_ACCEPTED = 20
"""Codings that are read of one header."""


@dataclass(frozen=True)
class Copy:
    """A file as it is sent; `encoding` is its content coding, None if it has none."""

    content: bytes
    encoding: str | None = None

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


@dataclass(frozen=True)
class StaticFile:
    """A file of the bundle, with its compressed copies."""

    media_type: str
    plain: Copy
    encoded: Mapping[str, Copy] = field(default_factory=dict)

    def copy_for(self, accept_encoding: str) -> Copy:
        """Return the copy that an `Accept-Encoding` header prefers (RFC 9110, 12.5.3); the plain one if none is."""
        weights = _weights(accept_encoding)
        offered = {name: weights.get(name, weights.get("*", 0.0)) for name in self.encoded}
        best = max(offered, key=lambda name: offered[name], default=None)
        return self.encoded[best] if best and offered[best] > 0 else self.plain


def read_bundle(folder: Path = STATIC) -> Mapping[str, StaticFile]:
    """Return the files of a folder by their path in it (`assets/main-1a2b.js`); none if it is absent. Files without a
    gzip copy get one here. Files of other types, links that lead out of the folder, and the compressed copies
    themselves are left out."""
    root = folder.resolve()
    paths = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.resolve().is_relative_to(root)
    }
    return {name: _read(path) for name, path in paths.items() if path.suffix in _TYPES}


def _read(path: Path) -> StaticFile:
    copies = {name: path.with_name(path.name + ending) for name, ending in _ENCODINGS.items()}
    encoded = {name: Copy(copy.read_bytes(), name) for name, copy in copies.items() if copy.is_file()}
    content, media_type = path.read_bytes(), _TYPES[path.suffix]
    if "gzip" not in encoded and media_type not in _PACKED:
        encoded["gzip"] = Copy(gzip.compress(content, mtime=0), "gzip")
    return StaticFile(media_type, Copy(content), encoded)


def _weights(accept_encoding: str) -> dict[str, float]:
    """Return the weight of each content coding of the header; one that is not a number counts as 0."""
    weights: dict[str, float] = {}
    for part in accept_encoding.lower().split(",")[:_MAX_ACCEPTED]:
        name, _, parameter = part.partition(";")
        weight = 1.0
        if quality := parameter.strip():
            try:
                weight = min(1.0, max(0.0, float(quality.removeprefix("q="))))
            except ValueError:
                weight = 0.0
        weights[name.strip()] = weight
    return weights


_HANDOVER = "/ask"
"""Where another site's `embed.js` hands a text over: the one address whose opener may write to the page."""
_VIEWS = ("/", "/a/{receipt_id}", "/p/{page_id:path}", "/check", "/documents", "/status")
_EMBED = "embed.js"
_METHODS = ["GET", "HEAD"]
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Accept-Encoding"}
_DOCUMENT = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
_HOUR = {"Cache-Control": "public, max-age=3600"}
_SHARED = {**_HOUR, "Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
_UNBUILT = "the web page is not built here: run `npm ci && npm run build` in the folder web, or install a wheel"


class WebPage:
    """The web page over a bundle."""

    def __init__(self, files: Mapping[str, StaticFile]) -> None:
        self._files = files

    def serves(self, method: str, path: str) -> bool:
        """Return whether a request is for the page itself, which needs no authentication."""
        if method not in _METHODS:
            return False
        name = path.removeprefix("/")
        return (
            path in ("/", "/check", "/documents", "/status", _HANDOVER, f"/{_EMBED}")
            or path.startswith(("/a/", "/p/", "/assets/"))
            or ("/" not in name and name in self._files)
        )

    def router(self) -> APIRouter:
        """Return the routes. They come after the API's: no file replaces an API route."""
        router = APIRouter(include_in_schema=False)
        for view in (*_VIEWS, _HANDOVER):
            router.add_api_route(view, self._document, methods=_METHODS)
        router.add_api_route("/assets/{name:path}", self._file, methods=_METHODS)
        for name in self._files:
            if "/" not in name and name != INDEX:
                router.add_api_route(f"/{name}", self._file, methods=_METHODS)
        return router

    async def _document(self, request: Request) -> Response:
        if INDEX not in self._files:
            raise HTTPException(404, _UNBUILT)
        is_handover = request.url.path == _HANDOVER
        opened = {"Cross-Origin-Opener-Policy": "unsafe-none"} if is_handover else {}
        return _response(request, self._files[INDEX], {**_DOCUMENT, **opened})

    async def _file(self, request: Request) -> Response:
        """Return a file by its path in the bundle. Paths are looked up, never opened."""
        name = request.scope["path"].removeprefix("/")
        if name not in self._files:
            raise HTTPException(404)
        cached = _IMMUTABLE if name.startswith("assets/") else _SHARED if name == _EMBED else _HOUR
        return _response(request, self._files[name], cached)


def _response(request: Request, file: StaticFile, more: Mapping[str, str]) -> Response:
    copy = file.copy_for(request.headers.get("accept-encoding", ""))
    headers: dict[str, Any] = {**_ALWAYS, **more, "ETag": copy.etag}
    if copy.etag in request.headers.get("if-none-match", "") and "no-store" not in headers["Cache-Control"]:
        return Response(status_code=304, headers=headers)
    if copy.encoding:
        headers["Content-Encoding"] = copy.encoding
    return Response(copy.content, headers={**headers, "Content-Type": file.media_type})
