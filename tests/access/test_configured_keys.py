"""Keys of the configuration: a secret, PEM, a JWK set; what is weak, private or of no use is refused in one line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from support.stand_in_issuer import claims_of, signed
from support.stand_in_provider import private_key, public_jwk

from rag_serving.access.bearer_tokens import BearerTokens, algorithms_for, configured_keys
from rag_serving.access.token_validation import TokenError
from rag_serving.api.auth import Authenticator
from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.serving import Jwt

ISSUER = "https://id.example"
SECRET = "0123456789abcdef0123456789abcdef"


def public_pem(key: Any) -> str:
    return str(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def private_pem(key: Any) -> str:
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    def of(content: str | bytes, **more: Any) -> Jwt:
        path = tmp_path / "key"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Jwt.model_validate({"issuer": ISSUER, "audience": "api", "key_file": path, **more})

    return of


@pytest.mark.parametrize(
    ("content", "algorithms"),
    [
        (SECRET + "\n", ["HS256"]),
        (public_pem(private_key("r1")), ["RS256"]),
        (public_pem(private_key("e1")), ["ES256"]),
        (public_pem(ed25519.Ed25519PrivateKey.generate()), ["EdDSA"]),
        (json.dumps({"keys": [public_jwk("r1"), public_jwk("e1")]}), ["RS256", "ES256"]),
        (json.dumps(public_jwk("r1")), ["RS256"]),
    ],
)
def test_a_key_says_which_signatures_are_believed(settings: Any, content: str, algorithms: list[str]) -> None:
    given = settings(content)
    assert algorithms_for(given, configured_keys(given)) == algorithms


@pytest.mark.parametrize(
    ("content", "more", "words"),
    [
        ("", {}, "holds no key"),
        (b"\xff\xfe", {}, "is no text"),
        ("x" * 31, {}, "has 31 bytes, it needs 32"),
        (SECRET, {"algorithms": ["HS512"]}, "has 32 bytes, it needs 64"),
        (SECRET, {"algorithms": ["RS256"]}, "made for none of serving.jwt.algorithms"),
        (public_pem(private_key("r1")), {"algorithms": ["HS256"]}, "made for none of serving.jwt.algorithms"),
        (private_pem(private_key("r1")), {}, "is a private key"),
        (public_pem(private_key("short1")), {}, "needs 2048 bits, this one has 1024"),
        (public_pem(ec.generate_private_key(ec.SECP256K1())), {}, "made for none of"),
        ("-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----", {}, "is no public key in PEM"),
        ("ssh-rsa AAAA " + "x" * 40, {}, "is a key of SSH"),
        ("{", {}, "is no JWK set"),
        ('{"keys": []}', {}, "is no JWK set"),
        ('{"keys": [1]}', {}, "is no JWK set"),
        (json.dumps({"kty": "RSA", "n": "x", "e": "AQAB", "d": "x"}), {}, "has a private key"),
        (json.dumps({"kty": "oct", "k": "c2hvcnQ"}), {}, "has 5 bytes"),
        ("x" * 300_000, {}, "is longer than"),
    ],
)
def test_a_key_that_may_not_be_used_is_told_with_its_mend(
    settings: Any, content: str | bytes, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        BearerTokens(settings(content, **more), ["acme"])
    assert "\n" not in str(told.value)
    assert SECRET not in str(told.value)


def test_a_public_key_in_pem_verifies_whatever_id_a_token_has(settings: Any) -> None:
    tokens = BearerTokens(settings(public_pem(private_key("r1"))), ["acme"])
    for kid in ("r1", "another", None):
        token = signed(claims_of(ISSUER, aud="api"), kid=kid)
        assert asyncio.run(tokens.bearer(token)).principal.user == "ann"
    with pytest.raises(TokenError):
        asyncio.run(tokens.bearer(signed(claims_of(ISSUER, aud="api"), "r2")))


@pytest.mark.parametrize(
    ("jwt", "words"),
    [
        (None, "auth 'jwt' and the section jwt need each other"),
        ({"issuer": ISSUER}, "audience"),
        ({"issuer": ISSUER, "audience": ""}, "audience must not be empty"),
        ({"issuer": "http://id.example", "audience": "a"}, "the keys are found below issuer, an https address"),
        ({"issuer": ISSUER, "audience": "a", "jwks_url": "http://id.example/keys"}, "must be https"),
        ({"issuer": ISSUER, "audience": "a", "algorithms": ["HS256"]}, "need a secret"),
        ({"issuer": ISSUER, "audience": "a", "algorithms": ["none"]}, "algorithms"),
        ({"issuer": ISSUER, "audience": "a", "algorithms": []}, "algorithms"),
        ({"issuer": ISSUER, "audience": "a", "key_env": "K", "key_file": "k"}, "exclude each other"),
        ({"issuer": ISSUER, "audience": "a", "claims": {"tennant": "x"}}, "did you mean 'tenant'"),
    ],
)
def test_a_section_that_would_believe_too_much_is_refused(jwt: dict[str, Any] | None, words: str) -> None:
    serving = {"auth": "jwt", **({"jwt": jwt} if jwt is not None else {})}
    with pytest.raises(ConfigError, match=words):
        parse_config({"tenants": {"acme": {}}, "serving": serving})


def test_a_tenant_that_is_mapped_and_not_configured_is_refused() -> None:
    jwt = {"issuer": ISSUER, "audience": "a", "tenants": {"t1": "gone"}}
    config = parse_config({"tenants": {"acme": {}}, "serving": {"auth": "jwt", "jwt": jwt}})
    with pytest.raises(ConfigError, match="tenant 'gone' is not configured"):
        Authenticator(config)
