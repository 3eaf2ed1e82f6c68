"""An issuer's published documents (OpenID Connect Discovery 1.0, RFC 8414, RFC 7517), and one request for each.

Belongs here: JSON documents over HTTP, each within a time and a size; whether metadata are the issuer's own. The one
module of this room with a socket. Does not belong here: signing in (`provider`), the lifetime of keys (`key_sets`).
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from rag_serving.access.key_sets import KeysDownError
from rag_serving.config.serving import is_encrypted
from rag_serving.escaping.redaction import RedactedError

MAX_BYTES = 262_144


class FetchError(RedactedError):
    """A document was not got; the message says of which host and why."""


async def fetch_json(
    url: str, seconds: float, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of an answer; `form` is sent by POST. No redirect is followed.

    Raises:
        FetchError: it cannot be reached, takes longer than `seconds` in all, is longer than MAX_BYTES, or no object.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    if not is_encrypted(url):
        raise FetchError(f"{host} is not asked: the address is not https")
    try:
        async with asyncio.timeout(seconds):
            status, body = await _read(url, seconds, form, auth)
        content = json.loads(body)
    except TimeoutError:
        raise FetchError(f"{host} did not answer within {seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise FetchError(f"{host} cannot be reached ({type(error).__name__})") from None
    except (ValueError, RecursionError):
        raise FetchError(f"{host} answered no JSON") from None
    if not isinstance(content, dict):
        raise FetchError(f"{host} answered no JSON object")
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
            raise FetchError(f"{response.url.host} answered in an encoding that was not asked for")
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                raise FetchError(f"{response.url.host} answered more than {MAX_BYTES} bytes")
        return response.status_code, bytes(body)


@cache
def _tls_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def metadata_url(issuer: str) -> str:
    """Return the address of an issuer's metadata."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def check_issuer(metadata: Mapping[str, Any], issuer: str, key: str) -> None:
    """Refuse metadata of another issuer. `key`: of the configuration, for the message.

    Raises:
        KeysDownError: it is.
    """
    if metadata.get("issuer") != issuer:
        raise KeysDownError(f"the metadata is of another issuer than {key}, to the letter")


async def published_keys(issuer: str, timeout_s: float) -> dict[str, Any]:
    """Return an issuer's JWK set, located through its metadata.

    Raises:
        KeysDownError: the metadata or the keys are unavailable, or are not the issuer's own.
    """
    metadata = await published(metadata_url(issuer), timeout_s)
    check_issuer(metadata, issuer, "serving.jwt.issuer")
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or not is_encrypted(url):
        raise KeysDownError("the metadata lacks the address of keys, or names one that is not https")
    return await published(url, timeout_s)


async def published(url: str, timeout_s: float) -> dict[str, Any]:
    """Return a JSON object that is published at an address.

    Raises:
        KeysDownError: it cannot be had.
    """
    try:
        status, content = await fetch_json(url, timeout_s)
    except FetchError as error:
        raise KeysDownError(str(error)) from None
    if status != 200:
        raise KeysDownError(f"{url}: HTTP {status}")
    return content
