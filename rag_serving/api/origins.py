"""Cookies, and requests by other sites' pages in a reader's name (CSRF), refused by headers alone. A cookie, and in
loopback mode the machine itself, authenticates the user of the browser, whatever page sent the request. A bearer token
is attached by a program on purpose, and so its requests may come from anywhere."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from fastapi import Request as HttpRequest

from rag_serving.access.sessions import Session
from rag_serving.api.wire import RequestError
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


def cookie_line(request: HttpRequest, serving: Serving, name: str, value: str = "", max_age: int = 0) -> str:
    """Return the line of a cookie that no script can read, for `max_age` seconds; 0 lets the browser forget it. Over
    https its name has the prefix that lets no other host and no plain http set it (RFC 6265bis, 4.1.3.2). A sign-in's
    comes with a link back from the provider."""
    https, site = is_https(request, serving), "Lax" if name == FLOW else "Strict"
    secure = "; Secure" if https else ""
    return f"{_full_name(name, https)}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite={site}{secure}"


def _full_name(name: str, https: bool) -> str:
    return f"__Host-{name}" if https else name


CSRF_HEADER = "X-Citelock-CSRF"
SESSION_PATH = "/v1/session"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_SITE = "this was sent by a page of another site"
_NO_ORIGIN = "a browser says by Origin or Sec-Fetch-Site which page sends this; programs use a bearer token"


def forgery(request: HttpRequest, serving: Serving, session: Session | None) -> RequestError | None:
    """Return why a request for anything but the web page's files cannot be from a page of ours; None if it may be
    served. `session`: of the request's cookie, None without one."""
    unsafe = request.method not in _SAFE
    if request.headers.get("authorization") is not None and request.url.path != SESSION_PATH:
        return None if serving.auth != "loopback" else _cross_site(request, serving, unsafe)
    if unsafe and request.url.path == SESSION_PATH:
        return _not_own(request, serving) or (
            _no_csrf(request, session) if session and request.method == "DELETE" else None
        )
    if session is not None:
        if not unsafe:
            return _cross_site(request, serving, unsafe)
        return _not_own(request, serving) or _no_csrf(request, session)
    return _cross_site(request, serving, unsafe) if serving.auth == "loopback" else None


def _origins(request: HttpRequest) -> list[str]:
    """Return the origins in a request. A page that sends no referrer sends `null` to its own site; there Sec-Fetch-Site
    decides (https://fetch.spec.whatwg.org/#append-a-request-origin-header)."""
    spoken = "sec-fetch-site" in request.headers
    return [origin for origin in request.headers.getlist("origin") if not (spoken and origin == "null")]


def _cross_site(request: HttpRequest, serving: Serving, unsafe: bool) -> RequestError | None:
    """Refuse requests by another site's page, according to the browser; without such a header it is a program."""
    headers = request.headers
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
    if not unsafe and followed:  # a link
        return None
    sites = set(headers.getlist("sec-fetch-site"))
    if sites <= {"same-origin", "none"} and all(_is_own(each, request, serving) for each in _origins(request)):
        return None
    return RequestError(403, "CROSS_SITE", _OTHER_SITE)


def _not_own(request: HttpRequest, serving: Serving) -> RequestError | None:
    """Refuse requests that are not marked as by a page of ours."""
    sites, origins = request.headers.getlist("sec-fetch-site"), _origins(request)
    if not sites and not origins:
        return RequestError(403, "CSRF", _NO_ORIGIN)
    if set(sites) <= {"same-origin"} and all(_is_own(origin, request, serving) for origin in origins):
        return None
    return RequestError(403, "CSRF", _OTHER_SITE)


def _no_csrf(request: HttpRequest, session: Session) -> RequestError | None:
    shown = request.headers.get(CSRF_HEADER, "")
    if hmac.compare_digest(shown.encode(), session.csrf.encode()):
        return None
    return RequestError(403, "CSRF", f"{CSRF_HEADER} is not this session's; GET {SESSION_PATH} tells it")


def _is_own(origin: str, request: HttpRequest, serving: Serving) -> bool:
    """Return whether an origin is ours: that of `serving.public_url`, or the host that the request names."""
    try:
        given = urlsplit(origin)
        public = urlsplit(serving.public_url or "")
    except ValueError:
        return False
    if public.netloc and (given.scheme, given.netloc.lower()) == (public.scheme, public.netloc.lower()):
        return True
    allowed = ("https",) if is_https(request, serving) else ("https", "http")  # a proxy may have ended TLS
    return given.scheme in allowed and given.netloc.lower() == request.headers.get("host", "").lower() != ""
