"""The keys by which tokens are believed, and an issuer's documents (OpenID Connect Discovery 1.0, RFC 8414, RFC 7517).
The one module of this room with a socket. Keys are used by the event loop alone, and so without locks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from rag_serving.access.token_validation import Jwk, keys_for
from rag_serving.config.serving import is_encrypted
from rag_serving.escaping.redaction import RedactedError

PAUSE_S = 10.0
"""Seconds between two looks for a key that is not known: who makes up key ids causes no more."""
FAILED_S = 2.0
"""Seconds for which an issuer that failed is not asked for its keys again."""
WAIT_S = 0.25
"""Seconds that a token whose key is known, but was not fetched lately, waits for newer keys."""
_PUBLIC_PARTS = ("kty", "crv", "n", "e", "x", "y", "k")

Clock = Callable[[], float]


class IssuerDownError(RedactedError):
    """A document of an issuer, such as its keys, cannot be had; the message is for operators."""


@dataclass(frozen=True)
class Ages:
    """Lifetimes of fetched keys, in seconds: without a refresh, and while they cannot be fetched."""

    fresh_s: float
    kept_s: float


def thumbprint_of(key: Jwk) -> str:
    """Return a digest of a key (after RFC 7638)."""
    parts = {name: key[name] for name in _PUBLIC_PARTS if name in key}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


class ConfiguredKeys:
    """Keys of the configuration; one without an id may have signed any token of its algorithm."""

    def __init__(self, keys: Sequence[Jwk]) -> None:
        self._keys = keys

    async def matching(self, algorithm: str, kid: str | None) -> list[Jwk]:
        found = keys_for(self._keys, algorithm, None)
        return [key for key in found if kid is None or key.get("kid", kid) == kid]

    async def holds(self, thumbprint: str) -> bool:
        return any(thumbprint_of(key) == thumbprint for key in self._keys)

    async def all(self) -> Sequence[Jwk]:
        return self._keys


class FetchedKeys:
    """Keys that an issuer publishes, fetched when they are needed. Of requests at once one fetches for all."""

    def __init__(self, fetch: Callable[[], Awaitable[dict[str, Any]]], ages: Ages, clock: Clock = time.monotonic):
        """`fetch` returns a JWK set (RFC 7517) and raises IssuerDownError."""
        self._fetch, self._ages, self._clock = fetch, ages, clock
        self._keys: list[Jwk] | None = None
        self._fetched = self._tried = float("-inf")
        self._fault: IssuerDownError | None = None
        self._under_way: asyncio.Task[None] | None = None

    async def matching(self, algorithm: str, kid: str | None) -> list[Jwk]:
        found = keys_for(self._usable(), algorithm, kid)
        if self._is_fresh() and (found or self._clock() - self._fetched < PAUSE_S):
            return found
        await self._refresh(WAIT_S if found else None)
        found = keys_for(self._usable(), algorithm, kid)
        if not found and self._fault:
            raise self._fault
        return found

    async def holds(self, thumbprint: str) -> bool:
        return any(thumbprint_of(key) == thumbprint for key in await self.all())

    async def all(self) -> list[Jwk]:
        """Return all keys; errors as `matching`."""
        if not self._is_fresh():
            await self._refresh(WAIT_S if self._usable() else None)
        if self._fault and not self._usable():
            raise self._fault
        return self._usable()

    def _is_fresh(self) -> bool:
        return self._keys is not None and self._clock() - self._fetched < self._ages.fresh_s

    def _usable(self) -> list[Jwk]:
        kept_s = max(self._ages.kept_s, self._ages.fresh_s)
        return self._keys if self._keys is not None and self._clock() - self._fetched < kept_s else []

    async def _refresh(self, wait_s: float | None) -> None:
        """Fetch the keys, or wait for a fetch under way, at most `wait_s`; after a fault do not retry for FAILED_S."""
        if self._fault and self._clock() - self._tried < FAILED_S:
            return
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._fetched_once())
        await asyncio.wait([self._under_way], timeout=wait_s)

    async def _fetched_once(self) -> None:
        try:
            listed = (await self._fetch()).get("keys")
            if not isinstance(listed, list):
                raise IssuerDownError("the issuer's keys are no list")
        except IssuerDownError as error:
            self._fault, self._tried = error, self._clock()
            return
        # A secret that somebody publishes is none.
        self._keys = [key for key in listed if isinstance(key, dict) and key.get("kty") != "oct"]
        self._fault, self._fetched = None, self._clock()


MAX_BYTES = 262_144

KeySet = ConfiguredKeys | FetchedKeys
"""Keys that may have signed a token; where they cannot be fetched, each method raises IssuerDownError."""


async def fetch_json(
    url: str, seconds: float, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of an answer; `form` is sent by POST. No redirect is followed. Raises
    IssuerDownError: it cannot be reached, takes longer than `seconds` in all, has more than MAX_BYTES, or no object."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    if not is_encrypted(url):
        raise IssuerDownError(f"{host} is not asked: the address is not https")
    try:
        async with asyncio.timeout(seconds):
            status, body = await _read(url, seconds, form, auth)
        content = json.loads(body)
    except TimeoutError:
        raise IssuerDownError(f"{host} did not answer within {seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise IssuerDownError(f"{host} cannot be reached ({type(error).__name__})") from None
    except (ValueError, RecursionError):
        raise IssuerDownError(f"{host} answered no JSON") from None
    if not isinstance(content, dict):
        raise IssuerDownError(f"{host} answered no JSON object")
    return status, content


async def _read(
    url: str, seconds: float, form: Mapping[str, str] | None, auth: tuple[str, str] | None
) -> tuple[int, bytes]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}  # nothing that grows when it is unpacked
    body = bytearray()
    async with (
        httpx.AsyncClient(verify=_tls_context(), timeout=seconds, follow_redirects=False) as client,
        client.stream("GET" if form is None else "POST", url, data=form, headers=headers, auth=auth) as response,
    ):
        if response.headers.get("content-encoding", "identity") != "identity":
            raise IssuerDownError(f"{response.url.host} answered in an encoding that was not asked for")
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                raise IssuerDownError(f"{response.url.host} answered more than {MAX_BYTES} bytes")
        return response.status_code, bytes(body)


@cache
def _tls_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def metadata_url(issuer: str) -> str:
    """Return the address of an issuer's metadata."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def check_issuer(metadata: Mapping[str, Any], issuer: str, key: str) -> None:
    """Refuse metadata of another issuer. `key`: of the configuration, for the message. Raises IssuerDownError."""
    if metadata.get("issuer") != issuer:
        raise IssuerDownError(f"the metadata is of another issuer than {key}, to the letter")


async def published_keys(issuer: str, timeout_s: float) -> dict[str, Any]:
    """Return an issuer's JWK set, located through its metadata. Raises IssuerDownError: the metadata or the keys are
    unavailable, or are not the issuer's own."""
    metadata = await published(metadata_url(issuer), timeout_s)
    check_issuer(metadata, issuer, "serving.jwt.issuer")
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or not is_encrypted(url):
        raise IssuerDownError("the metadata lacks the address of keys, or names one that is not https")
    return await published(url, timeout_s)


async def published(url: str, timeout_s: float) -> dict[str, Any]:
    """Return a JSON object that is published at an address. Raises IssuerDownError: it cannot be had."""
    status, content = await fetch_json(url, timeout_s)
    if status != 200:
        raise IssuerDownError(f"{url}: HTTP {status}")
    return content
