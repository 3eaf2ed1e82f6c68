"""One HTTP request to Confluence, to its own hosts, within bounds: the only module that knows `atlassian-python-api`.

Of the package only `AtlassianRestAPI.request` is used. Its signing and session are the same code for Cloud and Data
Center, and the tests run it against a substitute of both. The rest is avoided on purpose. In 5.0.5 the two halves of
`Confluence(...)` page differently, its `Retry-After` handling retries once (`max_retry_with_header_attempts`), its
`timeout` is cut to whole seconds, and `get_all_pages_from_space` follows a link that the server wrote.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from rag_assets.sources.base import SourceError
from rag_serving.config.sources import Auth, BasicAuth, BearerAuth
from rag_serving.escaping.redaction import RedactedError

_PIECE = 64 * 1024
_PORTS = {"http": 80, "https": 443}
MAX_REDIRECTS = 5


class RefusedError(RedactedError):
    """A forbidden request to this source, or an oversized response; another try changes nothing."""


@dataclass(frozen=True)
class HttpLimits:
    """The limits on a source's requests and responses."""

    base_url: str
    download_hosts: tuple[str, ...] = ()
    max_bytes: int = 256 * 1024**2
    deadline_s: float = 120.0

    def check(self, url: str) -> None:
        """Raise RefusedError if the address is on another host or port, or would leave TLS."""
        base, target = urlsplit(self.base_url), urlsplit(url)
        is_weaker = base.scheme == "https" and target.scheme != "https"
        if target.scheme not in _PORTS or is_weaker or not (_is_site(base, target) or self._is_listed(target)):
            raise RefusedError(
                f"the site leads to {target.scheme}://{target.netloc.rpartition('@')[2]}, which is not its own host; "
                "check auth, or add the host to download_hosts if files come from there"
            )

    def check_peer(self, host: str, address: str) -> None:
        """Raise RefusedError if a listed name turns out to be a private address; the site itself may be one."""
        if host == urlsplit(self.base_url).hostname or (host in self.download_hosts and _is_address(host)):
            return
        if not ipaddress.ip_address(address.partition("%")[0]).is_global and not self._is_private_site():
            raise RefusedError(f"{host} is the private address {address}; only base_url may be one")

    def _is_listed(self, target: SplitResult) -> bool:
        host, port = target.hostname or "", _port(target)
        names = {host, f"[{host}]"} if port == _PORTS[target.scheme] else set()
        return any(name in self.download_hosts for name in (*names, f"{host}:{port}", f"[{host}]:{port}"))

    def _is_private_site(self) -> bool:
        host = urlsplit(self.base_url).hostname or ""
        with suppress(OSError):
            addresses = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, None)}
            return not any(ipaddress.ip_address(address).is_global for address in addresses)
        return False


@dataclass
class _Exchange:
    """A request under way; at its deadline the socket is shut, wherever the answer is."""

    sock: socket.socket | None = None
    is_late: bool = field(default=False)

    def end(self) -> None:
        self.is_late = True
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


class BoundedAdapter(HTTPAdapter):
    """Sends requests within limits, every hop of a redirect, too; the answer's body is read when it is handed back. An
    address is judged by the socket after it was connected and before anything is sent, so a name that changes its
    address between cannot pass."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._under_way = threading.local()
        super().__init__()

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        """Make the pools, whose connections check the address that they reached."""
        super().init_poolmanager(*args, **more)
        self.poolmanager.pool_classes_by_scheme = _pools(self._limits, self._under_way)

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: ARG002  # the body is read here, within the limits
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send one request of a chain of redirects. Raises RefusedError: another host, a private address, or too many
        bytes. requests.RequestException: as ever; `Timeout` also at the deadline of the whole answer."""
        self._limits.check(request.url or "")
        exchange = self._under_way.exchange = _Exchange()
        timer = threading.Timer(self._limits.deadline_s, exchange.end)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, True, timeout, verify, cert, proxies)
            pieces, size = [], 0
            for piece in response.iter_content(_PIECE):
                size += len(piece)
                if size > self._limits.max_bytes:
                    response.close()
                    raise RefusedError(f"the answer is larger than {self._limits.max_bytes} bytes")
                pieces.append(piece)
            response._content = b"".join(pieces)  # what `requests` itself keeps a body in
        except (requests.RequestException, OSError, ValueError, AttributeError):
            if not exchange.is_late:
                raise
        finally:
            timer.cancel()
        if exchange.is_late:
            raise requests.Timeout(f"no whole answer within {self._limits.deadline_s:g} s")
        return response


