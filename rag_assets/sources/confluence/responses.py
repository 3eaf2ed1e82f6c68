"""What one reply of Confluence says: an object, bytes, a pause to make, or a fault and whose fault it is.

Belongs here: judging a single reply, and the errors that come of it.
Does not belong here: sending (`transport`), trying again and collecting (`client`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from rag_assets.sources.base import SourceError
from rag_assets.sources.confluence.transport import Reply

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


def object_of(where: str, reply: Reply) -> dict[str, Any]:
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


def content_of(where: str, reply: Reply) -> bytes:
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
    """Seconds to wait by `Retry-After`, which is a number or an HTTP date (RFC 9110, 10.2.3).

    A date counts from the server's own `Date`, where it tells it: the clocks may differ.
    """
    value = headers.get("Retry-After")
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        pass
    moment = moment_of(value)
    now = moment_of(headers.get("Date")) or datetime.now(UTC)
    return max(0.0, (moment - now).total_seconds()) if moment else None
