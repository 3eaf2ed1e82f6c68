"""`/v1/session/oidc`: signing in on the web page at an OpenID Connect provider, there and back.

Belongs here: the two routes and their responses. Does not belong here: the provider (`access.provider`), the meaning of
claims (`access.claims`), cookies (`cookies`).

The state in between is in a cookie of the browser that began: a return begun by another is refused, and any process can
handle it.
"""

from __future__ import annotations

import hmac
import logging
from urllib.parse import quote, urlsplit

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rag_serving.access.claims import ClaimsError
from rag_serving.access.provider import MAX_CODE_CHARS, Provider, ProviderDownError, SignInError
from rag_serving.access.sessions import MAX_FLOW_S, SessionTooLongError
from rag_serving.api.admission import address_of, slower
from rag_serving.api.cookies import FLOW, cookie_of, is_https, set_cookie
from rag_serving.api.rates import Guesses
from rag_serving.api.service import CurrentService, Service
from rag_serving.api.session import keep_session
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.secret import SecretError
from rag_serving.config.serving import Serving
from rag_serving.escaping.templates import html_template

PATH = "/v1/session/oidc"
CALLBACK = f"{PATH}/callback"
MAX_BACK_CHARS = 1000
_GUESS = "oidc"
"""What stands for the token where guesses are counted: nobody has shown a code before."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LATE = "This sign-in took too long, or was begun in another window."
_DOWN = "The sign-in service does not answer at the moment."
_REFUSED = "The sign-in service did not confirm who you are."
_UNKNOWN = "Your account may not be used here. Ask whoever runs this server."
_TOO_LONG = "Your account is in more groups than can be kept. Ask whoever runs this server."
_SECRET = "Nobody can sign in at the moment: this server lacks its secret."

_log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)


@router.get(PATH)
async def begin(request: HttpRequest, service: CurrentService) -> Response:
    """Send a reader to the provider; `return` is the page of ours that is shown afterwards."""
    serving, provider = service.config.serving, _provider(service)
    back = own_path(request, request.query_params.get("return", "/"))
    try:
        address, flow = await provider.begin(_callback(serving), back)
        sealed = service.authenticator.sessions.seal_flow(flow)
    except ProviderDownError as error:
        _report(provider, f"nobody can sign in: {error}")
        return _failed(request, serving, 503, _DOWN, back)
    except SecretError as error:
        _report(provider, f"nobody can sign in: {error}")
        return _failed(request, serving, 503, _SECRET, back)
    response = RedirectResponse(address, 302, _HEADERS)
    set_cookie(response, FLOW, sealed, MAX_FLOW_S, "Lax", https=is_https(request, serving))
    return response


@router.get(CALLBACK)
async def callback(request: HttpRequest, service: CurrentService) -> Response:
    """Take a reader back from the provider: a session, or a page that says why there is none."""
    serving, provider = service.config.serving, _provider(service)
    guesses: Guesses = request.app.state.guesses
    flow = _flow(request, service, provider)
    if flow is None:
        return _failed(request, serving, 400, _LATE)
    back, address = flow["back"], address_of(request)
    if wait_s := guesses.wait(address, _GUESS):
        raise slower(wait_s)
    code = _only(request, "code")
    if _only(request, "error") is not None or not code or len(code) > MAX_CODE_CHARS:
        return _failed(request, serving, 403, _REFUSED, back)
    try:
        claims = await provider.claims(code, _only(request, "iss"), flow, _callback(serving))
        session = service.authenticator.session_of_claims(claims)
        response: Response = RedirectResponse(_public(serving, back), 303, _HEADERS)
        keep_session(response, request, service, session)
    except ProviderDownError as error:
        _report(provider, f"somebody could not sign in: {error}")
        return _failed(request, serving, 503, _DOWN, back)
    except SignInError as error:
        guesses.wrong(address)
        _report(provider, f"somebody was not signed in: {error}")
        return _failed(request, serving, 403, _REFUSED, back)
    except ClaimsError as error:
        _report(provider, f"somebody was not signed in: {error}")
        return _failed(request, serving, 403, _UNKNOWN, back)
    except SessionTooLongError:
        _report(provider, "somebody was not signed in: too many groups for a cookie; let the provider send fewer")
        return _failed(request, serving, 403, _TOO_LONG, back)
    set_cookie(response, FLOW, "", 0, "Lax", https=is_https(request, serving))
    return response


def own_path(request: HttpRequest, path: str) -> str:
    r"""Return the path of a page of ours, with its query; the start page for anything else.

    A path that leads elsewhere in some browser (`//host`, `/\host`, a scheme, a tab in between) is none.
    """
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    readable = len(path) <= MAX_BACK_CHARS and path.isascii() and path.isprintable() and not set(path) & set(' \\"<>')
    ours = not parts.scheme and not parts.netloc and parts.path.startswith("/") and "//" not in parts.path
    dots = any(part in (".", "..") for part in parts.path.replace("%2e", ".").replace("%2E", ".").split("/"))
    if readable and ours and not dots and request.app.state.web.serves("GET", parts.path):
        return path
    return "/"


def _provider(service: Service) -> Provider:
    provider = service.authenticator.provider
    if provider is None:
        raise RequestError(404, "NOT_FOUND", "no provider is configured (serving.oidc)")
    return provider


def _report(provider: Provider, line: str) -> None:
    if provider.may_log():
        _log.warning("%s", line)


def _flow(request: HttpRequest, service: Service, provider: Provider) -> dict[str, str] | None:
    """Return the state of this browser's sign-in; None if it began none."""
    sealed = cookie_of(request, service.config.serving, FLOW)
    flow = service.authenticator.sessions.read_flow(sealed) if sealed else None
    state = _only(request, "state")
    if flow is None or state is None or flow["settings"] != provider.fingerprint or _said_twice(request):
        return None
    return flow if hmac.compare_digest(flow["state"].encode(), state.encode()) else None


def _only(request: HttpRequest, name: str) -> str | None:
    """Return a parameter of the query; None if it is missing or there are several."""
    values = request.query_params.getlist(name)
    return values[0] if len(values) == 1 else None


def _said_twice(request: HttpRequest) -> bool:
    """Return whether a parameter of the way back has several values, of which others may believe another one."""
    names = [name for name, _ in request.query_params.multi_items()]
    return len(names) != len(set(names))


def _callback(serving: Serving) -> str:
    return _public(serving, CALLBACK)


def _public(serving: Serving, path: str) -> str:
    """Return the address of a path of ours as people reach it: never by the name that a request gives."""
    return f"{(serving.public_url or '').rstrip('/')}{path}"


def _failed(request: HttpRequest, serving: Serving, status: int, reason: str, back: str = "/") -> HTMLResponse:
    again = _public(serving, f"{PATH}?return={quote(back, safe='')}")
    page = html_template(__package__, "sign_in_failed.html.j2")
    content = page.render(reason=reason, again=again, home=_public(serving, "/"))
    response = HTMLResponse(content, status, _HEADERS)
    set_cookie(response, FLOW, "", 0, "Lax", https=is_https(request, serving))
    return response
