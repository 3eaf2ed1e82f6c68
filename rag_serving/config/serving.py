"""The section `serving` of `config/app.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

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

    issuer: str = Field(min_length=1, max_length=500)
    """Issuer of the tokens: the claim `iss`, exactly."""
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
    label: ClassVar[str] = "Sign in"  # of the sign-in button
    algorithms: ClassVar[tuple[Algorithm, ...]] = ("RS256", "ES256")  # of ID tokens; every provider has RS256
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


class CheckProxy(Section):
    """Another server's chat completions, with evidence below each answer."""

    upstream: str = Field(pattern=r"^https?://[^\s?#@]+$")
    """Address of an OpenAI-compatible server, with its `/v1`. `/proxy/v1` passes requests on to it, and to no other."""
    api_key_env: str | None = None
    """Environment variable with the server's API key. Callers show their Citelock token, which is not passed on."""
    # Seconds that the server may be silent. An answer and its check together take `request_timeout_s` at most.
    timeout_s: ClassVar[float] = 60
    connect_timeout_s: ClassVar[float] = 5  # seconds that the connection may take


class Serving(Section):
    """The HTTP API."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8088, ge=0, le=65535)
    """Port to listen on."""
    workers: int = Field(1, ge=1, le=64)
    """Processes that answer. Each takes about 300 MB."""
    # Seconds that a question waits for a new generation to open. After that the older generation answers, flagged
    # `stale_generation`, unless some reader loses access to a page in the new one: then the question is refused (503).
    open_wait_s: ClassVar[float] = 5
    mcp: bool = False
    """Also serve MCP at /mcp, for agents and chat clients. Needs the extra `mcp`."""
    auth: Literal["loopback", "tokens", "jwt"] = "loopback"
    """Who may ask: this machine, tokens, or JSON Web Tokens. loopback: no tokens, only on 127.0.0.1; tokens: bearer
    tokens from `tokens_env` and keys of `citelock keys`; jwt: JSON Web Tokens of the issuer that `jwt` names, in
    addition to both."""
    tokens_env: str = "CITELOCK_TOKENS"
    """Environment variable: token -> {tenant, user, groups, roles}. Roles are reader (the default), editor, operator
    and auditor: [what each may do](access.md#roles). With `resource`, an address below `public_url` such as
    https://citelock.acme.example/mcp, a token gives access to that address only."""
    jwt: Jwt | None = None
    """Issuer whose JSON Web Tokens are accepted with `auth: jwt`."""
    # Hours until a user signs in again. A session that was started with a token is extended while the page is used;
    # the token is checked at each request.
    session_hours: ClassVar[float] = 12
    session_max_hours: ClassVar[float] = 168  # hours after which a used session ends, too
    embeddings: Literal["none", "reader", "editor", "operator"] = "editor"
    """Role that may use `POST /v1/embeddings`. Embedding takes processor time from answers."""
    oidc: Oidc | None = None
    """An OpenID Connect provider where people sign in on the web page. It needs `public_url`, and `auth: tokens` or
    `jwt` (programs continue to use tokens; there may be none)."""
    public_url: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")
    """Address where users reach the API. With https the session cookie is sent over https only, whatever a proxy
    uses."""
    connect: bool | None = None
    """Whether operators may connect sources on the web page. They can then let the server read each folder and reach
    each host that it can. null: only if `auth` is loopback. With several tenants only if `auth` is loopback."""
    check_proxy: CheckProxy | None = None
    """Server whose answers `/proxy/v1` checks: its address (`upstream`) and the variable of its key (`api_key_env`)."""
    groups: Literal["claims", "synced"] = "claims"
    """Groups of a caller: of the token, or also of syncs. With synced, users must have the same names or ids as in
    Confluence."""
    max_question_chars: ClassVar[int] = 4000  # characters beyond which a question is refused
    max_documents: ClassVar[int] = 10_000  # that an upload inbox may hold; further ones are refused (409)
    rate_limit_per_minute: int = Field(6000, ge=0)
    """Requests of one caller per minute, in each process; further ones are refused (429, `Retry-After`). A caller is a
    token, a key, or the user that a JSON Web Token names. 0: no limit. Not applied if `auth` is loopback. Limit for a
    whole tenant: `tenants.NAME.rate_limit_per_minute`."""
    # The same for one address (IPv6: a /64). All callers behind a proxy share one address, unless `trusted_proxies`
    # names the proxy.
    address_limit_per_minute: ClassVar[int] = 60_000
    request_timeout_s: float = Field(150, ge=1, le=3600)
    """Seconds that an answer may take (then 504). Models get the remaining time less a fifth (5 s at most), so that
    there is time to replace one that does not respond. If a client disconnects, the work for it is cancelled, including
    waiting for models."""
    streams: int = Field(64, ge=1, le=1000)
    """Answers streamed at the same time, in each process; further ones are refused (503, `Retry-After`). One caller
    gets an eighth of them (429), or all if `auth` is loopback."""
    streams_share: ClassVar[int] = 8  # callers with all their streams at once who leave nothing for others
    gone: ClassVar = {
        "streams_per_caller": "an eighth of serving.streams",
        "max_document_bytes": "max_file_bytes of the source of kind files that is the upload inbox",
    }
    unread_s: ClassVar[int] = 30  # seconds that a client may leave sent data unread; then the connection is closed
    keep_alive_s: ClassVar[int] = 5  # seconds that a connection may be idle between two requests; then it is closed
    trusted_proxies: list[str] = Field([], max_length=100)
    """Reverse proxies whose `X-Forwarded-For` is trusted. Empty: none is trusted, and if `auth` is loopback, requests
    with this header are refused."""
    leave_s: int = Field(0, ge=0, le=300)
    """Seconds of service after SIGTERM while `/readyz` says 503. Then `drain_s` begins. Skipped after a second signal,
    and after Ctrl-C."""
    drain_s: int = Field(30, ge=1, le=3600)
    """Seconds that open requests have after SIGTERM or Ctrl-C; after that they are refused with 503, and the process
    ends at most 8 s later, even if something hangs. A second Ctrl-C ends it immediately."""

    @model_validator(mode="after")
    def _says_whose_tokens(self) -> Serving:
        if (self.auth == "jwt") != (self.jwt is not None):
            raise ValueError("auth 'jwt' and the section jwt need each other: set serving.jwt.issuer and audience")
        return self

    @model_validator(mode="after")
    def _can_sign_people_in(self) -> Serving:
        if self.oidc is None:
            return self
        if self.auth == "loopback":
            message = "oidc signs people in; with auth 'loopback' nobody does: set serving.auth to tokens or jwt"
            raise ValueError(message)
        if self.public_url is None or not is_encrypted(self.public_url):
            raise ValueError("oidc sends people back to public_url; set serving.public_url, with https")
        return self