def _pools(limits: HttpLimits, under_way: threading.local) -> dict[str, type]:

    class _Checked(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            sock = super()._new_conn()
            under_way.exchange.sock = sock
            if self.proxy is None:
                try:
                    limits.check_peer(self.host.strip("[]"), sock.getpeername()[0])
                except RefusedError:
                    sock.close()
                    raise
            return sock

        def getresponse(self) -> Any:
            under_way.exchange.sock = self.sock
            return super().getresponse()

    class _Plain(HTTPConnectionPool):
        ConnectionCls = _Checked

    class _Secure(HTTPSConnectionPool):
        ConnectionCls = type("_CheckedSecure", (_Checked, HTTPSConnection), {})

    return {"http": _Plain, "https": _Secure}


def bound(session: requests.Session, limits: HttpLimits) -> None:
    """Put the limits on a session: every request of it, and every redirect."""
    session.max_redirects = MAX_REDIRECTS
    for scheme in _PORTS:
        session.mount(f"{scheme}://", BoundedAdapter(limits))


def hosts_of(base_url: str, download_hosts: Collection[str]) -> tuple[str, ...]:
    """Return the hosts beside the site: those configured, and where Atlassian's cloud keeps its files."""
    is_cloud = (urlsplit(base_url).hostname or "").endswith(".atlassian.net")
    return (*map(str.lower, download_hosts), *(["api.media.atlassian.com"] if is_cloud else []))


def _is_site(base: SplitResult, target: SplitResult) -> bool:
    """Return the site's own host and port; from plain HTTP it may lead to TLS."""
    is_upgrade = (base.scheme, target.scheme) == ("http", "https") and (_port(base), _port(target)) == (80, 443)
    return base.hostname == target.hostname and (_port(base) == _port(target) or is_upgrade)


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


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


class AtlassianTransport:
    """GET requests by `atlassian-python-api`, signed for a site; `signs_in`: whether with an account. Raises
    Unreachable: nothing comes back; RefusedError: it leads to a forbidden host, or the response is too large."""

    def __init__(self, base_url: str, auth: Auth, timeout_s: float, limits: HttpLimits | None = None) -> None:
        from atlassian.rest_client import AtlassianRestAPI

        user, password, token = _credentials(auth)
        self._api = AtlassianRestAPI(
            base_url.rstrip("/"), username=user, password=password, token=token, retry_with_header=False
        )
        bound(self._api._session, limits or HttpLimits(base_url))
        self.signs_in = auth.kind != "none"
        self._api.timeout = timeout_s  # type: ignore[assignment]  # its own argument cuts half a second to none

    def __call__(self, path: str, params: Mapping[str, str]) -> HttpReply:
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
    """Return the JSON object of a reply. Raises RetryableError: it was cut. Raises AccessRefused, SourceError: see
    `content_of`; or it is a web page, or other JSON."""
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
    """Return the bytes of a good reply. Data Center may throttle with 403 or 503 as well as with 429. Raises
    RetryableError: throttled, or the server failed. Raises AccessRefused: it refuses this one thing. Raises
    SourceError: not signed in, sent elsewhere, or throttled for longer than is waited."""
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
    Center. A sign-in that went well says OK, though it may say OUT before."""
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
    """Return the seconds of `Retry-After`, which is a number or an HTTP date (RFC 9110, 10.2.3). A date counts from the
    server's own `Date`, if present: the clocks may differ."""
    value = headers.get("Retry-After")
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        pass
    moment = moment_of(value)
    now = moment_of(headers.get("Date")) or datetime.now(UTC)
    return max(0.0, (moment - now).total_seconds()) if moment else None
