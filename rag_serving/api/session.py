"""`/v1/session`: signing in on the web page with a token, or at an OpenID Connect provider (`/oidc`), and signing out.
The state of a sign-in at a provider is in a cookie of the browser that began: a return begun by another is refused, and
any process can handle it."""

from __future__ import annotations

import hmac
import logging
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import AfterValidator, Field

from rag_serving.access.bounded_fetch import IssuerDownError
from rag_serving.access.principals import ROLES, Principal
from rag_serving.access.provider import MAX_CODE_CHARS, Provider, SignInError
from rag_serving.access.sessions import MAX_FLOW_S, Session, SessionTooLongError
from rag_serving.access.token_validation import ClaimsError
from rag_serving.api.admission import address_of, guesses_of, slower
from rag_serving.api.auth import AuthError, token_digest
from rag_serving.api.bodies import MAX_SELECTION_CHARS, Body, plain
from rag_serving.api.origins import FLOW, SESSION, cookie_line, cookie_of
from rag_serving.api.service import CurrentService, Service, caller_of, service_of, session_of
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.secret import SecretError
from rag_serving.config.loading import Config
from rag_serving.config.serving import Serving
from rag_serving.documents.inbox import inboxes_of, most_bytes
from rag_serving.escaping.templates import html_template
from rag_serving.plugins import ROUTES, loaded

MAX_SIGN_IN_BYTES = 16_384
MAX_TOKEN_CHARS = 8192
_NO_STORE = {"Cache-Control": "no-store", "Vary": "Cookie"}

router = APIRouter()


class SignIn(Body):
    """POST /v1/session."""

    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARS), AfterValidator(plain)]


@router.get("/v1/session")
def show(request: HttpRequest, service: CurrentService, tenant: str | None = None) -> JSONResponse:
    """Tell who is signed in; a session that is used goes on."""
    session, reader = session_of(request), _reader(request, service.config, tenant)
    later = service.authenticator.sessions.renewed(session) if session and reader else None
    response = _answer(service.config, reader, later or session)
    if later:
        keep_session(response, request, service, later)
    elif reader is None and tenant is None and cookie_of(request, service.config.serving, SESSION) is not None:
        _set_cookie(response, request, SESSION)
    return response


@router.post("/v1/session")
async def sign_in(body: SignIn, request: HttpRequest, service: CurrentService) -> JSONResponse:
    """Begin the session of a token's holder; on the event loop, which alone counts guesses."""
    if service.config.serving.auth == "loopback":
        raise RequestError(400, "NOT_NEEDED", "nobody signs in here: serving.auth is loopback")
    token, address, authenticator = body.token.strip(), address_of(request), service.authenticator
    guesses, is_guessable = guesses_of(request), authenticator.is_guessable(token)
    if is_guessable and (wait_s := guesses.wait(address, token_digest(token))):
        raise slower(wait_s)
    try:
        session = await authenticator.session_of(token)
    except AuthError as error:
        if error.status != 401:
            raise
        if is_guessable:
            guesses.wrong(address)
        raise AuthError(401, "UNAUTHENTICATED", "the token is not known") from None
    guesses.right(address, token_digest(token))
    response = _answer(service.config, _named(await authenticator.signed_in(session)), session)
    keep_session(response, request, service, session)
    return response


@router.delete("/v1/session", status_code=204)
def sign_out(request: HttpRequest) -> Response:
    """Let the browser forget the session."""
    response = Response(status_code=204, headers=_NO_STORE)
    _set_cookie(response, request, SESSION)
    return response


def keep_session(response: Response, request: HttpRequest, service: Service, session: Session) -> None:
    """Let the browser keep a session. Raises RequestError: the installation's secret cannot be used;
    SessionTooLongError: as `Sessions.seal`."""
    sessions = service.authenticator.sessions
    try:
        sealed = sessions.seal(session)
    except SecretError:
        raise RequestError(503, "UNAVAILABLE", "nobody can sign in: the server's secret cannot be used") from None
    _set_cookie(response, request, SESSION, sealed, sessions.seconds_left(session))


def _set_cookie(response: Response, request: HttpRequest, name: str, value: str = "", max_age: int = 0) -> None:
    serving = service_of(request).config.serving
    response.headers.append("Set-Cookie", cookie_line(request, serving, name, value, max_age))


def _reader(request: HttpRequest, config: Config, tenant: str | None) -> dict[str, Any] | None:
    try:
        reader = _named(caller_of(request, tenant))
    except AuthError as error:
        if error.code != "TENANT":
            return None
        # This machine's own reader, without a tenant yet.
        reader = {"user": None, "tenant": None, "roles": sorted(ROLES)}
    several = config.serving.auth == "loopback" and len(config.tenants) > 1
    return {**reader, "tenants": sorted(config.tenants) if several else []}


def may_connect(config: Config) -> bool:
    """Return whether operators may connect sources: what reads them is installed, and the configuration is theirs."""
    is_local = config.serving.auth == "loopback"
    is_allowed = is_local if config.serving.connect is None else config.serving.connect
    return is_allowed and (is_local or len(config.tenants) == 1) and "connect" in loaded(ROUTES)


