"""HTTP to a site's own hosts only, within a number of bytes and a time for the whole answer.

Belongs here: permitted hosts and addresses, redirects included, and limits on reading. Does not belong here: signing a
request and the meaning of a response (`confluence.transport`).

The limits sit in the adapter of a `requests` session, which sends every hop of a redirect. An address is judged by the
socket after it was connected and before anything is sent, so a name that changes its address between cannot pass.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

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
    """Sends requests within limits; the answer's body is read when it is handed back."""

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
        """Send one request of a chain of redirects.

        Raises:
            RefusedError: another host, a private address, or too many bytes.
            requests.RequestException: as ever; `Timeout` also at the deadline of the whole answer.
        """
        self._limits.check(request.url or "")
        exchange = self._under_way.exchange = _Exchange()
        timer = threading.Timer(self._limits.deadline_s, exchange.end)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, True, timeout, verify, cert, proxies)
            _read(response, self._limits.max_bytes)
        except (requests.RequestException, OSError, ValueError, AttributeError):
            if not exchange.is_late:
                raise
        finally:
            timer.cancel()
        if exchange.is_late:
            raise requests.Timeout(f"no whole answer within {self._limits.deadline_s:g} s")
        return response


def _read(response: requests.Response, most: int) -> None:
    """Read the body into the response, unpacked, and no more than `most` bytes of it."""
    pieces, size = [], 0
    for piece in response.iter_content(_PIECE):
        size += len(piece)
        if size > most:
            response.close()
            raise RefusedError(f"the answer is larger than {most} bytes")
        pieces.append(piece)
    response._content = b"".join(pieces)  # what `requests` itself keeps a body in


def _pools(limits: HttpLimits, under_way: threading.local) -> dict[str, type]:
    """Return pools whose connections check their peer, and hand their socket to the request under way."""

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
