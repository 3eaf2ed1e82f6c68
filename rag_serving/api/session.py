"""`/v1/session`: signing in on the web page with a token, the current reader, signing out.

Belongs here: the reader's data for the page. Does not belong here: the contents of a session (`access.sessions`),
forged requests (`origins`), signing in at a provider (`sign_in`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, Field

from rag_serving.access.principals import ROLES, Principal
from rag_serving.access.sessions import Session
from rag_serving.api.admission import address_of, slower
from rag_serving.api.bodies import MAX_SELECTION_CHARS, Body, plain
from rag_serving.api.cookies import SESSION, cookie_of, is_https, set_cookie
from rag_serving.api.credentials import AuthError
from rag_serving.api.rates import Guesses
from rag_serving.api.service import CurrentService, Service, caller_of, session_of
from rag_serving.api.static_tokens import token_digest
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.secret import SecretError
from rag_serving.config.loading import Config
from rag_serving.documents.inbox import inboxes_of
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
        set_cookie(response, SESSION, "", 0, https=is_https(request, service.config.serving))
    return response


@router.post("/v1/session")
async def sign_in(body: SignIn, request: HttpRequest, service: CurrentService) -> JSONResponse:
    """Begin the session of a token's holder; on the event loop, which alone counts guesses."""
    if service.config.serving.auth == "loopback":
        raise RequestError(400, "NOT_NEEDED", "nobody signs in here: serving.auth is loopback")
    token, address, authenticator = body.token.strip(), address_of(request), service.authenticator
    guesses: Guesses = request.app.state.guesses
    is_guessable = authenticator.is_guessable(token)
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
def sign_out(request: HttpRequest, service: CurrentService) -> Response:
    """Let the browser forget the session."""
    response = Response(status_code=204, headers=_NO_STORE)
    set_cookie(response, SESSION, "", 0, https=is_https(request, service.config.serving))
    return response


def keep_session(response: Response, request: HttpRequest, service: Service, session: Session) -> None:
    """Let the browser keep a session.

    Raises:
        RequestError: the installation's secret cannot be used.
        SessionTooLongError: as `Sessions.seal`.
    """
    sessions = service.authenticator.sessions
    try:
        sealed = sessions.seal(session)
    except SecretError:
        raise RequestError(503, "UNAVAILABLE", "nobody can sign in: the server's secret cannot be used") from None
    https = is_https(request, service.config.serving)
    set_cookie(response, SESSION, sealed, sessions.seconds_left(session), https=https)


def _reader(request: HttpRequest, config: Config, tenant: str | None) -> dict[str, Any] | None:
    """Return the public facts about the caller; None without access."""
    try:
        reader = _named(caller_of(request, tenant))
    except AuthError as error:
        if error.code != "TENANT":
            return None
        # This machine's own reader, without a tenant yet.
        reader = {"user": None, "tenant": None, "roles": sorted(ROLES)}
    several = config.serving.auth == "loopback" and len(config.tenants) > 1
    return {**reader, "tenants": sorted(config.tenants) if several else []}


def _may_upload(config: Config, reader: dict[str, Any] | None) -> bool:
    """Return whether there is a source that takes uploads, and the reader is an editor."""
    return reader is not None and "editor" in reader["roles"] and bool(inboxes_of(config, reader["tenant"] or ""))


def may_connect(config: Config) -> bool:
    """Return whether operators may connect sources: what reads them is installed, and the configuration is theirs."""
    is_local = config.serving.auth == "loopback"
    is_allowed = is_local if config.serving.connect is None else config.serving.connect
    return is_allowed and (is_local or len(config.tenants) == 1) and "connect" in loaded(ROUTES)


def _named(caller: Principal) -> dict[str, Any]:
    return {"user": caller.user, "tenant": caller.tenant, "tenants": [], "roles": sorted(caller.roles)}


def _answer(config: Config, reader: dict[str, Any] | None, session: Session | None) -> JSONResponse:
    session = session if reader else None
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
            "document_bytes": config.serving.max_document_bytes,
        },
        "features": {
            "feedback": config.telemetry.enabled,
            "documents": _may_upload(config, reader),
            "notices": config.monitoring.sends_notices,
            "connect": reader is not None and "operator" in reader["roles"] and may_connect(config),
        },
    }
    return JSONResponse(content, headers=_NO_STORE)