def _named(caller: Principal) -> dict[str, Any]:
    return {"user": caller.user, "tenant": caller.tenant, "tenants": [], "roles": sorted(caller.roles)}


def _answer(config: Config, reader: dict[str, Any] | None, session: Session | None) -> JSONResponse:
    session = session if reader else None
    is_editor = reader is not None and "editor" in reader["roles"]
    inboxes = inboxes_of(config, reader["tenant"] or "") if is_editor and reader else []
    nobody: dict[str, Any] = {"user": None, "tenant": None, "tenants": [], "roles": []}
    content = {
        "signed_in": reader is not None,
        "auth": config.serving.auth,
        "oidc": {"label": provider.label} if (provider := config.serving.oidc) else None,
        **(reader or nobody),
        "csrf": session.csrf if session else None,
        "expires_at": datetime.fromtimestamp(session.expires, UTC).isoformat() if session else None,
        "limits": {
            "question_chars": config.serving.max_question_chars,
            "selection_chars": MAX_SELECTION_CHARS,
            "document_bytes": most_bytes(inboxes),
        },
        "features": {
            "feedback": config.telemetry.enabled,
            "documents": bool(inboxes),
            "notices": config.monitoring.sends_notices,
            "connect": reader is not None and "operator" in reader["roles"] and may_connect(config),
        },
    }
    return JSONResponse(content, headers=_NO_STORE)


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


@router.get(PATH, include_in_schema=False)
async def begin(request: HttpRequest, service: CurrentService) -> Response:
    """Send a reader to the provider; `return` is the page of ours that is shown afterwards."""
    serving, provider = service.config.serving, _provider(service)
    back = own_path(request, request.query_params.get("return", "/"))
    try:
        address, flow = await provider.begin(_public(serving, CALLBACK), back)
        sealed = service.authenticator.sessions.seal_flow(flow)
    except (IssuerDownError, SecretError) as error:
        _report(provider, f"nobody can sign in: {error}")
        return _failed(request, serving, 503, _DOWN if isinstance(error, IssuerDownError) else _SECRET, back)
    response = RedirectResponse(address, 302, _HEADERS)
    _set_cookie(response, request, FLOW, sealed, MAX_FLOW_S)
    return response


@router.get(CALLBACK, include_in_schema=False)
async def callback(request: HttpRequest, service: CurrentService) -> Response:
    """Take a reader back from the provider: a session, or a page that says why there is none."""
    serving, provider = service.config.serving, _provider(service)
    guesses, flow = guesses_of(request), _flow(request, service, provider)
    if flow is None:
        return _failed(request, serving, 400, _LATE)
    back, address = flow["back"], address_of(request)
    if wait_s := guesses.wait(address, _GUESS):
        raise slower(wait_s)
    code = _only(request, "code")
    if _only(request, "error") is not None or not code or len(code) > MAX_CODE_CHARS:
        return _failed(request, serving, 403, _REFUSED, back)
    try:
        claims = await provider.claims(code, _only(request, "iss"), flow, _public(serving, CALLBACK))
        session = service.authenticator.session_of_claims(claims)
        response: Response = RedirectResponse(_public(serving, back), 303, _HEADERS)
        keep_session(response, request, service, session)
    except (IssuerDownError, SignInError, ClaimsError) as error:
        if isinstance(error, SignInError):
            guesses.wrong(address)
        is_down, is_refused = isinstance(error, IssuerDownError), isinstance(error, SignInError)
        _report(provider, f"somebody {'could not sign in' if is_down else 'was not signed in'}: {error}")
        reason = _DOWN if is_down else _REFUSED if is_refused else _UNKNOWN
        return _failed(request, serving, 503 if is_down else 403, reason, back)
    except SessionTooLongError:
        _report(provider, "somebody was not signed in: too many groups for a cookie; let the provider send fewer")
        return _failed(request, serving, 403, _TOO_LONG, back)
    _set_cookie(response, request, FLOW)
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
    sealed = cookie_of(request, service.config.serving, FLOW)
    flow = service.authenticator.sessions.read_flow(sealed) if sealed else None
    state = _only(request, "state")
    names = [name for name, _ in request.query_params.multi_items()]
    is_twice = len(names) != len(set(names))  # a parameter has several values, of which others may believe another one
    if flow is None or state is None or flow["settings"] != provider.fingerprint or is_twice:
        return None
    return flow if hmac.compare_digest(flow["state"].encode(), state.encode()) else None


def _only(request: HttpRequest, name: str) -> str | None:
    values = request.query_params.getlist(name)
    return values[0] if len(values) == 1 else None


def _public(serving: Serving, path: str) -> str:
    """Return the address of a path of ours as people reach it: never by the name that a request gives."""
    return f"{(serving.public_url or '').rstrip('/')}{path}"


def _failed(request: HttpRequest, serving: Serving, status: int, reason: str, back: str = "/") -> HTMLResponse:
    again = _public(serving, f"{PATH}?return={quote(back, safe='')}")
    page = html_template(__package__, "sign_in_failed.html.j2")
    content = page.render(reason=reason, again=again, home=_public(serving, "/"))
    response = HTMLResponse(content, status, _HEADERS)
    _set_cookie(response, request, FLOW)
    return response
