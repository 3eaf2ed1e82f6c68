"""The section `serving` of `config/app.yaml`.

Belongs here: where the HTTP API listens, who may ask it, and how much. Does not belong here: the other sections
(`sections`).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rag_serving.config.jwt import Jwt
from rag_serving.config.oidc import Oidc, is_encrypted
from rag_serving.config.sources import Section


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
    session_hours: float = Field(12, gt=0, le=720)
    """Hours until a user signs in again. A session that was started with a token is extended while the page is used;
    the token is checked at each request."""
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
    """Server whose answers `/proxy/v1` checks against the pages."""
    groups: Literal["claims", "synced"] = "claims"
    """Groups of a caller: of the token, or also of syncs. With synced, users must have the same names or ids as in
    Confluence."""
    max_question_chars: ClassVar[int] = 4000  # characters beyond which a question is refused
    max_document_bytes: int = Field(50_000_000, ge=1)
    """Bytes beyond which `POST /v1/documents` refuses a file (413)."""
    max_documents: int = Field(10_000, ge=1)
    """Documents that an upload inbox may hold. Further ones are refused (409)."""
    rate_limit_per_minute: int = Field(6000, ge=0)
    """Requests of one caller per minute, in each process; further ones are refused (429, `Retry-After`). A caller is a
    token, a key, or the user that a JSON Web Token names. 0: no limit. Not applied if `auth` is loopback. Limit for a
    whole tenant: `tenants.NAME.rate_limit_per_minute`."""
    address_limit_per_minute: int = Field(60_000, ge=0)
    """The same for one address (IPv6: a /64). All callers behind a proxy share one address, unless `trusted_proxies`
    names the proxy. 0: no limit."""
    request_timeout_s: float = Field(150, ge=1, le=3600)
    """Seconds that an answer may take (then 504). Models get the remaining time less a fifth (5 s at most), so that
    there is time to replace one that does not respond. If a client disconnects, the work for it is cancelled, including
    waiting for models."""
    streams: int = Field(64, ge=1, le=1000)
    """Answers streamed at the same time, in each process; further ones are refused (503, `Retry-After`)."""
    streams_per_caller: int = Field(8, ge=1, le=1000)
    """The same for one caller (429). If `auth` is loopback, all callers share `streams` instead."""
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
