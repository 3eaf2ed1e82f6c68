"""JSON Web Tokens of an issuer as bearer tokens: whose one is, as `serving.jwt` says.

Belongs here: putting together keys, validation and claims. Does not belong here: each of these (`key_sets`,
`token_validation`, `claims`), requests (`api.auth`).

Used by the event loop alone, and so without locks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rag_serving.access.claims import principal_of
from rag_serving.access.configured_keys import algorithms_for, configured_keys
from rag_serving.access.discovery import published, published_keys
from rag_serving.access.key_sets import Ages, Clock, ConfiguredKeys, FetchedKeys, KeySet, thumbprint_of
from rag_serving.access.principals import Principal
from rag_serving.access.token_validation import Expected, header_of, signed_claims
from rag_serving.config.jwt import Jwt

FETCHED_ALGORITHMS = ("RS256", "ES256")


@dataclass(frozen=True)
class Bearer:
    """Whose a token is, which key signed it, and when it ends (seconds since 1970)."""

    principal: Principal
    key: str
    expires: float


class BearerTokens:
    """The tokens of one issuer."""

    def __init__(self, settings: Jwt, tenants: Collection[str], clock: Clock = time.monotonic) -> None:
        """Raises ConfigError where a configured key cannot be used."""
        self.settings, self._tenants = settings, tenants
        self.keys: KeySet
        if settings.is_remote:
            algorithms: list[str] = [*(settings.algorithms or FETCHED_ALGORITHMS)]
            self.keys = FetchedKeys(self._fetched, Ages(settings.refresh_s, settings.keep_s), clock)
        else:
            configured = configured_keys(settings)
            algorithms = algorithms_for(settings, configured)
            self.keys = ConfiguredKeys(configured)
        self.expected = Expected(settings.issuer, tuple(settings.audience), tuple(algorithms), settings.leeway_s)

    @property
    def fingerprint(self) -> str:
        """A digest of the settings: a session begun under others is over."""
        return hashlib.sha256(self.settings.model_dump_json().encode()).hexdigest()[:16]

    async def bearer(self, token: str) -> Bearer:
        """Return whose a token is.

        Raises:
            TokenError: it is not believed.
            ClaimsError: it is genuine and names nobody who may ask here.
            KeysDownError: it cannot be told, because the issuer's keys cannot be had.
        """
        candidates = await self.keys.matching(*header_of(token, self.expected))
        claims = signed_claims(token, candidates, self.expected)
        principal = principal_of(claims, self.settings, self._tenants)
        return Bearer(principal, thumbprint_of(candidates[0]), float(claims["exp"]))

    async def _fetched(self) -> dict[str, Any]:
        settings = self.settings
        if settings.jwks_url is not None:
            return await published(settings.jwks_url, settings.timeout_s)
        return await published_keys(settings.issuer, settings.timeout_s)
