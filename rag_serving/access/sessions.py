"""The signed-in reader in a cookie: encrypted and authenticated, so that every process of a server can read it. Nothing
is stored: a session ends with its time, with its token, or with the settings in force at its beginning. A copied cookie
is good until then, signed out or not."""

from __future__ import annotations

import json
import math
import secrets
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from rag_serving.access.principals import ROLES, Principal
from rag_serving.artifacts.secret import SealError, SecretError, derived_key, seal_bytes, unseal_bytes
from rag_serving.config.loading import Config

MAX_SEALED_CHARS = 3800
"""Of one cookie: browsers keep 4096 bytes, its name and attributes included (RFC 6265, section 6.1)."""
MAX_FLOW_S = 600
"""Seconds that signing in at a provider may take."""
_KEY_PURPOSE = "sessions"
_SESSION, _FLOW = b"session", b"sign-in"
_RENEWED_AFTER = 0.25
"""The part of its time after which a session in use is renewed."""


Kind = Literal["token", "key", "jwt", "oidc"]


class SessionTooLongError(Exception):
    """The session is too large for a cookie."""


@dataclass(frozen=True)
class Session:
    """Somebody who signed in. Times in seconds since 1970."""

    kind: Kind
    begun: float
    expires: float
    csrf: str
    token: str = ""
    """The digest of the token, or the id of the key; whose it is, is looked up at each request. Of `jwt`: the
    thumbprint of the key that signed."""
    settings: str = ""
    """Of `oidc` and `jwt`: a digest of the settings under which the issuer was believed."""
    principal: Principal | None = None
    """Of `oidc` and `jwt`: whom the issuer named."""

    @property
    def caller(self) -> str:
        """The name under which this session's requests are counted."""
        if self.kind == "key":
            return f"key {self.token}"
        if self.kind == "token" or self.principal is None:
            return self.token
        return f"{self.principal.tenant} {self.principal.user}"


class SignInSessions:
    """Begins, seals and reads the sessions of an installation."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self._home = config.home
        self._clock = clock
        self._idle_s = config.serving.session_hours * 3600
        self._longest_s = max(config.serving.session_max_hours * 3600, self._idle_s)
        self._key: bytes | None = None

    def begun(
        self,
        kind: Kind,
        ends: float = math.inf,
        token: str = "",
        settings: str = "",
        principal: Principal | None = None,
    ) -> Session:
        """Return a new session of the holder of a `token` or of a machine's key, or of the `principal` that a JSON Web
        Token or a provider names: these two are not renewed, because the claims may have changed. `ends`: of what it
        began with, at most until when it lasts; `settings`: a digest of those in force."""
        now = self._clock()
        return Session(kind, now, min(now + self._idle_s, ends), secrets.token_hex(16), token, settings, principal)

    def renewed(self, session: Session) -> Session | None:
        """Return a session with a later end; None if it is not due, or may not go on."""
        now = self._clock()
        end = min(now + self._idle_s, session.begun + self._longest_s)
        due = session.expires - now < (1 - _RENEWED_AFTER) * self._idle_s
        if session.kind != "token" or not due or end <= session.expires:
            return None
        return replace(session, expires=end)

    def seconds_left(self, session: Session) -> int:
        return max(0, math.ceil(session.expires - self._clock()))

    def seal(self, session: Session) -> str:
        """Return the sealed cookie value. Raises SessionTooLongError: the user has too many groups; SecretError: the
        installation's secret cannot be used."""
        return self._sealed(_written(session), _SESSION)

    def read(self, sealed: str) -> Session | None:
        """Return the session of a cookie; None if it is over, altered, or was never one."""
        content = self._read(sealed, _SESSION)
        try:
            session = _session(content) if content is not None else None
        except (KeyError, TypeError, ValueError):  # of another version of this program
            return None
        return session if session and session.begun <= self._clock() + 60 and self._clock() < session.expires else None

    def seal_flow(self, flow: dict[str, str]) -> str:
        """Return the sealed state of a sign-in at a provider, valid for MAX_FLOW_S; errors as `seal`."""
        return self._sealed({"flow": flow, "expires": self._clock() + MAX_FLOW_S}, _FLOW)

    def read_flow(self, sealed: str) -> dict[str, str] | None:
        """Return the state sealed by `seal_flow`; None if it is too old, altered, or something else."""
        content = self._read(sealed, _FLOW)
        if content is None or not self._clock() < content["expires"]:
            return None
        flow: dict[str, str] = content["flow"]
        return flow

    def _sealed(self, content: dict[str, Any], beside: bytes) -> str:
        packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
        sealed = seal_bytes(self._secret(), packed, beside)
        if len(sealed) > MAX_SEALED_CHARS:
            raise SessionTooLongError
        return sealed

    def _read(self, sealed: str, beside: bytes) -> dict[str, Any] | None:
        if len(sealed) > MAX_SEALED_CHARS:
            return None
        try:
            content: dict[str, Any] = json.loads(zlib.decompress(unseal_bytes(self._secret(), sealed, beside)))
        except (SealError, SecretError):
            return None
        return content

    def _secret(self) -> bytes:
        if self._key is None:
            self._key = derived_key(self._home, _KEY_PURPOSE)
        return self._key


def _written(session: Session) -> dict[str, Any]:
    kept = ("kind", "begun", "expires", "csrf", "token", "settings")
    content: dict[str, Any] = {name: getattr(session, name) for name in kept}
    if (who := session.principal) is not None:
        named = {"tenant": who.tenant, "user": who.user, "groups": sorted(who.groups), "roles": sorted(who.roles)}
        content["principal"] = named
    return content


def _session(content: dict[str, Any]) -> Session:
    named = content.pop("principal", None)
    who = None
    if named is not None:
        groups, roles = frozenset(named["groups"]), frozenset(named["roles"]) & ROLES
        who = Principal(named["tenant"], named["user"], groups, roles)
    return Session(**content, principal=who)
