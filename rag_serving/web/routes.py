"""The routes of the web page: the same document at each of its addresses, its assets, the snippet for other sites.

Belongs here: the page's paths and their headers. Nothing of a tenant is in any of them, so they need no authentication;
the page gets its data from the API.
Does not belong here: reading the files (`web.bundle`), the page's requests (`api.app`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rag_serving.web.bundle import INDEX, StaticFile

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
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
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
        router.add_api_route("/assets/{name:path}", self._asset, methods=_METHODS)
        for name in self._files:
            if "/" not in name and name != INDEX:
                router.add_api_route(f"/{name}", self._at_root, methods=_METHODS)
        return router

    async def _document(self, request: Request) -> Response:
        if INDEX not in self._files:
            raise HTTPException(404, _UNBUILT)
        is_handover = request.url.path == _HANDOVER
        opened = {"Cross-Origin-Opener-Policy": "unsafe-none"} if is_handover else {}
        return _response(request, self._files[INDEX], {**_DOCUMENT, **opened})

    async def _asset(self, request: Request, name: str) -> Response:
        return _response(request, self._named(f"assets/{name}"), _IMMUTABLE)

    async def _at_root(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return _response(request, self._named(name), _SHARED if name == _EMBED else _HOUR)

    def _named(self, name: str) -> StaticFile:
        """Return a file by its path in the bundle. Paths are looked up, never opened."""
        file = self._files.get(name)
        if file is None:
            raise HTTPException(404)
        return file


def _response(request: Request, file: StaticFile, more: Mapping[str, str]) -> Response:
    copy = file.copy_for(request.headers.get("accept-encoding", ""))
    headers: dict[str, Any] = {**_ALWAYS, **more, "ETag": copy.etag}
    if copy.etag in request.headers.get("if-none-match", "") and "no-store" not in headers["Cache-Control"]:
        return Response(status_code=304, headers=headers)
    if copy.encoding:
        headers["Content-Encoding"] = copy.encoding
    return Response(copy.content, headers={**headers, "Content-Type": file.media_type})
