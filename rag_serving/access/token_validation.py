"""JSON Web Tokens validated (RFC 7519, RFC 8725, OpenID Connect Core 1.0, 3.1.3.7), and their claims as a principal.
The configuration and the key decide the algorithm, never the token alone; keys and addresses that a token itself names
(`jwk`, `jku`, `x5u`, `x5c`) are not looked at. Nothing but the header is read before the signature. A claim that is
missing, unknown or odd lets nobody in."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_serving.access.principals import READER, Principal
from rag_serving.config.serving import ClaimMapping

MAX_NAME_CHARS = 500
MAX_NAMES = 2000
"""Groups of one user; who has more is not signed in with a part of them."""


class ClaimsError(Exception):
    """The claims name nobody who may sign in; the message is for the log and shows no value."""


def principal_of(claims: Mapping[str, Any], settings: ClaimMapping, tenants: Collection[str]) -> Principal:
    """Return the principal of a validated token. `tenants`: the configured ones. Raises ClaimsError: no known tenant,
    no user, or a claim of another type than its use."""
    named = settings.claims
    user = _name(_claim(claims, named.user), named.user)
    if named.user == "email" and claims.get("email_verified") is not True:
        raise ClaimsError("the claim email counts only where email_verified is true")
    groups = frozenset(_names(_claim(claims, named.groups), named.groups)) if named.groups else frozenset[str]()
    values = _names(_claim(claims, named.roles), named.roles) if named.roles else []
    roles = frozenset(role for value in values for role in settings.roles.get(value, ()))
    return Principal(_tenant(claims, settings, tenants), user, groups, READER | roles)


def _tenant(claims: Mapping[str, Any], settings: ClaimMapping, tenants: Collection[str]) -> str:
    claim = settings.claims.tenant
    value = _claim(claims, claim) if claim else None
    if value is None:
        tenant = settings.tenant
    else:
        named = _name(value, claim or "")
        tenant = settings.tenants.get(named, named)
    if tenant is None or tenant not in tenants:
        raise ClaimsError("no claim names a tenant" if value is None else "the tenant is not configured")
    return tenant


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return the value of a claim: of this name, else along its parts; None if there is none."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _names(value: Any, claim: str) -> list[str]:
    if value is None:
        return []
    listed = value if isinstance(value, list) else [value]
    if len(listed) > MAX_NAMES:
        raise ClaimsError(f"the claim {claim} has more than {MAX_NAMES} values")
    return [_name(each, claim) for each in listed]


def _name(value: Any, claim: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME_CHARS or not value.isprintable():
        raise ClaimsError(f"the claim {claim} is missing, or is no name")
    return value


MAX_TOKEN_CHARS = 32_768
MAX_KEYS = 100
ID_TOKEN = ("iss", "aud", "exp", "iat", "sub")
"""Claims that an ID token must have (OpenID Connect Core 1.0, section 2)."""
BEARER_TOKEN = ("iss", "aud", "exp")
"""Claims that a bearer token must have, beside those that name somebody."""
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
_TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")

Jwk = Mapping[str, Any]


class TokenError(Exception):
    """A token is not believed; the message says why and shows nothing of it."""


class ExpiredTokenError(TokenError):
    """A genuine token whose time is over."""


@dataclass(frozen=True)
class Expected:
    """The requirements on a token; one of `audiences`."""

    issuer: str
    audiences: Sequence[str]
    algorithms: Sequence[str]
    leeway_s: int = 60


def header_of(token: str, expected: Expected) -> tuple[str, str | None]:
    """Return the algorithm and the key id that an unverified token names. Raises TokenError: it is no token, too long,
    or its algorithm is not believed."""
    if len(token) > MAX_TOKEN_CHARS:
        raise TokenError(f"it is longer than {MAX_TOKEN_CHARS} characters")
    if token.count(".") != 2:
        raise TokenError("it is no token")
    header = _json_object(token.partition(".")[0])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in expected.algorithms:
        raise TokenError("its algorithm is not among those that are believed")
    if "crit" in header or header.get("b64", True) is not True:
        raise TokenError("its header demands what is not understood")
    if str(header.get("typ", "JWT")).lower() not in _TYPES:
        raise TokenError("it is a token of another type")
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


def signed_claims(
    token: str, candidates: Sequence[Jwk], expected: Expected, required: Sequence[str] = BEARER_TOKEN
) -> dict[str, Any]:
    """Return the claims of a token that one key signed. `candidates`: the result of `keys_for` among the trusted keys;
    it must be one. Raises ExpiredTokenError: it is genuine, and its time is over; TokenError: it is not signed by the
    key, or is not for us, or not for now."""
    import jwt

    algorithm, _ = header_of(token, expected)
    if len(candidates) != 1:
        raise TokenError("no key is known under its id" if not candidates else "several keys may have signed it")
    reader = jwt.PyJWT({"enforce_minimum_key_length": True})
    try:
        reader.decode(
            token,
            key=jwt.PyJWK(dict(candidates[0]), algorithm),
            algorithms=[algorithm],
            audience=expected.audiences,
            issuer=expected.issuer,
            leeway=expected.leeway_s,
            options={"require": list(required)},
        )
    except jwt.ExpiredSignatureError:
        raise ExpiredTokenError("its time is over") from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise TokenError(f"it does not hold ({type(error).__name__})") from None
    claims = _json_object(token.split(".")[1])
    for name in ("exp", "nbf", "iat"):  # RFC 7519, section 2, NumericDate
        if name in claims and (isinstance(claims[name], bool) or not isinstance(claims[name], int | float)):
            raise TokenError(f"its claim {name} is no number")
    return claims


def id_token_claims(token: str, candidates: Sequence[Jwk], expected: Expected, nonce: str) -> dict[str, Any]:
    """Return the claims of an ID token of the sign-in that has this nonce. Raises TokenError: as `signed_claims`, or it
    was issued to another client, or belongs to another sign-in."""
    claims = signed_claims(token, candidates, expected, ID_TOKEN)
    several, party = isinstance(claims["aud"], list) and len(claims["aud"]) > 1, claims.get("azp")
    if (several and party is None) or (party is not None and party not in expected.audiences):
        raise TokenError("it was issued to another client (azp)")  # though we are among its audiences
    shown = claims.get("nonce")
    if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), nonce.encode()):
        raise TokenError("it belongs to another sign-in: its nonce is not ours")
    return claims


def _json_object(segment: str) -> dict[str, Any]:
    """Return a part of a token as the one object that it is. Raises TokenError: it is none, or says a name twice, of
    which others may believe another one."""
    try:
        padded = segment + "=" * (-len(segment) % 4)
        content = json.loads(
            base64.b64decode(padded, altchars=b"-_", validate=True), object_pairs_hook=_once, parse_constant=_no_number
        )
    except (binascii.Error, ValueError, RecursionError):
        raise TokenError("it is no token") from None
    if not isinstance(content, dict):
        raise TokenError("it is no token")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise TokenError("it says a name twice")
    return content


def _no_number(name: str) -> float:
    raise ValueError(name)
