"""The section `serving.jwt` of `config/app.yaml`: bearer tokens that are JSON Web Tokens of somebody else.

Belongs here: whose tokens, by which key, what they must say. Does not belong here: whether one holds
(`access.token_validation`), where keys come from at run time (`access.key_sets`), signing in on the page (`oidc`).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from rag_serving.config.oidc import Algorithm, ClaimMapping, Claims, Role, is_encrypted

SecretAlgorithm = Literal["HS256", "HS384", "HS512"]
"""Signatures by a secret that the issuer and this server share; only ever by one from `key_env` or `key_file`."""
_KEYS = ("key_env", "key_file", "jwks_url")
_OWN_ROLES: dict[str, list[Role]] = {
    "reader": ["reader"],
    "editor": ["editor"],
    "operator": ["operator"],
    "auditor": ["auditor"],
}


class JwtClaims(Claims):
    """Names of the claims that identify a user. `a.b` is the claim `b` inside of `a`, unless a claim is named `a.b`."""

    tenant: str | None = Field("tenant_id", min_length=1, max_length=200)
    """Claim with the tenant; null: the claim is not used."""
    roles: str | None = Field("roles", min_length=1, max_length=200)
    """Claim with the values that `roles` maps, one or a list; null: every user is a reader."""


class Jwt(ClaimMapping):
    """Bearer tokens of an issuer (RFC 7519), with `serving.auth: jwt`. The keys come from `key_env`, `key_file` or
    `jwks_url`; without any of these they are found by OpenID Connect discovery below `issuer`."""

    issuer: str = Field(min_length=1, max_length=500)
    """The claim `iss`, exactly."""
    audience: list[str] = Field(min_length=1, max_length=20)
    """Accepted values of the claim `aud`."""
    key_env: str | None = Field(None, min_length=1, max_length=200)
    """Environment variable with a secret or a public key."""
    key_file: Path | None = None
    """File with the same, or with a JWK set. Read at the start and on `SIGHUP`."""
    jwks_url: str | None = Field(None, pattern=r"^https?://[^\s?#]+(\?[^\s#]*)?$", max_length=500)
    """Address of a JWK set (RFC 7517); must be https, except on this machine."""
    algorithms: list[Algorithm | SecretAlgorithm] | None = Field(None, min_length=1, max_length=13)
    """Accepted signature algorithms, each only with a key of its type; null: RS256, ES256 and, for a configured key,
    EdDSA; HS256 with a secret."""
    claims: JwtClaims = JwtClaims()
    """Names of claims."""
    roles: dict[str, list[Role]] = Field(_OWN_ROLES, max_length=1000)
    """Roles for each value of the roles claim. A user without roles is a reader."""
    leeway_s: ClassVar[int] = 30  # seconds by which the issuer's clock may differ
    timeout_s: ClassVar[float] = 5  # seconds that one request for keys may take
    # Seconds after which keys are fetched again; a key that the issuer has removed is accepted no longer than
    # this. A token with an unknown key id causes a fetch immediately, at most every 10 s.
    refresh_s: ClassVar[int] = 300
    keep_s: ClassVar[int] = 3600  # seconds the last keys serve while none can be fetched; then tokens are refused (503)

    @field_validator("jwks_url")
    @classmethod
    def _is_encrypted(cls, url: str | None) -> str | None:
        if url is not None and not is_encrypted(url):
            raise ValueError("it must be https: its keys decide who reads what")
        return url

    @field_validator("audience", mode="before")
    @classmethod
    def _is_listed(cls, audience: object) -> object:
        return [audience] if isinstance(audience, str) else audience

    @model_validator(mode="after")
    def _has_one_source_of_keys(self) -> Jwt:
        if not all(self.audience):
            raise ValueError("audience must not be empty")
        given = [name for name in _KEYS if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other: one says where the keys are")
        if not given and not is_encrypted(self.issuer):
            raise ValueError("without key_env, key_file or jwks_url the keys are found below issuer, an https address")
        if self.is_remote and any(name.startswith("HS") for name in self.algorithms or ()):
            raise ValueError("HS256 and its kin need a secret: key_env or key_file; fetched keys are public")
        return self

    @property
    def is_remote(self) -> bool:
        """Whether keys are fetched."""
        return self.key_env is None and self.key_file is None
