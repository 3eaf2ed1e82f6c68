"""One HTTP request to Confluence: the only module that knows `atlassian-python-api`.

Belongs here: sending one signed request within a rate that all requests of this process share, and reading its reply:
an object, bytes, a pause to make, or a fault and its author. Does not belong here: retries, pagination, pauses
requested by a server (`client`).

Of the package only `AtlassianRestAPI.request` is used. Its signing and session are the same code for Cloud and Data
Center, and the tests run it against a substitute of both. The rest is avoided on purpose. In 5.0.5 the two halves of
`Confluence(...)` page differently, its `Retry-After` handling retries once (`max_retry_with_header_attempts`), its
`timeout` is cut to whole seconds, and `get_all_pages_from_space` follows a link that the server wrote.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from rag_assets.sources.base import SourceError
from rag_serving.config.sources import Auth, BasicAuth, BearerAuth

if TYPE_CHECKING:
    from rag_assets.sources.bounded_http import HttpLimits


class Unreachable(Exception):  # noqa: N818
    """No reply came; `slow` distinguishes a time limit or a broken answer from an unreachable server."""

    def __init__(self, message: str, *, slow: bool) -> None:
        super().__init__(message)
        self.slow = slow


@dataclass(frozen=True)
class HttpReply:
    """A response of any kind."""

    status: int
    headers: Mapping[str, str]  # case-insensitive
    content: bytes


class Transport(Protocol):
    """Send one GET request; `signs_in`: whether with an account.

    Raises:
        Unreachable: nothing comes back.
        RefusedError: it leads to a forbidden host, or the response is too large.
    """

    signs_in: bool

    def __call__(self, path: str, params: Mapping[str, str]) -> HttpReply: ...

    def close(self) -> None:
        """Give back the connections."""
        ...


class AtlassianTransport:
    """Requests by `atlassian-python-api`, signed for a site."""

    def __init__(self, base_url: str, auth: Auth, timeout_s: float, limits: HttpLimits | None = None) -> None:
        from atlassian.rest_client import AtlassianRestAPI

        from rag_assets.sources.bounded_http import HttpLimits, bound

        user, password, token = _credentials(auth)
        self._api = AtlassianRestAPI(
            base_url.rstrip("/"), username=user, password=password, token=token, retry_with_header=False
        )
        bound(self._api._session, limits or HttpLimits(base_url))
        self.signs_in = auth.kind != "none"
        self._api.timeout = timeout_s  # type: ignore[assignment]  # its own argument cuts half a second to none

    def __call__(self, path: str, params: Mapping[str, str]) -> HttpReply:
        import requests
        from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

        from rag_assets.sources.bounded_http import RefusedError

        try:
            response = self._api.request("GET", path=path, params=dict(params), advanced_mode=True)
        except (requests.TooManyRedirects, InvalidSchema, InvalidURL, MissingSchema) as error:
            raise RefusedError(_first_line(error)) from None
        except (requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            raise Unreachable(_first_line(error), slow=True) from None
        except requests.RequestException as error:
            raise Unreachable(_first_line(error), slow=False) from None
        return HttpReply(response.status_code, response.headers, response.content)

    def close(self) -> None:
        self._api.close()


def _credentials(auth: Auth) -> tuple[str | None, str | None, str | None]:
    """User, password, and token, as far as the kind of sign-in has them."""
    if isinstance(auth, BasicAuth):
        return _secret(auth.user_env), _secret(auth.token_env), None
    return None, None, _secret(auth.token_env) if isinstance(auth, BearerAuth) else None


def _secret(variable: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise SourceError(f"environment variable {variable} is not set; it holds what signs in to Confluence")
    return value


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


class Pace:
    """Lets requests go at an even rate, after as many as one second may have at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self, per_second: float) -> float:
        """Take the next place; the seconds to sleep until it comes."""
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now - 1.0) + 1.0 / per_second
            return max(0.0, self._next - now)


_paces: dict[str, Pace] = {}
_lock = threading.Lock()


def pace_of(base_url: str) -> Pace:
    """Return the pace of a site; sources of the same site share it."""
    with _lock:
        return _paces.setdefault(urlsplit(base_url).netloc.lower(), Pace())


