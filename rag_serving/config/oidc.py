"""The section `serving.oidc` of `config/app.yaml`: signing in on the web page at an OpenID Connect provider.

Belongs here: which provider, which of its claims say what. Does not belong here: asking it (`access.provider`), what
becomes of claims (`access.claims`), bearer tokens (`jwt`).
"""

from __future__ import annotations

from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from rag_serving.config.sources import Section

Role = Literal["reader", "editor", "operator", "auditor"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a private key: what a shared secret signs is never believed."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Claims(Section):
    """Names of the claims that identify a user. `a.b` is the claim `b` inside of `a`, unless a claim is named `a.b`."""

    tenant: str | None = Field("tenant", min_length=1, max_length=200)
    """Claim with the tenant; null: the claim is not used."""
    user: str = Field("sub", min_length=1, max_length=200)
    """Claim with the user. `email` counts only if `email_verified` is true."""
    groups: str | None = Field("groups", min_length=1, max_length=200)
    """Claim with the groups, one or a list; null: none."""
    roles: str | None = Field(None, min_length=1, max_length=200)
    """Claim with the values that `roles` maps, one or a list; null: every user is a reader."""


class ClaimMapping(Section):
    """What claims mean: the part that ID tokens (`oidc`) and bearer tokens (`jwt`) have in common."""

    claims: Claims = Claims()
    """Names of claims."""
    tenant: str | None = None
    """Tenant of users without a claim that names one; null: such users are refused."""
    tenants: dict[str, str] = Field({}, max_length=1000)
    """Tenant for each value of the tenant claim. Any other value must be the name of a tenant."""
    roles: dict[str, list[Role]] = Field({}, max_length=1000)
    """Roles for each value of the roles claim. A user without roles is a reader."""

    def named_tenants(self) -> set[str]:
        """Return the tenants that the mapping itself names: each must be configured."""
        return {*self.tenants.values(), *([self.tenant] if self.tenant else [])}


class Oidc(ClaimMapping):
    """An OpenID Connect provider where people sign in (authorization code with PKCE), in addition to the tokens of
    programs."""

    issuer: str = Field(pattern=r"^https?://[^\s?#]+$", max_length=500)
    """The provider's issuer, exactly as in its metadata; `/.well-known/openid-configuration` below it is read. Must be
    https, except on this machine."""
    client_id: str = Field(min_length=1, max_length=500)
    """Client id of this installation at the provider."""
    client_secret_env: str | None = None
    """Environment variable with the client's secret; null: a public client, with PKCE only."""
    scopes: list[str] = Field(["openid", "profile"], max_length=50)
    """Scopes that are requested; `openid` must be one of them."""
    label: ClassVar[str] = "Sign in"  # of the button
    algorithms: list[Algorithm] = Field(["RS256", "ES256"], min_length=1, max_length=10)
    """Accepted signature algorithms."""
    leeway_s: ClassVar[int] = 60  # seconds by which the provider's clock may differ
    timeout_s: ClassVar[float] = 5  # seconds that one request to the provider may take

    @field_validator("issuer")
    @classmethod
    def _is_encrypted(cls, issuer: str) -> str:
        if not is_encrypted(issuer):
            raise ValueError("it must be https: what it says decides who reads what")
        return issuer

    @field_validator("scopes")
    @classmethod
    def _asks_who(cls, scopes: list[str]) -> list[str]:
        if "openid" not in scopes or not all(scope.isascii() and scope.isprintable() for scope in scopes):
            raise ValueError("it must have 'openid', and scopes are words of ASCII")
        return scopes


def is_encrypted(url: str) -> bool:
    """Return whether nobody reads along at an address: https, or this machine's own."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    except ValueError:
        return False
