"""Whether a JSON Web Token is genuine and for us: RFC 7519, RFC 8725, OpenID Connect Core 1.0, section 3.1.3.7.

Belongs here: signature, issuer, audience, times, nonce. Does not belong here: where keys come from (`provider`), what
claims mean (`claims`).

Which algorithm counts is decided by the configuration and the key, never by the token alone; keys and addresses that a
token itself names (`jwk`, `jku`, `x5u`, `x5c`) are not looked at.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_TOKEN_CHARS = 32_768
MAX_KEYS = 100
_REQUIRED = ("iss", "aud", "exp", "iat", "sub")
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}

Jwk = Mapping[str, Any]


class TokenError(Exception):
    """A token is not believed; the message says why and shows nothing of it."""


@dataclass(frozen=True)
class Expected:
    """What a token must say."""

    issuer: str
    audience: str
    algorithms: Sequence[str]
    leeway_s: int = 60


def header_of(token: str, expected: Expected) -> tuple[str, str | None]:
    """Return the algorithm and the key id that an unverified token names.

    Raises:
        TokenError: it is no token, too long, or its algorithm is not believed.
    """
    import jwt

    if len(token) > MAX_TOKEN_CHARS:
        raise TokenError(f"it is longer than {MAX_TOKEN_CHARS} characters")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise TokenError("it is no token") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in expected.algorithms:
        raise TokenError("its algorithm is not among those that are believed")
    if "crit" in header:
        raise TokenError("its header demands what is not understood")
    if kid is not None and (not isinstance(kid, str) or len(kid) > 500):
        raise TokenError("its key id is no name")
    return algorithm, kid


def keys_for(keys: Sequence[Jwk], algorithm: str, kid: str | None) -> list[Jwk]:
    """Return the keys of a set that may have signed: of this id, and made for this algorithm."""
    return [
        key
        for key in keys[:MAX_KEYS]
        if (kid is None or key.get("kid") == kid)
        and key.get("kty") == _FAMILIES[algorithm[:2]]
        and key.get("crv") == _CURVES.get(algorithm)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    ]


def validated(token: str, keys: Sequence[Jwk], expected: Expected, nonce: str) -> dict[str, Any]:
    """Return the claims of an ID token.

    Raises:
        TokenError: it is not signed by one of the keys, or is not for us, not for now, or not for this sign-in.
    """
    import jwt

    algorithm, kid = header_of(token, expected)
    candidates = keys_for(keys, algorithm, kid)
    if len(candidates) != 1:
        raise TokenError("no key is known under its id" if not candidates else "several keys may have signed it")
    reader = jwt.PyJWT({"enforce_minimum_key_length": True})
    try:
        claims: dict[str, Any] = reader.decode(
            token,
            key=jwt.PyJWK(dict(candidates[0]), algorithm),
            algorithms=[algorithm],
            audience=expected.audience,
            issuer=expected.issuer,
            leeway=expected.leeway_s,
            options={"require": list(_REQUIRED)},
        )
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise TokenError(f"it does not hold ({type(error).__name__})") from None
    _check_party(claims, expected.audience)
    shown = claims.get("nonce")
    if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), nonce.encode()):
        raise TokenError("it belongs to another sign-in: its nonce is not ours")
    return claims


def _check_party(claims: Mapping[str, Any], audience: str) -> None:
    """Refuse a token that was issued to another client, though we are among its audiences."""
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    party = claims.get("azp")
    if (several and party is None) or party not in (None, audience):
        raise TokenError("it was issued to another client (azp)")
