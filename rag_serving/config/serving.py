"""The section `serving` of `config/app.yaml`.

Belongs here: where the HTTP API listens, who may ask it, and how much. Does not belong here: the other sections
(`sections`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rag_serving.config.jwt import Jwt
from rag_serving.config.oidc import Oidc, is_encrypted
from rag_serving.config.sources import Section


class Serving(Section):
    """The HTTP API."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8088, ge=0, le=65535)
    """Port to listen on."""
    workers: int = Field(1, ge=1, le=64)
    """Processes that answer: one for each core where many ask at once. Each takes some 300 MB."""
    open_wait_s: float = Field(5, ge=0, le=300)
    """Seconds that a question waits for a new generation to open. After that the older one answers, flagged
    `stale_generation`, unless the new one takes a page from somebody: then the question is refused (503)."""
    mcp: bool = False
    """Serve MCP at /mcp too, for agents and chat clients. Needs the extra `mcp`."""
    auth: Literal["loopback", "tokens", "jwt"] = "loopback"
    """loopback: no tokens, only on 127.0.0.1; tokens: bearer tokens from `tokens_env` and keys of `citelock keys`; jwt:
    JSON Web Tokens of the issuer that `jwt` names, and both others."""
    tokens_env: str = "CITELOCK_TOKENS"
    """Environment variable with a JSON object: token -> {tenant, user, groups, roles}. Roles are reader (the default),
    editor, operator and auditor: [what each may do](access.md#roles). With `resource`, an address below
    `public_url` such as https://citelock.acme.example/mcp, a token opens that alone."""
    jwt: Jwt | None = None
    """Whose JSON Web Tokens are believed with `auth: jwt`; its keys are [below](#servingjwt)."""
    session_hours: float = Field(12, gt=0, le=720)
    """Hours after which whoever signed in on the web page has to do so again. A session begun with a token goes on as
    long as the page is used within this time; the token is looked up at each request."""
    session_max_hours: float = Field(168, gt=0, le=8760)
    """Hours after which such a session ends though it is used."""
    embeddings: Literal["none", "reader", "editor", "operator"] = "editor"
    """The role that may have texts embedded (`POST /v1/embeddings`): embedding takes the time that answers need."""
    oidc: Oidc | None = None
    """An OpenID Connect provider where people sign in on the web page; its keys are [below](#servingoidc). It needs
    `auth: tokens` or `jwt` (programs keep their tokens, and there may be none) and `public_url`."""
    public_url: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")
    """Where people reach the API, such as https://citelock.acme.example: Dagster's pages link to reports there. With
    https the session's cookie is sent over https alone, whatever a proxy in between speaks."""
    groups: Literal["claims", "synced"] = "claims"
    """Groups of a caller: claims (those that come with the token), or synced (also those that the last sync of sources
    with `groups: true` found the user in). With synced, users must have the names or ids that Confluence gives them."""
    max_question_chars: int = Field(4000, ge=1)
    """Longer questions are refused."""
    max_document_bytes: int = Field(50_000_000, ge=1)
    """A larger file is not taken by `POST /v1/documents` (413)."""
    max_documents: int = Field(10_000, ge=1)
    """Documents that an upload inbox may hold; more are refused (409)."""
    rate_limit_per_minute: int = Field(6000, ge=0)
    """Requests of one caller in a minute, in each process; more are told to come back (429, `Retry-After`). A caller is
    a token, a key, or the user that a JSON Web Token names. 0: no limit. Where `auth` is loopback all are this
    machine's own, and there is none. A tenant has one as well: `tenants.NAME.rate_limit_per_minute`."""
    address_limit_per_minute: int = Field(60_000, ge=0)
    """The same of one address, whatever it sends; of IPv6 a /64. Behind a proxy all callers have one address, unless
    `trusted_proxies` names it. 0: no limit."""
    request_timeout_s: float = Field(150, ge=1, le=3600)
    """Seconds that an answer may take (504 after that). Models get what is left of it, less a fifth (5 s at most), so
    that one which never answers is replaced. The work for a client that leaves ends, waits for models included."""
    streams: int = Field(64, ge=1, le=1000)
    """Answers that are streamed at once, in each process; more are told to come back (503, `Retry-After`)."""
    streams_per_caller: int = Field(8, ge=1, le=1000)
    """The same of one caller (429). Where `auth` is loopback all callers are this machine's own and share `streams`."""
    unread_s: int = Field(30, ge=1, le=3600)
    """Seconds that a client may leave unread what it was sent; then the connection is closed."""
    keep_alive_s: int = Field(5, ge=1, le=3600)
    """Seconds that a connection may be idle between two requests; then it is closed."""
    trusted_proxies: list[str] = Field([], max_length=100)
    """Addresses or networks (10.0.0.0/8) of the reverse proxies whose `X-Forwarded-For` is believed: limits are counted
    by the address that they name. Empty: of none, and where `auth` is loopback a request that has it is refused."""
    leave_s: int = Field(0, ge=0, le=300)
    """Seconds that the server goes on taking requests after SIGTERM while `/readyz` says 503, so that balancers send
    them elsewhere; then `drain_s` begins. A second signal, and Ctrl-C, do not wait."""
    drain_s: int = Field(30, ge=1, le=3600)
    """Seconds that requests under way may still take when the server is told to end (SIGTERM, Ctrl-C); then they are
    told to ask again (503), and the process ends at most 8 s later, whatever hangs. Ctrl-C again: at once."""

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
