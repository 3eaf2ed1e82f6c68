"""Another model server, which gets requests unchanged (`serving.check_proxy`).

Belongs here: one request on its way there and back, within bounds. Does not belong here: checking the answer
(`api.check_proxy`), models for Citelock itself (`chat`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from rag_serving.config.serving import CheckProxy
from rag_serving.escaping.redaction import RedactedError
from rag_serving.models.http import bearer, tls_context
from rag_serving.models.protocols import ModelError

_THERE, _BACK = ("content-type", "accept"), ("content-type", "retry-after", "x-request-id")
_MAX_BYTES = 20_000_000


class UpstreamError(RedactedError):
    """It cannot be reached, falls silent, or breaks off; `status`: of the response to the caller."""

    def __init__(self, message: str, status: int = 502) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class UpstreamAnswer:
    """Its response, while it arrives."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def passed_on(
    proxy: CheckProxy, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> AsyncIterator[UpstreamAnswer]:
    """Ask the upstream and nobody else: no redirect is followed, no credential of the caller goes along, and no cookie
    is kept, for each request has a client of its own.

    Raises:
        UpstreamError: there is no key, no answer, or no more of it.
    """
    sent = {name: headers[name] for name in _THERE if name in headers} | {"Accept-Encoding": "identity"}
    timeout, url = (
        httpx.Timeout(proxy.timeout_s, connect=proxy.connect_timeout_s),
        f"{proxy.upstream.rstrip('/')}{path}",
    )
    try:
        sent |= bearer(proxy.api_key_env, "serving.check_proxy.api_key_env")
        async with (
            httpx.AsyncClient(verify=tls_context(), timeout=timeout, follow_redirects=False) as client,
            client.stream(method, url, headers=sent, content=body or None) as response,
        ):
            if response.headers.get("content-encoding", "identity") != "identity":
                raise UpstreamError("the upstream answered in an encoding that was not asked for")
            back = {name: response.headers[name] for name in _BACK if name in response.headers}
            yield UpstreamAnswer(response.status_code, back, _bounded(response))
    except ModelError as error:
        raise UpstreamError("the upstream's key is missing", 503) from error
    except httpx.TimeoutException as error:
        raise UpstreamError("the upstream does not answer in time", 504) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UpstreamError("the upstream does not answer, or broke off") from error


async def _bounded(response: httpx.Response) -> AsyncIterator[bytes]:
    left = _MAX_BYTES
    async for chunk in response.aiter_raw():
        left -= len(chunk)
        if left < 0:
            raise UpstreamError("the upstream's answer does not end")
        yield chunk
