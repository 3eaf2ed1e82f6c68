"""Authentication of requests.

Belongs here: credentials, sessions and the loopback demo as principals, for an address and a tenant.
Does not belong here: resolving credentials (`credentials`), a principal's access (`access.principals`), the contents of
a session (`access.sessions`).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi.security.utils import get_authorization_scheme_param

from rag_serving.access.claims import principal_of
from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import ROLES, Principal, choose_tenant
from rag_serving.access.provider import Provider
from rag_serving.access.sessions import Session, SignInSessions
from rag_serving.api.credentials import AuthError, Credentials, Identity
from rag_serving.api.wire import NO_TOKEN, bearer_token, is_loopback
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.serving import Serving

_MAX_USER_CHARS = 500


@dataclass(frozen=True)
class Request:
    """The parts of a request that matter to authentication."""

    client: str | None  # address of the peer
    host: str | None  # `Host` header
    authorization: str | None
    tenant: str | None  # requested in the query string
    forwarded: bool = False  # by a proxy, as its headers say
    session: Session | None = None  # of the cookie; `authorization`, if present, takes precedence
    headers: Mapping[str, str] = field(default_factory=dict)  # all of them, without regard to case
    address: str = ""  # of the server, as people reach it
    recognized: Identity | AuthError | None = None  # the result of `Authenticator.recognize`

    def without_session(self) -> Request:
        """Return the same by the header `Authorization` alone."""
        return self if self.session is None else replace(self, session=None, recognized=None)


class Authenticator:
    """Turns requests into principals, as `serving.auth` says."""

    def __init__(self, config: Config, like: Authenticator | None = None) -> None:
        """Read the tokens. `like`: of an earlier configuration, whose fetched keys may go on.

        Raises:
            ConfigError: mode `tokens` without usable tokens, an issuer's keys that cannot be used, or a provider
                without its secret.
        """
        self._tenants = sorted(config.tenants)
        self._memberships = Memberships(config)
        self.sessions = SignInSessions(config)
        _check_tenants(config)
        self._credentials: Credentials | None = None  # none is required
        if config.serving.auth != "loopback":
            self._credentials = Credentials(config, self.sessions, like._credentials if like else None)
        self.provider = _provider(config)

    async def recognize(self, request: Request) -> Identity | AuthError | None:
        """Return the identity behind a request's credentials, or the error; None without credentials.

        Waits for an issuer's keys and for the database, so call it once per request.
        """
        if self._credentials is None:
            return None
        try:
            if token := bearer_token(request.authorization):
                return await self._credentials.of_token(token)
            if request.authorization is None and request.session is not None:
                return await self._of_session(self._credentials, request.session)
        except AuthError as error:
            return error
        return None

    def principal(self, request: Request) -> Principal:
        """Return the caller; the request was recognized before.

        Raises:
            AuthError: the caller has no access.
        """
        if self._credentials is None:
            _require_loopback(request)
            return Principal(self._only_tenant(request.tenant), roles=ROLES)
        return self._memberships.with_groups(_holder(request))

    def identify(self, request: Request) -> Principal | None:
        """Return the caller of any tenant without the groups from a sync: no file is read. None is this machine's own
        reader, who may do everything.

        Raises:
            AuthError: the caller has no access.
        """
        if self._credentials is None:
            _require_loopback(request)
            return None
        return _holder(replace(request, tenant=None))

    def reach(self, request: Request) -> None:
        """Refuse a request that does not reach this server as it may: from elsewhere in mode `loopback`.

        Raises:
            AuthError: from another machine, by another name, or through a proxy.
        """
        if self._credentials is None:
            _require_loopback(request)

    def is_guessable(self, token: str) -> bool:
        """Return whether a token could be one that somebody makes up: all but those that an issuer signs."""
        return self._credentials is None or not self._credentials.is_issued(token)

    async def session_of(self, token: str) -> Session:
        """Return a new session for the bearer of a token.

        Raises:
            AuthError: the token names nobody, or cannot be verified now.
        """
        if self._credentials is None:
            raise AuthError(401, "UNAUTHENTICATED", NO_TOKEN)
        return await self._credentials.session_of(token)

    async def signed_in(self, session: Session) -> Principal:
        """Return the present principal of this session.

        Raises:
            AuthError: its token, key or issuer is no longer known.
        """
        if self._credentials is None:
            raise AuthError(401, "UNAUTHENTICATED", NO_TOKEN)
        return (await self._of_session(self._credentials, session)).principal

    def close(self) -> None:
        if self._credentials is not None:
            self._credentials.close()

    async def _of_session(self, credentials: Credentials, session: Session) -> Identity:
        if session.kind != "oidc":
            return await credentials.of_session(session)
        if session.principal is None or not self._is_in_force(session):
            raise AuthError(401, "UNAUTHENTICATED", "this session is over: sign in again")
        return Identity(session.principal, session.caller)

    def _is_in_force(self, session: Session) -> bool:
        """Return whether a session was begun under the provider's settings of now, for a tenant that is still here."""
        tenant = session.principal.tenant if session.principal else None
        return tenant in self._tenants and self.provider is not None and session.settings == self.provider.fingerprint

    def session_of_claims(self, claims: Mapping[str, Any]) -> Session:
        """Return a new session of the user in the provider's claims.

        Raises:
            ClaimsError: the user may not sign in.
        """
        provider = self.provider
        assert provider is not None
        principal = principal_of(claims, provider.settings, self._tenants)
        return self.sessions.begun_by_provider(principal, provider.fingerprint)

    def _only_tenant(self, asked: str | None) -> str:
        try:
            return choose_tenant(self._tenants, asked, "?tenant=NAME")
        except ValueError as error:
            raise AuthError(400, "TENANT", str(error)) from None


