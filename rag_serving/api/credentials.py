"""The identities behind a request's credentials: static tokens, keys, JSON Web Tokens, sessions.

Belongs here: distinguishing the kinds, the key for counting each, whether it is still valid. Does not belong here: the
rights of a request (`auth`), each kind's own rules (`static_tokens`, `hooks`, `access.bearer_tokens`,
`access.sessions`).

Used by the event loop alone: keys of an issuer and rows of the database are awaited here, once per request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

from rag_serving.access.bearer_tokens import Bearer, BearerTokens
from rag_serving.access.claims import ClaimsError
from rag_serving.access.key_sets import KeysDownError
from rag_serving.access.principals import Principal
from rag_serving.access.sessions import Session, SignInSessions
from rag_serving.access.token_validation import ExpiredTokenError, TokenError
from rag_serving.api.static_tokens import TokenHolder, read_tokens, token_digest
from rag_serving.api.wire import RequestError
from rag_serving.config.loading import Config
from rag_serving.hooks import KeysAwayError, MachineKey, open_keys

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


class Credentials:
    """The credentials that a configuration knows."""

    def __init__(self, config: Config, sessions: SignInSessions, like: Credentials | None = None) -> None:
        """`like`: of an earlier configuration, whose fetched keys go on if nothing of them changed.

        Raises:
            ConfigError: tokens, or the keys of an issuer, that cannot be used.
        """
        self._tenants = sorted(config.tenants)
        self._holders: Mapping[str, TokenHolder] = read_tokens(config)
        self._keys = open_keys(config)
        self._sessions = sessions
        settings = config.serving.jwt
        self._issuer = BearerTokens(settings, self._tenants) if settings is not None else None
        earlier = like._issuer if like is not None else None
        if self._issuer and earlier and earlier.settings == settings and self._issuer.settings.is_remote:
            self._issuer.keys = earlier.keys
        self._said = float("-inf")

    def is_issued(self, token: str) -> bool:
        """Return whether a token can only be a JSON Web Token: nobody guesses signatures, so wrong ones are not
        counted."""
        return self._issuer is not None and token.startswith("eyJ") and token.count(".") == 2

    async def of_token(self, token: str) -> Identity:
        """Return the identity that a bearer token names.

        Raises:
            AuthError: it names nobody, or cannot be verified now.
        """
        digest = token_digest(token)
        if (holder := self._holders.get(digest)) is not None:
            return Identity(holder.principal, digest, holder.user_header, holder.resource)
        if self._keys is not None and self._keys.is_key(token):
            if (key := await self._key(self._keys.of_token(token))) is None:
                raise AuthError(401, "UNAUTHENTICATED", _UNKNOWN)
            return _of_key(key)
        if self._issuer is not None and self.is_issued(token):
            return await self._of_bearer(self._issuer, token)
        raise AuthError(401, "UNAUTHENTICATED", _UNKNOWN)

    async def of_session(self, session: Session) -> Identity:
        """Return the current identity of a session that began with a token, a key or a JSON Web Token.

        Raises:
            AuthError: that credential is no longer valid, or cannot be verified now.
        """
        holder = self._holders.get(session.token) if session.kind == "token" else None
        if holder is not None and holder.resource is None:
            return Identity(holder.principal, session.token)
        keys = self._keys if session.kind == "key" else None
        key = await self._key(keys.of_id(session.token)) if keys is not None else None
        if key is not None and key.resource is None:
            return _of_key(key)
        if session.kind == "jwt" and session.principal is not None and await self._is_believed(session):
            return Identity(session.principal, session.caller)
        raise AuthError(401, "UNAUTHENTICATED", _OVER)

    async def session_of(self, token: str) -> Session:
        """Return a new session of whom a token names.

        Raises:
            AuthError: nobody, or the token opens one address alone.
        """
        identity = await self.of_token(token)
        if identity.resource is not None:
            raise AuthError(401, "UNAUTHENTICATED", _UNKNOWN)
        if identity.key is not None:
            return self._sessions.begun_by_key(identity.key.id, identity.key.expires)
        if (bearer := identity.bearer) is not None and self._issuer is not None:
            return self._sessions.begun_by_jwt(bearer, self._issuer.fingerprint)
        return self._sessions.begun_by_token(identity.counted_as)

    def close(self) -> None:
        if self._keys is not None:
            self._keys.close()

    async def _key(self, looking_up: Awaitable[MachineKey | None]) -> MachineKey | None:
        """Return a key that is looked up, where its tenant is still here."""
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
        except KeysDownError as error:
            raise self._keys_down(error) from None
        return Identity(bearer.principal, _counted(bearer.principal), bearer=bearer)

    async def _is_believed(self, session: Session) -> bool:
        """Return whether the key that signed a session's token still counts, under the settings of now."""
        if self._issuer is None or session.settings != self._issuer.fingerprint or session.principal is None:
            return False
        try:
            return session.principal.tenant in self._tenants and await self._issuer.keys.holds(session.token)
        except KeysDownError as error:
            raise self._keys_down(error) from None

    def _keys_down(self, error: KeysDownError) -> AuthError:
        self._say(f"no bearer token can be verified: {error}")
        return AuthError(503, "UNAVAILABLE", "bearer tokens cannot be verified now", retry_after=RETRY_AFTER_S)

    def _say(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said >= SAID_AGAIN_S:
            self._said = now
            _log.warning("%s", line)


def _of_key(key: MachineKey) -> Identity:
    return Identity(key.principal, f"key {key.id}", resource=key.resource, key=key)


def _counted(principal: Principal) -> str:
    return f"{principal.tenant} {principal.user}"
