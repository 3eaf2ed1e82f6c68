"""Who a request comes from.

Belongs here: bearer tokens, sessions and the loopback demo as principals.
Does not belong here: what a principal may read (`access.principals`), what a session holds (`access.sessions`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from rag_serving.access.claims import principal_of
from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import ROLES, Principal, choose_tenant
from rag_serving.access.provider import Provider
from rag_serving.access.sessions import Session, Sessions
from rag_serving.api.wire import NO_TOKEN, RequestError, bearer_token, first_fault, is_loopback
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.oidc import Role
from rag_serving.config.serving import Serving

_MAX_USER_CHARS = 500


class AuthError(RequestError):
    """A request of somebody who may not ask: 401 who are you, 403 not for you, 400 which tenant."""


class TokenHolder(BaseModel):
    """Whose a token is, as `serving.tokens_env` says."""

    tenant: str
    user: str | None = None
    groups: frozenset[str] = frozenset()
    roles: frozenset[Role] = frozenset({"reader"})
    user_header: str | None = Field(None, pattern=r"^[A-Za-z0-9-]{1,100}$")  # of a server that asks for its own users
    resource: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")  # the only address that it opens (RFC 8707)

    @model_validator(mode="after")
    def _one_user(self) -> Self:
        if self.user and self.user_header:
            raise ValueError("a token is of a user, or has a user_header that names one, not both")
        return self


@dataclass(frozen=True)
class Request:
    """What authentication looks at."""

    client: str | None  # address of the peer
    host: str | None  # `Host` header
    authorization: str | None
    tenant: str | None  # asked for in the query string
    forwarded: bool = False  # by a proxy, as its headers say
    session: Session | None = None  # of the cookie; a request with `authorization` is asked by that alone
    headers: Mapping[str, str] = field(default_factory=dict)  # all of them, without regard to case
    address: str = ""  # that is asked, as people reach it


class Authenticator:
    """Turns requests into principals, as `serving.auth` says."""

    def __init__(self, config: Config) -> None:
        """Read the tokens.

        Raises:
            ConfigError: mode `tokens` without usable tokens, or a provider without its secret.
        """
        self._tenants = sorted(config.tenants)
        self._memberships = Memberships(config)
        holders = _read_tokens(config) if config.serving.auth == "tokens" else None
        principals = {digest: _principal_of(holder) for digest, holder in (holders or {}).items()}
        self._principals = None if holders is None else principals
        named = {digest: holder.user_header for digest, holder in (holders or {}).items()}
        self._user_headers = {digest: header for digest, header in named.items() if header}
        bound = {digest: holder.resource for digest, holder in (holders or {}).items()}
        self._resources = {digest: resource for digest, resource in bound.items() if resource}
        self.sessions = Sessions(config)
        self.provider = _provider(config)

    def principal(self, request: Request) -> Principal:
        """Return who asks.

        Raises:
            AuthError: nobody who may.
        """
        if self._principals is None:
            _require_loopback(request)
            return Principal(self._only_tenant(request.tenant), roles=ROLES)
        return self._memberships.with_groups(self._holder(request, self._principals))

    def identify(self, request: Request) -> None:
        """Refuse who may ask of no tenant, by the headers alone: no file is read.

        Raises:
            AuthError: nobody who may.
        """
        if self._principals is None:
            _require_loopback(request)
        else:
            self._holder(request, self._principals)

    def reach(self, request: Request) -> None:
        """Refuse a request that does not reach this server as it may: from elsewhere in mode `loopback`.

        Raises:
            AuthError: from another machine, by another name, or through a proxy.
        """
        if self._principals is None:
            _require_loopback(request)

    def _holder(self, request: Request, principals: Mapping[str, Principal]) -> Principal:
        """Return whose token a request shows, or who is signed in where it shows none."""
        if request.authorization is None and request.session is not None:
            principal = self.signed_in(request.session)
        else:
            principal = self._in_the_name_of(request, _bearer(request, principals))
            self._check_resource(request)
        if request.tenant not in (None, principal.tenant):
            raise AuthError(403, "FORBIDDEN", "the token belongs to another tenant")
        return principal

    def _in_the_name_of(self, request: Request, principal: Principal) -> Principal:
        """Return the user for whom a server asks with its token, as the token's header says; without it nobody."""
        header = self._user_headers.get(token_digest(bearer_token(request.authorization)))
        user = request.headers.get(header, "").strip() if header else ""
        if len(user) > _MAX_USER_CHARS or not user.isprintable():
            raise AuthError(400, "BAD_REQUEST", f"the header {header} does not hold the name of a user")
        return replace(principal, user=user) if user else principal

    def _check_resource(self, request: Request) -> None:
        """Refuse a token that was issued for another address (RFC 8707, RFC 9728).

        Raises:
            AuthError: it was.
        """
        resource = self._resources.get(token_digest(bearer_token(request.authorization)))
        if resource and not f"{request.address}/".startswith(f"{resource.rstrip('/')}/"):
            raise AuthError(401, "UNAUTHENTICATED", "the bearer token was issued for another address")

    def session_of(self, token: str) -> Session | None:
        """Return a new session for the holder of a token; None where the token is not known."""
        digest = token_digest(token)
        is_known = self._principals is not None and digest in self._principals and digest not in self._resources
        return self.sessions.begun_by_token(digest) if is_known else None

    def signed_in(self, session: Session) -> Principal:
        """Return whose session this is, as of now.

        Raises:
            AuthError: its token, or the provider as it was configured, is no longer known.
        """
        if session.kind == "oidc":
            principal = session.principal if self._is_in_force(session) else None
        else:
            principal = (self._principals or {}).get(session.token)
        if principal is None:
            raise AuthError(401, "UNAUTHENTICATED", "this session is over: sign in again")
        return principal

    def _is_in_force(self, session: Session) -> bool:
        """Return whether a session was begun under the provider's settings of now, for a tenant that is still here."""
        tenant = session.principal.tenant if session.principal else None
        return tenant in self._tenants and self.provider is not None and session.settings == self.provider.fingerprint

    def session_of_claims(self, claims: Mapping[str, Any]) -> Session:
        """Return a new session of whom the provider's claims name.

        Raises:
            ClaimsError: nobody who may sign in.
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


def _bearer(request: Request, principals: Mapping[str, Principal]) -> Principal:
    token = bearer_token(request.authorization)
    if not token:
        raise AuthError(401, "UNAUTHENTICATED", NO_TOKEN)
    principal = principals.get(token_digest(token))
    if principal is None:
        raise AuthError(401, "UNAUTHENTICATED", "the bearer token is not known")
    return principal


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
            "set serving.auth: tokens to listen elsewhere"
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


def _read_tokens(config: Config) -> Mapping[str, TokenHolder]:
    """Return holders by the digest of their token, so that looking one up takes the same time for every wrong token."""
    variable = config.serving.tokens_env
    content = os.environ.get(variable)
    if not content and config.serving.oidc is not None:
        return {}
    if not content:
        raise ConfigError(
            f"serving.auth 'tokens' needs {variable}: a JSON object of token: {{tenant, user, groups, roles}}"
        )
    try:
        holders = TypeAdapter(dict[str, TokenHolder]).validate_json(content)
    except ValidationError as error:
        fault = first_fault(error.errors(include_input=False, include_url=False), skip=1)  # the token itself
        raise ConfigError(
            f"{variable} is not a JSON object of token: {{tenant, user, groups, roles}} ({fault})"
        ) from None
    for holder in holders.values():
        if holder.tenant not in config.tenants:
            raise ConfigError(f"{variable}: tenant {holder.tenant!r} is not configured")
        if holder.resource and not config.serving.public_url:
            raise ConfigError(f"{variable}: a token has a resource; set serving.public_url, by which it is compared")
    return {token_digest(token): holder for token, holder in holders.items()}


def _principal_of(holder: TokenHolder) -> Principal:
    return Principal(holder.tenant, holder.user, holder.groups, frozenset(holder.roles))


def _provider(config: Config) -> Provider | None:
    """Return where people sign in.

    Raises:
        ConfigError: a tenant or the client's secret is missing.
    """
    settings = config.serving.oidc
    if settings is None:
        return None
    for tenant in {*settings.tenants.values(), *([settings.tenant] if settings.tenant else [])}:
        if tenant not in config.tenants:
            raise ConfigError(f"serving.oidc: tenant {tenant!r} is not configured")
    if (variable := settings.client_secret_env) and not os.environ.get(variable):
        raise ConfigError(f"the environment variable {variable} (serving.oidc.client_secret_env) is not set; set it")
    return Provider(settings)


def token_digest(token: str) -> str:
    """Return what a token is known by, and its holder counted by."""
    return hmac.new(b"citelock", token.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
