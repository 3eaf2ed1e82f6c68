"""An OpenID Connect provider: its metadata and keys, the address to sign in at, the token for a code. Used by the event
loop alone, and so without locks."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from rag_serving.access.bounded_fetch import (
    Ages,
    FetchedKeys,
    IssuerDownError,
    check_issuer,
    fetch_json,
    metadata_url,
    published,
)
from rag_serving.access.token_validation import Expected, TokenError, header_of, id_token_claims
from rag_serving.config.serving import Oidc, is_encrypted
from rag_serving.escaping.redaction import RedactedError

FRESH_S = 3600.0
"""Seconds for which metadata and keys are used without asking again."""
KEPT_S = 86_400.0
"""Seconds for which the last keys serve while they cannot be read."""
SAID_AGAIN_S = 10.0
"""Seconds between two lines of the log: strangers could make as many as they like."""
FAILED_S = 2.0
"""Seconds for which a provider that failed is not asked for its metadata or keys again."""
MAX_AT_ONCE = 16
"""Sign-ins that wait for the provider at once, in one process."""
MAX_CODE_CHARS = 4096


class SignInError(RedactedError):
    """The provider, or what it said, lets nobody in; the message is for operators."""


@dataclass(frozen=True)
class ProviderMetadata:
    """Metadata from discovery."""

    authorization: str
    token: str
    keys: str
    secret_in_body: bool
    names_issuer: bool
    has_pkce: bool


class Provider:
    """A configured provider."""

    def __init__(self, settings: Oidc) -> None:
        self.settings = settings
        self.expected = Expected(settings.issuer, (settings.client_id,), settings.algorithms, settings.leeway_s)
        self._metadata: tuple[float, ProviderMetadata] | None = None
        self.keys = FetchedKeys(self._fetched_keys, Ages(FRESH_S, KEPT_S))
        self._failed: dict[str, tuple[float, str]] = {}
        self._asking = 0
        self._said = float("-inf")

    @property
    def fingerprint(self) -> str:
        """A digest of the settings: sessions begun under others end."""
        return hashlib.sha256(self.settings.model_dump_json().encode()).hexdigest()[:16]

    def may_log(self) -> bool:
        """Return whether a failed sign-in may write a line of the log now."""
        now = time.monotonic()
        if now - self._said < SAID_AGAIN_S:
            return False
        self._said = now
        return True

    async def begin(self, redirect_uri: str, back: str) -> tuple[str, dict[str, str]]:
        """Return the address to sign in at, and the state to keep until the provider sends the reader back. Raises
        IssuerDownError: its metadata is unavailable."""
        with self._turn():
            metadata = await self.metadata()
        flow = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(flow["verifier"].encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": flow["state"],
            "nonce": flow["nonce"],
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(metadata.authorization).query else "?"
        kept = {**flow, "back": back, "settings": self.fingerprint}
        return f"{metadata.authorization}{joint}{urlencode(asked)}", kept

    async def claims(self, code: str, issuer: str | None, flow: dict[str, str], redirect_uri: str) -> dict[str, Any]:
        """Return the claims of the signed-in user. `issuer`: from the redirect (`iss`). Raises IssuerDownError: it
        does not answer; SignInError: the code or the token is refused."""
        with self._turn():
            metadata = await self.metadata()
            if issuer != self.settings.issuer and (issuer is not None or metadata.names_issuer):
                raise SignInError("the way back names another issuer")  # RFC 9207: a mix-up
            token = await self._redeem(metadata, code, flow["verifier"], redirect_uri)
            return await self._validated(token, flow["nonce"])

    async def metadata(self) -> ProviderMetadata:
        """Return the provider's metadata; the last known one is used while it cannot be read again. Raises
        IssuerDownError: it was never read."""
        now = time.monotonic()
        if self._metadata and now - self._metadata[0] < FRESH_S:
            return self._metadata[1]
        try:
            metadata = _metadata(await self._get(metadata_url(self.settings.issuer)), self.settings)
        except IssuerDownError:
            if self._metadata is None:
                raise
            metadata = self._metadata[1]
        self._metadata = (now, metadata)
        return metadata

    async def _fetched_keys(self) -> dict[str, Any]:
        return await self._get((await self.metadata()).keys)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._asking >= MAX_AT_ONCE:
            raise IssuerDownError("too many people sign in at once")
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    async def _validated(self, token: str, nonce: str) -> dict[str, Any]:
        try:
            keys = await self.keys.matching(*header_of(token, self.expected))
            return id_token_claims(token, keys, self.expected, nonce)
        except TokenError as error:
            raise SignInError(f"the ID token is not believed: {error}") from None

    async def _redeem(self, metadata: ProviderMetadata, code: str, verifier: str, redirect_uri: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self.settings.client_id,
            "code_verifier": verifier,
        }
        variable, auth = self.settings.client_secret_env, None
        secret = os.environ.get(variable) if variable else None
        if secret and metadata.secret_in_body:
            form["client_secret"] = secret
        elif secret:  # form-encoded before it is base64: RFC 6749, section 2.3.1
            auth = (quote(self.settings.client_id, safe=""), quote(secret, safe=""))
        try:
            status, content = await fetch_json(metadata.token, self.settings.timeout_s, form, auth)
        except IssuerDownError as error:
            raise IssuerDownError(f"no token: {error}") from None
        if status >= 500 or status == 429:
            raise IssuerDownError(f"no token: HTTP {status}")
        token = content.get("id_token")
        if status != 200 or not isinstance(token, str):
            raise SignInError(f"the provider gives no ID token for the code (HTTP {status})")
        return token

    async def _get(self, url: str) -> dict[str, Any]:
        at, reason = self._failed.get(url, (0.0, ""))
        if reason and time.monotonic() - at < FAILED_S:
            raise IssuerDownError(reason)
        try:
            return await published(url, self.settings.timeout_s)
        except IssuerDownError as error:
            self._failed[url] = (time.monotonic(), str(error))
            raise


def _metadata(content: dict[str, Any], settings: Oidc) -> ProviderMetadata:
    check_issuer(content, settings.issuer, "serving.oidc.issuer")
    urls = [content.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    if not all(isinstance(url, str) and is_encrypted(url) for url in urls):
        raise IssuerDownError("the metadata lacks an address, or names one that is not https")
    methods = content.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    in_body = isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods
    challenges = content.get("code_challenge_methods_supported")
    return ProviderMetadata(
        authorization=str(urls[0]),
        token=str(urls[1]),
        keys=str(urls[2]),
        secret_in_body=in_body,
        names_issuer=content.get("authorization_response_iss_parameter_supported") is True,
        has_pkce=not isinstance(challenges, list) or "S256" in challenges,
    )