def _holder(request: Request) -> Principal:
    """Return whom a recognized request names."""
    found = request.recognized
    if found is None:
        raise AuthError(401, "UNAUTHENTICATED", NO_TOKEN)
    if isinstance(found, AuthError):
        raise AuthError(found.status, found.code, str(found), retry_after=found.retry_after)
    if found.resource and not f"{request.address}/".startswith(f"{found.resource.rstrip('/')}/"):
        # issued for another address (RFC 8707, RFC 9728)
        raise AuthError(401, "UNAUTHENTICATED", "the bearer token was issued for another address")
    if request.tenant not in (None, found.principal.tenant):
        raise AuthError(403, "FORBIDDEN", "the token belongs to another tenant")
    return _in_the_name_of(request, found)


def _in_the_name_of(request: Request, identity: Identity) -> Principal:
    """Return the user on whose behalf a server asks, from its token's header; without the header, nobody."""
    header = identity.user_header if request.session is None else None
    user = request.headers.get(header, "").strip() if header else ""
    if len(user) > _MAX_USER_CHARS or not user.isprintable():
        raise AuthError(400, "BAD_REQUEST", f"the header {header} does not hold the name of a user")
    return replace(identity.principal, user=user) if user else identity.principal


def as_bearer(authorization: str | None) -> str | None:
    """Return basic credentials as the bearer token that is their password."""
    scheme, value = get_authorization_scheme_param(authorization)
    if scheme.lower() != "basic":
        return authorization
    try:
        _, _, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return f"Bearer {password}"


def check_address(serving: Serving) -> None:
    """Refuse to show pages without authentication to other machines.

    Raises:
        ConfigError: mode `loopback` and another address than loopback.
    """
    if serving.auth == "loopback" and not is_loopback(serving.host):
        raise ConfigError(
            f"serving.auth 'loopback' asks nobody who they are and listens on 127.0.0.1 only, not on {serving.host}; "
            "set serving.auth: tokens or jwt to listen elsewhere"
        )


def _require_loopback(request: Request) -> None:
    """Only this machine and only by its own name: no web page may reach in by rebinding its domain's address."""
    name = re.sub(r":\d+\Z", "", request.host or "")
    if request.forwarded:
        message = "what comes through a proxy is not answered without tokens; set serving.auth: tokens"
        raise AuthError(403, "LOOPBACK_ONLY", message)
    if request.client is None or not is_loopback(request.client) or not is_loopback(name):
        raise AuthError(
            403, "LOOPBACK_ONLY", "this server answers on 127.0.0.1 only; set serving.auth: tokens for others"
        )


def _check_tenants(config: Config) -> None:
    """Refuse tenants that an issuer's claims are mapped to and that are not configured.

    Raises:
        ConfigError: there is one.
    """
    for name, mapping in (("oidc", config.serving.oidc), ("jwt", config.serving.jwt)):
        for tenant in sorted(mapping.named_tenants()) if mapping is not None else ():
            if tenant not in config.tenants:
                raise ConfigError(f"serving.{name}: tenant {tenant!r} is not configured")


def _provider(config: Config) -> Provider | None:
    """Return the provider where people sign in.

    Raises:
        ConfigError: the client's secret is missing.
    """
    settings = config.serving.oidc
    if settings is None:
        return None
    if (variable := settings.client_secret_env) and not os.environ.get(variable):
        raise ConfigError(f"the environment variable {variable} (serving.oidc.client_secret_env) is not set; set it")
    return Provider(settings)
