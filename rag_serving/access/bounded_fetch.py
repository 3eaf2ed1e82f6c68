"""JSON documents of a provider over HTTP, each within a time and a size: the one module of this room with a socket.

Belongs here: one request. Does not belong here: what is asked of whom (`provider`).
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

from rag_serving.config.oidc import is_encrypted
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
