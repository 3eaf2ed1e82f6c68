"""Authentication: static tokens, keys, JSON Web Tokens and sessions as principals, for an address and a tenant.
Credentials are resolved by the event loop alone, which awaits an issuer's keys and the database once per request."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from rag_serving.access.bearer_tokens import Bearer, BearerTokens
from rag_serving.access.bounded_fetch import IssuerDownError
from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import ROLES, Principal, choose_tenant
from rag_serving.access.provider import Provider
from rag_serving.access.sessions import Session, SignInSessions
from rag_serving.access.token_validation import ClaimsError, ExpiredTokenError, TokenError, principal_of
from rag_serving.api.wire import NO_TOKEN, RequestError, bearer_token, first_fault, is_loopback
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.serving import Role, Serving
from rag_serving.hooks import GOVERNANCE, KeysAwayError, MachineKey, open_keys
from rag_serving.plugins import HOOKS, loaded, missing


class TokenHolder(BaseModel):
    """The principal of a token, according to `serving.tokens_env`."""

    tenant: str
    user: str | None = None
    groups: frozenset[str] = frozenset()
    roles: frozenset[Role] = frozenset({"reader"})
    user_header: str | None = Field(None, pattern=r"^[A-Za-z0-9-]{1,100}$")  # of a server that asks for its users
    resource: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")  # the only address that it opens (RFC 8707)

    @model_validator(mode="after")
    def _one_user(self) -> Self:
        if self.user and self.user_header:
            raise ValueError("a token is of a user, or has a user_header that names one, not both")
        return self

    @property
    def principal(self) -> Principal:
        """The principal behind the token."""
        return Principal(self.tenant, self.user, self.groups, frozenset(self.roles))


def read_tokens(config: Config) -> Mapping[str, TokenHolder]:
    """Return holders by the digest of their token, so that looking one up takes the same time for every wrong token.
    Raises ConfigError: they cannot be used, or mode `tokens` has none and nobody can sign in."""
    variable = config.serving.tokens_env
    content = os.environ.get(variable)
    if not content and (config.serving.oidc is not None or config.serving.jwt is not None):
        return {}
    if not content:
        raise ConfigError(
            f"serving.auth 'tokens' needs {variable}: a JSON object of token: {{tenant, user, groups, roles}}; {{}} "
            "where all have keys of `citelock keys`"
        )
    try:
        holders = TypeAdapter(dict[str, TokenHolder]).validate_json(content)
    except ValidationError as error:
        fault = first_fault(error.errors(include_input=False, include_url=False), skip=1)  # the token itself
        raise ConfigError(
            f"{variable} is not a JSON object of token: {{tenant, user, groups, roles}} ({fault})"
        ) from None
    is_alone = config.serving.oidc is None and config.serving.jwt is None
    if not holders and is_alone and "keys" not in loaded(HOOKS):
        raise missing(f"{variable}: {{}}, where all have keys of `citelock keys`,", GOVERNANCE)
    for holder in holders.values():
        if holder.tenant not in config.tenants:
            raise ConfigError(f"{variable}: tenant {holder.tenant!r} is not configured")
        if holder.resource and not config.serving.public_url:
            raise ConfigError(f"{variable}: a token has a resource; set serving.public_url, by which it is compared")
    return {token_digest(token): holder for token, holder in holders.items()}


def token_digest(token: str) -> str:
    """Return the key of a token, under which its holder is counted."""
    return hmac.new(b"citelock", token.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


RETRY_AFTER_S = 5
SAID_AGAIN_S = 10.0
"""Seconds between two lines of the log on tokens that were refused: strangers could make as many as they like."""
_UNKNOWN = "the bearer token is not known"
_OVER = "this session is over: sign in again"

_log = logging.getLogger(__name__)


class AuthError(RequestError):
    """A request of somebody who may not ask: 401 who are you, 403 not for you, 400 which tenant, 503 ask again."""


@dataclass(frozen=True)
class Identity:
    """Whom credentials name."""

    principal: Principal
    counted_as: str
    """What limits are counted by: the same for a token, whether it is shown or was signed in with."""
    user_header: str | None = None
    """The header that names the user for whom a server asks."""
    resource: str | None = None
    """The only address that the credentials open."""
    bearer: Bearer | None = None
    """Of a JSON Web Token."""
    key: MachineKey | None = None


def _of_key(key: MachineKey) -> Identity:
    return Identity(key.principal, f"key {key.id}", resource=key.resource, key=key)


_MAX_USER_CHARS = 500


@dataclass(frozen=True)
class Request:
    """The parts of a request that matter to authentication."""

    client: str | None  # address of the peer
    host: str | None  # `Host` header
    authorization: str | None
    forwarded: bool = False  # by a proxy, as its headers say
    session: Session | None = None  # of the cookie; `authorization`, if present, takes precedence
    headers: Mapping[str, str] = field(default_factory=dict)  # all of them, without regard to case
    address: str = ""  # of the server, as people reach it
    recognized: Identity | AuthError | None = None  # the result of `Authenticator.recognize`


class Authenticator:
    """Turns requests into principals, as `serving.auth` says."""

    def __init__(self, config: Config, like: Authenticator | None = None) -> None:
        """Read the tokens. `like`: of an earlier configuration, whose fetched keys go on if nothing of them changed.
        Raises ConfigError: mode `tokens` without usable tokens, an issuer's keys that cannot be used, or a provider
        without its secret."""
        self._tenants = sorted(config.tenants)
        self._memberships = Memberships(config)
        self.sessions = SignInSessions(config)
        for name, mapping in (("oidc", config.serving.oidc), ("jwt", config.serving.jwt)):
            for tenant in sorted(mapping.named_tenants()) if mapping is not None else ():
                if tenant not in config.tenants:
                    raise ConfigError(f"serving.{name}: tenant {tenant!r} is not configured")
        self._is_open = config.serving.auth == "loopback"
        self._holders: Mapping[str, TokenHolder] = {} if self._is_open else read_tokens(config)
        self._keys = None if self._is_open else open_keys(config)
        settings = None if self._is_open else config.serving.jwt
        self._issuer = BearerTokens(settings, self._tenants) if settings is not None else None
        earlier = like._issuer if like is not None else None
        if self._issuer and earlier and earlier.settings == settings and self._issuer.settings.is_remote:
            self._issuer.keys = earlier.keys
        oidc = config.serving.oidc
        if oidc and (variable := oidc.client_secret_env) and not os.environ.get(variable):
            raise ConfigError(
                f"the environment variable {variable} (serving.oidc.client_secret_env) is not set; set it"
            )
        self.provider = Provider(oidc) if oidc else None
        self._said = float("-inf")

    async def recognize(self, request: Request) -> Identity | AuthError | None:
        """Return the identity behind a request's credentials, or the error; None without credentials. Waits for an
        issuer's keys and for the database, so call it once per request."""
        if self._is_open:
            return None
        try:
            if token := bearer_token(request.authorization):
                return await self._of_token(token)
            if request.authorization is None and request.session is not None:
                return await self._of_session(request.session)
        except AuthError as error:
            return error
        return None

    def principal(self, request: Request, tenant: str | None = None) -> Principal:
        """Return the caller as one of a tenant; the request was recognized before. Raises AuthError: the caller has no
        access."""
        if self._is_open:
            self.reach(request)
            try:
                return Principal(choose_tenant(self._tenants, tenant, "?tenant=NAME"), roles=ROLES)
            except ValueError as error:
                raise AuthError(400, "TENANT", str(error)) from None
        caller = _holder(request)
        if tenant not in (None, caller.tenant):
            raise AuthError(403, "FORBIDDEN", "the token belongs to another tenant")
        return self._memberships.with_groups(caller)

    def identify(self, request: Request) -> Principal | None:
        """Return the caller of any tenant without the groups from a sync: no file is read. None is this machine's own
        reader, who may do everything. Raises AuthError: the caller has no access."""
        self.reach(request)
        return None if self._is_open else _holder(request)

    def reach(self, request: Request) -> None:
        """Refuse a request that does not reach this server as it may: from elsewhere in mode `loopback`. Raises
        AuthError: from another machine, by another name, or through a proxy."""
        if self._is_open:
            _require_loopback(request)

    def is_guessable(self, token: str) -> bool:
        """Return whether a token could be one that somebody makes up: all but JSON Web Tokens, whose signatures nobody
        guesses."""
        return self._issuer is None or not token.startswith("eyJ") or token.count(".") != 2

    async def session_of(self, token: str) -> Session:
        """Return a new session for the bearer of a token. Raises AuthError: nobody, it opens one address alone, or it
        cannot be verified now."""
        identity = await self._of_token(token)
        if identity.resource is not None:
            raise AuthError(401, "UNAUTHENTICATED", _UNKNOWN)
        if identity.key is not None:
            return self.sessions.begun("key", identity.key.expires, token=identity.key.id)
        if (bearer := identity.bearer) is not None and self._issuer is not None:
            settings, principal = self._issuer.fingerprint, bearer.principal
            return self.sessions.begun("jwt", bearer.expires, bearer.key, settings, principal)
        return self.sessions.begun("token", token=identity.counted_as)

    def session_of_claims(self, claims: Mapping[str, Any]) -> Session:
        """Return a new session of the user in the provider's claims. Raises ClaimsError: the user may not sign in."""
        provider = self.provider
        assert provider is not None
        principal = principal_of(claims, provider.settings, self._tenants)
        return self.sessions.begun("oidc", settings=provider.fingerprint, principal=principal)

    async def signed_in(self, session: Session) -> Principal:
        """Return the present principal of this session. Raises AuthError: its token, key or issuer is not known now."""
        return (await self._of_session(session)).principal

    def close(self) -> None:
        if self._keys is not None:
            self._keys.close()

    async def _of_token(self, token: str) -> Identity:
        digest = token_digest(token)
        if (holder := self._holders.get(digest)) is not None:
            return Identity(holder.principal, digest, holder.user_header, holder.resource)
        if self._keys is not None and self._keys.is_key(token):
            if (key := await self._key(self._keys.of_token(token))) is None:
                raise AuthError(401, "UNAUTHENTICATED", _UNKNOWN)
            return _of_key(key)
        if self._issuer is not None and not self.is_guessable(token):
            return await self._of_bearer(self._issuer, token)
        raise AuthError(401, "UNAUTHENTICATED", _UNKNOWN)

    async def _of_session(self, session: Session) -> Identity:
        """Return the present identity behind a session. Raises AuthError: what it began with is no longer valid, or
        cannot be verified now."""
        holder = self._holders.get(session.token) if session.kind == "token" else None
        if holder is not None and holder.resource is None:
            return Identity(holder.principal, session.token)
        keys = self._keys if session.kind == "key" else None
        key = await self._key(keys.of_id(session.token)) if keys is not None else None
        if key is not None and key.resource is None:
            return _of_key(key)
        if session.principal is not None and session.principal.tenant in self._tenants and await self._holds(session):
            return Identity(session.principal, session.caller)
        raise AuthError(401, "UNAUTHENTICATED", _OVER)

    async def _holds(self, session: Session) -> bool:
        """Return whether who named a session's user is believed now: under the settings of now, and by the same key."""
        if session.kind == "oidc":
            return self.provider is not None and session.settings == self.provider.fingerprint
        if session.kind != "jwt" or self._issuer is None or session.settings != self._issuer.fingerprint:
            return False
        try:
            return await self._issuer.keys.holds(session.token)
        except IssuerDownError as error:
            raise self._keys_down(error) from None

    async def _key(self, looking_up: Awaitable[MachineKey | None]) -> MachineKey | None:
        try:
            key = await looking_up
        except KeysAwayError as error:
            self._say(f"keys cannot be looked up: {error}")
            raise AuthError(503, "UNAVAILABLE", "keys cannot be looked up now", retry_after=RETRY_AFTER_S) from None
        return key if key is not None and key.principal.tenant in self._tenants else None

    async def _of_bearer(self, issuer: BearerTokens, token: str) -> Identity:
        try:
            bearer = await issuer.bearer(token)
        except ExpiredTokenError:
            raise AuthError(401, "UNAUTHENTICATED", "the bearer token has expired") from None
        except TokenError as error:
            self._say(f"a bearer token was refused: {error}")
            raise AuthError(401, "UNAUTHENTICATED", "the bearer token is not valid here") from None
        except ClaimsError as error:
            self._say(f"a bearer token was refused: {error}")
            message = "your account may not be used here; ask whoever runs this server"
            raise AuthError(403, "FORBIDDEN", message) from None
        except IssuerDownError as error:
            raise self._keys_down(error) from None
        return Identity(bearer.principal, f"{bearer.principal.tenant} {bearer.principal.user}", bearer=bearer)

    def _keys_down(self, error: IssuerDownError) -> AuthError:
        self._say(f"no bearer token can be verified: {error}")
        return AuthError(503, "UNAVAILABLE", "bearer tokens cannot be verified now", retry_after=RETRY_AFTER_S)

    def _say(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said >= SAID_AGAIN_S:
            self._said = now
            _log.warning("%s", line)


def _holder(request: Request) -> Principal:
    found = request.recognized
    if found is None:
        raise AuthError(401, "UNAUTHENTICATED", NO_TOKEN)
    if isinstance(found, AuthError):
        raise AuthError(found.status, found.code, str(found), retry_after=found.retry_after)
    if found.resource and not f"{request.address}/".startswith(f"{found.resource.rstrip('/')}/"):
        # issued for another address (RFC 8707, RFC 9728)
        raise AuthError(401, "UNAUTHENTICATED", "the bearer token was issued for another address")
    # The user on whose behalf a server asks, from its token's header; without the header, nobody.
    header = found.user_header if request.session is None else None
    user = request.headers.get(header, "").strip() if header else ""
    if len(user) > _MAX_USER_CHARS or not user.isprintable():
        raise AuthError(400, "BAD_REQUEST", f"the header {header} does not hold the name of a user")
    return replace(found.principal, user=user) if user else found.principal


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
    """Refuse to show pages without authentication to other machines. Raises ConfigError: mode `loopback` and another
    address than loopback."""
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
