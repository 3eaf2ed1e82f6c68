"""JSON Web Tokens of an issuer as bearer tokens, by `serving.jwt`. Used by the event loop alone, so without locks."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rag_serving.access.bounded_fetch import (
    Ages,
    ConfiguredKeys,
    FetchedKeys,
    KeySet,
    published,
    published_keys,
    thumbprint_of,
)
from rag_serving.access.principals import Principal
from rag_serving.access.token_validation import Expected, Jwk, header_of, keys_for, principal_of, signed_claims
from rag_serving.config.loading import ConfigError
from rag_serving.config.serving import Jwt

FETCHED_ALGORITHMS = ("RS256", "ES256")


@dataclass(frozen=True)
class Bearer:
    """A token's principal, the key that signed it, and its end (seconds since 1970)."""

    principal: Principal
    key: str
    expires: float


class BearerTokens:
    """The tokens of one issuer."""

    def __init__(self, settings: Jwt, tenants: Collection[str]) -> None:
        """Raises ConfigError if a configured key cannot be used."""
        self.settings, self._tenants = settings, tenants
        self.keys: KeySet
        if settings.is_remote:
            algorithms: list[str] = [*(settings.algorithms or FETCHED_ALGORITHMS)]
            self.keys = FetchedKeys(self._fetched, Ages(settings.refresh_s, settings.keep_s))
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
        """Return the bearer that a token names. Raises TokenError: the token is not trusted; ClaimsError: it is genuine
        but names nobody with access here; IssuerDownError: the issuer's keys are unavailable."""
        candidates = await self.keys.matching(*header_of(token, self.expected))
        claims = signed_claims(token, candidates, self.expected)
        principal = principal_of(claims, self.settings, self._tenants)
        return Bearer(principal, thumbprint_of(candidates[0]), float(claims["exp"]))

    async def _fetched(self) -> dict[str, Any]:
        settings = self.settings
        if settings.jwks_url is not None:
            return await published(settings.jwks_url, settings.timeout_s)
        return await published_keys(settings.issuer, settings.timeout_s)


MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""As long as the digest (RFC 7518, section 3.2)."""
MIN_RSA_BITS = 2048
MAX_FILE_BYTES = 262_144
_PEM = "-----BEGIN "
_BY_DEFAULT = ("RS256", "ES256", "EdDSA", "HS256")


def configured_keys(settings: Jwt) -> list[Jwk]:
    """Return the keys as JWKs (RFC 7517). Raises ConfigError: there are none, or one may not be used."""
    content, where = _content(settings)
    if _PEM in content:
        return [_pem_key(content, where)]
    if content.startswith("{"):
        return _jwk_set(content, where)
    if "ssh-rsa " in content or "ecdsa-sha2-" in content or "ssh-ed25519 " in content:
        raise ConfigError(f"{where} is a key of SSH; `ssh-keygen -e -m PKCS8` makes PEM of it")
    encoded = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
    return [{"kty": "oct", "k": encoded}]


def algorithms_for(settings: Jwt, keys: Sequence[Jwk]) -> list[str]:
    """Return the signatures that are believed by the configured keys. Raises ConfigError: a key is made for none of
    them, or a secret is too short."""
    usual = [name for name in _BY_DEFAULT if keys_for(keys, name, None)]
    believed: list[str] = [*settings.algorithms] if settings.algorithms else usual
    for key in keys:
        names = [name for name in believed if keys_for([key], name, None)]
        if not names:
            raise ConfigError("a key of serving.jwt is made for none of serving.jwt.algorithms; set algorithms")
        if key["kty"] == "oct":
            secret, fewest = b"", max(MIN_SECRET_BYTES[name] for name in names)
            with suppress(ValueError):
                secret = base64.urlsafe_b64decode(str(key.get("k")) + "==")
            if len(secret) < fewest:
                told = f"the secret of serving.jwt has {len(secret)} bytes, it needs {fewest}"
                raise ConfigError(f"{told}; `openssl rand -hex 32` makes one")
    return believed


def _content(settings: Jwt) -> tuple[str, str]:
    if settings.key_env is not None:
        where = f"the environment variable {settings.key_env} (serving.jwt.key_env)"
        content = os.environ.get(settings.key_env, "").strip()
    else:
        assert settings.key_file is not None
        where = f"{settings.key_file} (serving.jwt.key_file)"
        try:
            with settings.key_file.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1).decode().strip()
        except OSError as error:
            raise ConfigError(f"{where} cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{where} is no text: give a secret, a public key in PEM, or a JWK set") from None
    if not content:
        raise ConfigError(f"{where} holds no key; set it")
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{where} is longer than {MAX_FILE_BYTES} bytes")
    return content, where


def _pem_key(content: str, where: str) -> Jwk:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    if "PRIVATE KEY-----" in content:
        raise ConfigError(f"{where} is a private key: this server only verifies; give the public one")
    try:
        if f"{_PEM}CERTIFICATE" in content:
            key: Any = load_pem_x509_certificate(content.encode()).public_key()
        else:
            key = load_pem_public_key(content.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{where} is no public key in PEM") from None
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < MIN_RSA_BITS:
            raise ConfigError(f"{where}: an RSA key needs {MIN_RSA_BITS} bits, this one has {key.key_size}")
        return RSAAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, ec.EllipticCurvePublicKey):
        return ECAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return OKPAlgorithm.to_jwk(key, as_dict=True)
    raise ConfigError(f"{where}: RSA, elliptic and Ed25519 keys can be used, this is another")


def _jwk_set(content: str, where: str) -> list[Jwk]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        raise ConfigError(f"{where} is no JWK set") from None
    keys = parsed.get("keys", [parsed])
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) and key.get("kty") for key in keys):
        raise ConfigError(f"{where} is no JWK set")
    if any("d" in key for key in keys):
        raise ConfigError(f"{where} has a private key: this server only verifies; give the public one")
    return keys
