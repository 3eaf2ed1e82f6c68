"""The common parts of all model servers over HTTP: retries, identification, errors."""

from __future__ import annotations

import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, NoReturn, TypeVar

import httpx

from rag_serving.config.serving import CheckProxy
from rag_serving.deadline import at_most, current, result_within, run_in_thread
from rag_serving.escaping.redaction import RedactedError
from rag_serving.escaping.targets import one_line
from rag_serving.models.protocols import ModelError
from rag_serving.tracing.spans import SERVER_ADDRESS, SERVER_PORT, Value, carried, outgoing

if TYPE_CHECKING:
    from tenacity import RetryCallState


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
    is kept, for each request has a client of its own. Raises UpstreamError: there is no key, no answer, or no more of
    it."""
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


def with_tag(model: str) -> str:
    """Return a name as the server lists it, `name:tag`; `latest` may be left out."""
    return model if ":" in model.rpartition("/")[2] else f"{model}:latest"


def missing(model: str, base_url: str) -> str:
    """Return the line for a model that the server does not have."""
    return f"model {model!r} is not on the Ollama server at {base_url}; run `ollama pull {model}`"


Result = TypeVar("Result")


class ServerBusyError(RedactedError):
    """The server says to come back: 408, 429 or 5xx."""

    def __init__(self, status: int, text: str, retry_after_s: float | None) -> None:
        super().__init__(f"HTTP {status}: {text}" if text else f"HTTP {status}")
        self.retry_after_s = retry_after_s


class BadAnswerError(RedactedError):
    """The server answered something that is not an answer, such as a truncated document."""


TRANSIENT = (ServerBusyError, BadAnswerError, httpx.TransportError, ConnectionError)


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context that all clients share: each of its own would read the certificates again, for 20 ms."""
    return httpx.create_ssl_context()


def refuse_busy(response: httpx.Response) -> None:
    """Raise ServerBusyError for a status that a later try may not meet again; an httpx response hook."""
    if is_busy(response):
        response.read()
        raise busy_error(response)


def is_busy(response: httpx.Response) -> bool:
    """Return whether a later try may not meet this status again."""
    return response.status_code in (408, 429) or response.status_code >= 500


def busy_error(response: httpx.Response) -> ServerBusyError:
    """Return the error for a busy response whose body was read."""
    return ServerBusyError(response.status_code, server_text(response), _retry_after_s(response))


def server_text(response: httpx.Response) -> str:
    """Return the first 200 characters of the server's message, on one line."""
    return one_line(response.text)


def key_refused(base_url: str, said: str, setting: str) -> ModelError:
    """Return the error for a 401 or 403."""
    return ModelError(f"{base_url} refuses the API key ({said}); set {setting} to the environment variable that has it")


def bearer(variable: str | None, setting: str) -> dict[str, str]:
    """Return the bearer header with the key of the environment variable that the `setting` names, or no header. Raises
    ModelError: the variable is named but not set."""
    if variable is None:
        return {}
    key = os.environ.get(variable)
    if not key:
        raise ModelError(f"the environment variable {variable} ({setting}) is not set; set it")
    return {"Authorization": f"Bearer {key}"}


def in_time(ask: Callable[[], Result], seconds: float, too_late: Callable[[], NoReturn]) -> Result:
    """Return a server's response. Within a request, wait no longer than its deadline, and not after its client left;
    the call to the server goes on in an abandoned thread. Raises StoppedError: the request's time is over, or nobody
    waits any more."""
    if current() is None:
        return ask()
    try:
        return result_within(run_in_thread(carried(ask), "ask-server"), at_most(seconds))
    except TimeoutError:
        too_late()


def name_trace(request: httpx.Request) -> None:
    """Name the trace of this context to a server (W3C `traceparent`); an httpx request hook."""
    request.headers.update(outgoing())


async def name_trace_async(request: httpx.Request) -> None:
    """Name the trace of this context to a server; the same hook for asynchronous clients."""
    name_trace(request)


def hooks() -> dict[str, list[Callable[..., object]]]:
    """Return the hooks of an httpx client for a model server."""
    return {"request": [name_trace], "response": [refuse_busy]}


def server_of(url: str) -> dict[str, Value | None]:
    """Return the host and port of a server as attributes of a span."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return {}
    return {SERVER_ADDRESS: parsed.host, SERVER_PORT: parsed.port}


def wait_s(state: RetryCallState, backoff_s: float, jitter: float = 1.0) -> float:
    """Return the delay that the server requests, else the backoff doubled with every try and up to `jitter` more."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ServerBusyError) and error.retry_after_s is not None:
        return error.retry_after_s
    doubled: float = backoff_s * 2 ** (state.attempt_number - 1)
    return doubled * (1 + jitter * random.random())


def _retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of `Retry-After`, given as seconds or as a date (RFC 9110, section 10.2.3)."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
