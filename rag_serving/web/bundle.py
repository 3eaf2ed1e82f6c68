"""The bundle of the web page: files read once, each with its type, its digest and its compressed copies.

Belongs here: reading the folder, choosing a copy by what a client accepts.
Does not belong here: routes and headers (`web.routes`), the bundle's sources (the folder `web/`).
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
    """Return the files of a folder by their path in it (`assets/main-1a2b.js`); none if it is absent. Files without
    a gzip copy get one here.

    Files of other types, links that lead out of the folder, and the compressed copies themselves are left out.
    """
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
        weights[name.strip()] = _quality(parameter.strip())
    return weights


def _quality(parameter: str) -> float:
    if not parameter:
        return 1.0
    try:
        return min(1.0, max(0.0, float(parameter.removeprefix("q="))))
    except ValueError:
        return 0.0
