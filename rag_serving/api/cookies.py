"""Cookies: their names, their attributes, reading them from a request's headers.

Belongs here: the headers. Does not belong here: the contents of a session's cookie (`access.sessions`).
"""

from __future__ import annotations

from typing import Literal

from fastapi import Request as HttpRequest
from starlette.responses import Response

from rag_serving.config.serving import Serving

SESSION, FLOW = "citelock_session", "citelock_sign_in"
MAX_HEADER_CHARS = 32_768
"""Of all cookies of a request; of more none is read."""


def is_https(request: HttpRequest, serving: Serving) -> bool:
    """Return whether people reach the API over https: as `serving.public_url` says, or the connection."""
    return (serving.public_url or "").startswith("https://") or request.url.scheme == "https"


def cookie_of(request: HttpRequest, serving: Serving, name: str) -> str | None:
    """Return the value of a cookie of ours; None if there is none, or more than one to choose from."""
    header = "; ".join(request.headers.getlist("cookie"))
    if len(header) > MAX_HEADER_CHARS:
        return None
    full = _full_name(name, is_https(request, serving))
    pairs = (part.strip().partition("=") for part in header.split(";"))
    values = [value for key, _, value in pairs if key == full]
    return values[0] if len(values) == 1 else None


def set_cookie(
    response: Response, name: str, value: str, max_age: int, site: Literal["Strict", "Lax"] = "Strict", *, https: bool
) -> None:
    """Let the browser keep a cookie, as `cookie_line` says."""
    response.headers.append("Set-Cookie", cookie_line(name, value, max_age, site, https=https))


def cookie_line(name: str, value: str, max_age: int, site: Literal["Strict", "Lax"] = "Strict", *, https: bool) -> str:
    """Return the line of a cookie that no script can read, for `max_age` seconds; 0 lets the browser forget it.

    Over https its name has the prefix that lets no other host and no plain http set it (RFC 6265bis, 4.1.3.2).
    """
    secure = "; Secure" if https else ""
    return f"{_full_name(name, https)}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite={site}{secure}"


def _full_name(name: str, https: bool) -> str:
    return f"__Host-{name}" if https else name
