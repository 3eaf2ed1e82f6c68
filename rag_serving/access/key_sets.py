"""The keys by which tokens are believed: those of the configuration, and those that an issuer publishes.

Belongs here: finding the keys that may have signed a token; fetching a set of them, how long it serves. Does not belong
here: requests (`bounded_fetch`), reading secrets and PEM (`bearer_tokens`), signatures (`token_validation`).

Used by the event loop alone, and so without locks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rag_serving.access.token_validation import Jwk, keys_for
from rag_serving.escaping.redaction import RedactedError

PAUSE_S = 10.0
"""Seconds between two looks for a key that is not known: who makes up key ids causes no more."""
FAILED_S = 2.0
"""Seconds for which an issuer that failed is not asked for its keys again."""
WAIT_S = 0.25
"""Seconds that a token whose key is known, but was not fetched lately, waits for newer keys."""
_PUBLIC_PARTS = ("kty", "crv", "n", "e", "x", "y", "k")

Clock = Callable[[], float]


class KeysDownError(RedactedError):
    """The keys cannot be had; the message is for operators."""


@dataclass(frozen=True)
class Ages:
    """Lifetimes of fetched keys, in seconds: without a refresh, and while they cannot be fetched."""

    fresh_s: float
    kept_s: float


class KeySet(Protocol):
    """Keys that may have signed a token."""

    async def matching(self, algorithm: str, kid: str | None) -> list[Jwk]:
        """Return the keys for an algorithm and a key id.

        Raises:
            KeysDownError: the keys cannot be fetched.
        """
        ...

    async def holds(self, thumbprint: str) -> bool:
        """Return whether a key is still believed; errors as `matching`."""
        ...

    async def all(self) -> Sequence[Jwk]:
        """Return all keys; errors as `matching`."""
        ...


def thumbprint_of(key: Jwk) -> str:
    """Return a digest of a key (after RFC 7638)."""
    parts = {name: key[name] for name in _PUBLIC_PARTS if name in key}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


class ConfiguredKeys:
    """Keys of the configuration; one without an id may have signed any token of its algorithm."""

    def __init__(self, keys: Sequence[Jwk]) -> None:
        self._keys = keys

    async def matching(self, algorithm: str, kid: str | None) -> list[Jwk]:
        found = keys_for(self._keys, algorithm, None)
        return [key for key in found if kid is None or key.get("kid", kid) == kid]

    async def holds(self, thumbprint: str) -> bool:
        return any(thumbprint_of(key) == thumbprint for key in self._keys)

    async def all(self) -> Sequence[Jwk]:
        return self._keys


class FetchedKeys:
    """Keys that an issuer publishes, fetched when they are needed. Of requests at once one fetches for all."""

    def __init__(self, fetch: Callable[[], Awaitable[dict[str, Any]]], ages: Ages, clock: Clock = time.monotonic):
        """`fetch` returns a JWK set (RFC 7517) and raises KeysDownError, or a kind of it."""
        self._fetch, self._ages, self._clock = fetch, ages, clock
        self._keys: list[Jwk] | None = None
        self._fetched = self._tried = float("-inf")
        self._fault: KeysDownError | None = None
        self._under_way: asyncio.Task[None] | None = None

    async def matching(self, algorithm: str, kid: str | None) -> list[Jwk]:
        found = keys_for(self._usable(), algorithm, kid)
        if self._is_fresh() and (found or self._clock() - self._fetched < PAUSE_S):
            return found
        await self._refresh(WAIT_S if found else None)
        found = keys_for(self._usable(), algorithm, kid)
        if not found and self._fault:
            raise self._fault
        return found

    async def holds(self, thumbprint: str) -> bool:
        return any(thumbprint_of(key) == thumbprint for key in await self.all())

    async def all(self) -> list[Jwk]:
        """Return all keys; errors as `matching`."""
        if not self._is_fresh():
            await self._refresh(WAIT_S if self._usable() else None)
        if self._fault and not self._usable():
            raise self._fault
        return self._usable()

    def _is_fresh(self) -> bool:
        return self._keys is not None and self._clock() - self._fetched < self._ages.fresh_s

    def _usable(self) -> list[Jwk]:
        kept_s = max(self._ages.kept_s, self._ages.fresh_s)
        return self._keys if self._keys is not None and self._clock() - self._fetched < kept_s else []

    async def _refresh(self, wait_s: float | None = None) -> None:
        """Fetch the keys, or wait for a fetch under way, at most `wait_s`; after a fault do not retry for FAILED_S."""
        if self._fault and self._clock() - self._tried < FAILED_S:
            return
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._fetched_once())
        await asyncio.wait([self._under_way], timeout=wait_s)

    async def _fetched_once(self) -> None:
        try:
            listed = (await self._fetch()).get("keys")
            if not isinstance(listed, list):
                raise KeysDownError("the issuer's keys are no list")
        except KeysDownError as error:
            self._fault, self._tried = error, self._clock()
            return
        # A secret that somebody publishes is none.
        self._keys = [key for key in listed if isinstance(key, dict) and key.get("kty") != "oct"]
        self._fault, self._fetched = None, self._clock()
