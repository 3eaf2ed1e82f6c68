"""Who a request comes from.

Belongs here: bearer tokens and the loopback demo as principals.
Does not belong here: what a principal may read (`access.principals`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel, TypeAdapter, ValidationError

from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import ROLES, Principal, Role, choose_tenant
from rag_serving.api.wire import NO_TOKEN, RequestError, bearer_token, first_fault, is_loopback
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.serving import Serving


class AuthError(RequestError):
    """A request of somebody who may not ask: 401 who are you, 403 not for you, 400 which tenant."""


class TokenHolder(BaseModel):
    """Whose a token is, as `serving.tokens_env` says."""

    tenant: str
    user: str | None = None
    groups: frozenset[str] = frozenset()
    roles: frozenset[Role] = frozenset({"reader"})


@dataclass(frozen=True)
class Request:
    """What authentication looks at."""

    client: str | None  # address of the peer
    host: str | None  # `Host` header
    authorization: str | None
    tenant: str | None  # asked for in the query string
    forwarded: bool = False  # by a proxy, as its headers say


class Authenticator:
    """Turns requests into principals, as `serving.auth` says."""

    def __init__(self, config: Config) -> None:
        """Read the tokens.

        Raises:
            ConfigError: mode `tokens` without usable tokens.
        """
        self._tenants = sorted(config.tenants)
        self._memberships = Memberships(config)
        self._principals = _read_tokens(config) if config.serving.auth == "tokens" else None

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

    def _holder(self, request: Request, principals: Mapping[str, Principal]) -> Principal:
        """Return whose token a request shows."""
        token = bearer_token(request.authorization)
        if not token:
            raise AuthError(401, "UNAUTHENTICATED", NO_TOKEN)
        principal = principals.get(_digest(token))
        if principal is None:
            raise AuthError(401, "UNAUTHENTICATED", "the bearer token is not known")
        if request.tenant not in (None, principal.tenant):
            raise AuthError(403, "FORBIDDEN", "the token belongs to another tenant")
        return principal

    def _only_tenant(self, asked: str | None) -> str:
        try:
            return choose_tenant(self._tenants, asked, "?tenant=NAME")
        except ValueError as error:
            raise AuthError(400, "TENANT", str(error)) from None


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


def _read_tokens(config: Config) -> Mapping[str, Principal]:
    """Principals by the digest of their token, so that looking one up takes the same time for every wrong token."""
    variable = config.serving.tokens_env
    content = os.environ.get(variable)
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
    return {
        _digest(token): Principal(holder.tenant, holder.user, holder.groups, frozenset(holder.roles))
        for token, holder in holders.items()
    }


def _digest(token: str) -> str:
    return hmac.new(b"citelock", token.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
