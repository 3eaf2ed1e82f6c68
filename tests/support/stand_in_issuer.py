"""Tokens of a stand-in issuer: rightly made, or in each way that an attacker would make them.

The keys and what is published of them are those of `stand_in_provider`.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
import warnings
from typing import Any

import jwt
from jwt.warnings import InsecureKeyLengthWarning

from support.stand_in_provider import algorithm_of, private_key

AUDIENCE = "citelock-api"


def claims_of(issuer: str, **changed: Any) -> dict[str, Any]:
    """Return what a token of ann of acme says; a changed claim of None is left out."""
    now = int(time.time())
    usual = {"iss": issuer, "aud": AUDIENCE, "exp": now + 300, "iat": now, "sub": "ann", "tenant_id": "acme"}
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


def signed(claims: dict[str, Any], key: str = "r1", **header: Any) -> str:
    """Return a token that a key of the issuer signed; `header` may change anything of it but the algorithm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyLengthWarning)
        named = {name: value for name, value in {"kid": key, **header}.items() if value is not None}
        return jwt.encode(claims, private_key(key), algorithm_of(key), named)


def signed_text(payload: bytes, kid: str = "r1") -> str:
    """Return a token whose payload is these bytes, JSON or not, rightly signed."""
    return jwt.PyJWS().encode(payload, private_key(kid), algorithm_of(kid), {"kid": kid})


def by_secret(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """Return a token signed by HMAC-SHA256, whatever its header says and whatever the secret is."""
    text = f"{part(header)}.{part(claims)}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def part(content: Any) -> str:
    """Return JSON as a part of a token."""
    return encoded(json.dumps(content).encode())


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