MAX_WAIT_S = 300.0
"""A server that asks for a longer pause is left alone; what was fetched until then is kept."""


class AccessRefused(SourceError):  # noqa: N818
    """The site refuses this one thing: it is forbidden, gone, or not understood. That is never a deletion."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ServerFault(SourceError):  # noqa: N818
    """The site fails at this one thing, again and again."""


class RetryableError(Exception):
    """Worth another try, after so many seconds where the server said so; `final` is the error if all tries fail."""

    def __init__(self, final: SourceError, after: float | None = None) -> None:
        super().__init__(str(final))
        self.final = final
        self.after = after


def object_of(where: str, reply: HttpReply) -> dict[str, Any]:
    """Return the JSON object of a reply.

    Raises:
        Again: it was cut.
        Unreadable, SourceError: see `content_of`; or it is a web page, or other JSON.
    """
    content = content_of(where, reply)
    if "html" in reply.headers.get("Content-Type", ""):
        raise SourceError(f"{where} answered with a web page, not JSON; check base_url and auth")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise RetryableError(ServerFault(f"{where} answered with broken JSON ({len(content)} bytes)")) from None
    if not isinstance(answer, dict):
        raise SourceError(f"{where} answered with a JSON {type(answer).__name__}; check base_url")
    return answer


def content_of(where: str, reply: HttpReply) -> bytes:
    """Return the bytes of a good reply. Data Center may throttle with 403 or 503 as well as with 429.

    Raises:
        Again: throttled, or the server failed.
        Unreadable: it refuses this one thing.
        SourceError: not signed in, sent elsewhere, or throttled for longer than is waited.
    """
    if reply.status == 200:
        return reply.content
    where = f"{where} answered {reply.status}"
    after = _retry_after(reply.headers)
    if reply.status == 401:
        raise SourceError(f"{where}: not signed in; check auth and its environment variables")
    spent = reply.headers.get("X-RateLimit-Remaining") == "0"
    if reply.status == 429 or (reply.status in (403, 503) and (after is not None or spent)):
        throttled = SourceError(f"{where}: throttled; run the sync again later, it goes on where it stopped")
        raise throttled if after is not None and after > MAX_WAIT_S else RetryableError(throttled, after)
    if reply.status >= 500 or reply.status == 408:
        raise RetryableError(ServerFault(where), after)
    if 300 <= reply.status < 400:
        raise SourceError(f"{where}: it leads elsewhere; check base_url")
    raise AccessRefused(where, reply.status)


def is_anonymous(headers: Mapping[str, str]) -> bool:
    """Return whether the headers of a reply to a request with credentials say that it was taken as nobody's.

    `X-Seraph-LoginReason` and `X-Authentication-Denied-Reason` are of Cloud and Data Center, `X-AUSERNAME` of Data
    Center. A sign-in that went well says OK, though it may say OUT before.
    """
    reasons = {reason.strip().upper() for reason in headers.get("X-Seraph-LoginReason", "").split(",")} - {""}
    is_denied = "X-Authentication-Denied-Reason" in headers or (bool(reasons) and "OK" not in reasons)
    return is_denied or headers.get("X-AUSERNAME", "").strip().lower() == "anonymous"


def is_nobody(user: Mapping[str, Any]) -> bool:
    """Return whether the site's word of the current user names no account."""
    named = {str(user[name]).lower() for name in ("accountId", "userKey", "username", "publicName") if user.get(name)}
    return user.get("type") == "anonymous" or (user.get("type") != "known" and not named - {"anonymous"})


def moment_of(header: str | None) -> datetime | None:
    """Return an HTTP date in UTC (RFC 9110, 5.6.7), or None."""
    try:
        moment = parsedate_to_datetime(header) if header else None
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC) if moment else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or an HTTP date (RFC 9110, 10.2.3).

    A date counts from the server's own `Date`, if present: the clocks may differ.
    """
    value = headers.get("Retry-After")
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        pass
    moment = moment_of(value)
    now = moment_of(headers.get("Date")) or datetime.now(UTC)
    return max(0.0, (moment - now).total_seconds()) if moment else None
