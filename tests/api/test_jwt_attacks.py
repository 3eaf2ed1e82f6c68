"""What is tried with bearer tokens: each is refused with its status, on every door, and tells nothing of the inside."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi.testclient import TestClient
from httpx import Response
from support.api_client import QUESTION, bearer, client_of
from support.stand_in_issuer import AUDIENCE, by_secret, claims_of, encoded, part, signed, signed_text
from support.stand_in_provider import StandInProvider, private_key, public_jwk, served_provider
from support.wiki import configuration

from rag_serving.access import bounded_fetch as key_sets
from rag_serving.api.auth import Authenticator, AuthError, Request

TENANTS: dict[str, Any] = {"acme": {}, "other": {}}
EVIL = "http://127.0.0.1:9/keys"

TOLD = {
    "the bearer token is not valid here",
    "the bearer token has expired",
    "the bearer token is not known",
}
Make = Callable[[str], str]
"""A token for an issuer."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[StandInProvider]:
    with served_provider() as server:
        yield server


@pytest.fixture(scope="module")
def client(wiki_home: Path, issuer: StandInProvider) -> Iterator[TestClient]:
    with client_of(wiki_home, tenants=TENANTS, serving=serving(issuer, algorithms=["RS256", "ES256"])) as opened:
        yield opened


def serving(issuer: StandInProvider, **more: Any) -> dict[str, Any]:
    keys = {} if {"key_env", "key_file"} & more.keys() else {"jwks_url": f"{issuer.url}/keys"}
    return {"auth": "jwt", "mcp": True, "jwt": {"issuer": issuer.url, "audience": AUDIENCE, **keys, **more}}


def asked(client: TestClient, token: str, path: str = "/v1/models") -> Response:
    return client.get(path, headers=bearer(token))


def pem(kid: str = "r1") -> bytes:
    key: bytes = private_key(kid).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key


def der(kid: str = "r1") -> bytes:
    key: bytes = private_key(kid).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return key


def tampered(token: str, **changed: Any) -> str:
    header, payload, signature = token.split(".")
    content = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{part({**content, **changed})}.{signature}"


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def now() -> int:
    return int(time.time())


REFUSED: dict[str, Make] = {
    "no token": lambda _: "eyJ.eyJ.x",
    "none": lambda iss: f"{part({'alg': 'none', 'kid': 'r1'})}.{part(claims_of(iss))}.",
    "none in other letters": lambda iss: f"{part({'alg': 'nOnE', 'kid': 'r1'})}.{part(claims_of(iss))}.",
    "none with the signature of another": lambda iss: (
        f"{part({'alg': 'none'})}.{part(claims_of(iss))}.{signed(claims_of(iss)).split('.')[2]}"
    ),
    "signature taken away": lambda iss: signed(claims_of(iss)).rpartition(".")[0] + ".",
    "signature of two parts": lambda iss: signed(claims_of(iss)).rpartition(".")[0],
    "signature cut": lambda iss: signed(claims_of(iss))[:-20],
    "signed by the public key as a secret": lambda iss: by_secret({"alg": "HS256"}, claims_of(iss), pem()),
    "the same with its id": lambda iss: by_secret({"alg": "HS256", "kid": "r1"}, claims_of(iss), pem()),
    "the same in DER": lambda iss: by_secret({"alg": "HS256", "kid": "r1"}, claims_of(iss), der()),
    "the same, said to be RS256": lambda iss: by_secret({"alg": "RS256", "kid": "r1"}, claims_of(iss), pem()),
    "the same by the JWK": lambda iss: by_secret(
        {"alg": "HS256", "kid": "r1"}, claims_of(iss), json.dumps(public_jwk("r1")).encode()
    ),
    "signed by nothing": lambda iss: by_secret({"alg": "HS256", "kid": "r1"}, claims_of(iss), b""),
    "an elliptic key said to be RSA": lambda iss: by_secret({"alg": "RS256", "kid": "e1"}, claims_of(iss), pem()),
    "an elliptic signature of zeros": lambda iss: (
        f"{part({'alg': 'ES256', 'kid': 'e1'})}.{part(claims_of(iss))}.{encoded(bytes(64))}"
    ),
    "another algorithm than believed": lambda iss: by_secret({"alg": "PS256", "kid": "r1"}, claims_of(iss), b"x"),
    "an algorithm that is no name": lambda iss: by_secret({"alg": ["RS256"], "kid": "r1"}, claims_of(iss), b"x"),
    "a key of somebody else": lambda iss: signed(claims_of(iss), "r9", kid="r1"),
    "a key of nobody": lambda iss: signed(claims_of(iss), "r9"),
    "expired": lambda iss: signed(claims_of(iss, exp=now() - 40)),
    "expired long ago": lambda iss: signed(claims_of(iss, exp=0)),
    "not yet valid": lambda iss: signed(claims_of(iss, nbf=now() + 90)),
    "issued in the future": lambda iss: signed(claims_of(iss, iat=now() + 3600)),
    "another audience": lambda iss: signed(claims_of(iss, aud="the web application")),
    "audiences without ours": lambda iss: signed(claims_of(iss, aud=["x", AUDIENCE + " "])),
    "an audience that begins as ours": lambda iss: signed(claims_of(iss, aud=AUDIENCE + "-2")),
    "audience in an object": lambda iss: signed(claims_of(iss, aud={AUDIENCE: 1})),
    "audiences of other types": lambda iss: signed(claims_of(iss, aud=[AUDIENCE, 1])),
    "another issuer": lambda iss: signed(claims_of(iss, iss="http://127.0.0.1:1")),
    "the issuer with a slash": lambda iss: signed(claims_of(iss, iss=iss + "/")),
    "issuers in a list": lambda iss: signed_text(json.dumps(claims_of(iss, iss=[iss])).encode()),
    "no issuer": lambda iss: signed(claims_of(iss, iss=None)),
    "no audience": lambda iss: signed(claims_of(iss, aud=None)),
    "no end": lambda iss: signed(claims_of(iss, exp=None)),
    "an end in words": lambda iss: signed(claims_of(iss, exp="9999999999")),
    "an end that is true": lambda iss: signed_text(json.dumps(claims_of(iss, exp=True)).encode()),
    "an end that never comes": lambda iss: signed_text(
        json.dumps(claims_of(iss, exp=0)).replace('"exp": 0', '"exp": Infinity').encode()
    ),
    "an end beyond all numbers": lambda iss: signed_text(
        json.dumps(claims_of(iss, exp=0)).replace('"exp": 0', '"exp": 1e999').encode()
    ),
    "a beginning in a list": lambda iss: signed_text(json.dumps(claims_of(iss, nbf=[1])).encode()),
    "a subject of numbers": lambda iss: signed_text(json.dumps(claims_of(iss, sub=7)).encode()),  # RFC 7519, 4.1.2
    "claims changed": lambda iss: tampered(signed(claims_of(iss)), tenant_id="other"),
    "a claim twice": lambda iss: signed_text(
        json.dumps(claims_of(iss)).replace('"acme"', '"other", "tenant_id": "acme"').encode()
    ),
    "a name of the header twice": lambda iss: (
        encoded(b'{"alg":"RS256","kid":"r9","kid":"r1"}') + "." + signed(claims_of(iss)).partition(".")[2]
    ),
    "claims in a list": lambda iss: signed_text(json.dumps([claims_of(iss)]).encode()),
    "claims that are no JSON": lambda _: signed_text(b"no"),
    "claims in no text": lambda _: signed_text(b"\xff\xfe"),
    "claims of many levels": lambda _: signed_text(nested(4000)),
    "a header of many levels": lambda iss: f"{encoded(nested(4000))}.{part(claims_of(iss))}.eA",
    "a number of many digits": lambda iss: signed_text(
        json.dumps(claims_of(iss, exp=0)).replace('"exp": 0', '"exp": ' + "9" * 9000).encode()
    ),
    "a huge token": lambda iss: signed(claims_of(iss, groups=["x" * 400] * 100)),
    "an id that is a path": lambda iss: signed(claims_of(iss), "r9", kid="../../../../dev/null"),
    "an id that is SQL": lambda iss: signed(claims_of(iss), "r9", kid="x' UNION SELECT 'k' --"),
    "an id that is an address": lambda iss: signed(claims_of(iss), "r9", kid=EVIL),
    "an id that is a command": lambda iss: signed(claims_of(iss), "r9", kid="r1|id"),
    "an id that is long": lambda iss: signed(claims_of(iss), "r9", kid="x" * 501),
    "an id that is no name": lambda iss: f"{part({'alg': 'RS256', 'kid': {}})}.{part(claims_of(iss))}.eA",
    "an empty id": lambda iss: signed(claims_of(iss), "r9", kid=""),
    "an address of keys": lambda iss: signed(claims_of(iss), "r9", jku=EVIL),
    "an address of a certificate": lambda iss: signed(claims_of(iss), "r9", x5u=EVIL),
    "a key in the header": lambda iss: signed(claims_of(iss), "r9", kid="r1", jwk=public_jwk("r9")),
    "a certificate in the header": lambda iss: signed(claims_of(iss), "r9", kid="r1", x5c=["MIIB"]),
    "a demand of the header": lambda iss: signed(claims_of(iss), crit=["b64"], b64=True),
    "a token of another type": lambda iss: signed(claims_of(iss), typ="logout+jwt"),
    "encrypted": lambda _: f"{part({'alg': 'RSA-OAEP', 'enc': 'A128GCM'})}.a.b.c.d",
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_a_token_that_was_made_up_opens_nothing(client: TestClient, issuer: StandInProvider, make: Make) -> None:
    token = make(issuer.url)
    response = asked(client, token)
    assert response.status_code == 401, response.text
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.json()["error"]["message"] in TOLD


def test_what_is_rightly_signed_opens_every_door(client: TestClient, issuer: StandInProvider) -> None:
    for kid in ("r1", "e1"):
        headers = bearer(signed(claims_of(issuer.url, groups=["hr"]), kid))
        answer = client.post("/v1/ask", json=QUESTION, headers=headers)
        assert (answer.status_code, bool(answer.json()["citations"])) == (200, True)
        completion = {"model": "citelock", "messages": [{"role": "user", "content": QUESTION["question"]}]}
        assert client.post("/v1/chat/completions", json=completion, headers=headers).status_code == 200
        assert "event: " in client.post("/v1/ask", json={**QUESTION, "stream": True}, headers=headers).text
        tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        assert client.post("/mcp", json=tools, headers={**headers, **accepted}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/ask", "/v1/search", "/mcp", "/v1/chat/completions", "/v1/responses", "/v1/documents", "/v1/session"]
)
def test_no_door_takes_a_token_that_was_made_up(client: TestClient, issuer: StandInProvider, path: str) -> None:
    token = REFUSED["the same with its id"](issuer.url)
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8088"}
    body = {"token": token} if path == "/v1/session" else QUESTION
    response = client.post(path, json=body, headers=own if path == "/v1/session" else bearer(token))
    assert response.status_code == 401, response.text


def test_a_genuine_token_that_names_nobody_here_is_forbidden_whatever_it_names(
    client: TestClient, issuer: StandInProvider
) -> None:
    named: list[dict[str, Any]] = [{"tenant_id": name} for name in ("nobody", None, ["acme"], "ACME")]
    answers = [asked(client, signed(claims_of(issuer.url, **claims))) for claims in [*named, {"sub": None}]]
    assert {answer.status_code for answer in answers} == {403}
    assert len({answer.text for answer in answers}) == 1


def test_claims_of_wrong_types_are_forbidden(client: TestClient, issuer: StandInProvider) -> None:
    wrong: list[dict[str, Any]] = [{"groups": {"hr": 1}}, {"groups": ["hr", None]}, {"roles": [["operator"]]}]
    for claims in [*wrong, {"groups": ["x"] * 2001}]:
        assert asked(client, signed(claims_of(issuer.url, **claims))).status_code == 403


def test_a_token_of_another_tenant_reads_nothing_of_this_one(client: TestClient, issuer: StandInProvider) -> None:
    other = signed(claims_of(issuer.url, tenant_id="other", roles=["operator"]))
    assert asked(client, other).json()["data"][0]["id"] == "citelock-other"
    for tenant in ("acme", "never-configured"):
        refusal = asked(client, other, f"/v1/models?tenant={tenant}")
        assert (refusal.status_code, refusal.json()["error"]["message"]) == (403, "the token belongs to another tenant")


def test_the_issuer_may_know_more_roles_than_are_here(client: TestClient, issuer: StandInProvider) -> None:
    token = signed(claims_of(issuer.url, roles=["admin", "operator", "root"]))
    assert asked(client, token, "/v1/session").json()["roles"] == ["operator", "reader"]
    assert asked(client, signed(claims_of(issuer.url)), "/v1/status").status_code == 403
    assert asked(client, token, "/v1/status").status_code == 200


# Keys that come and go


@pytest.fixture
def opened(
    wiki_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[TestClient, StandInProvider, list[float]]]:
    """An app whose clock is the list's number, with an issuer of its own; keys serve for 100 s, at most for 1,000."""
    time_s = [1000.0]
    monkeypatch.setattr(key_sets, "WAIT_S", 5)
    with served_provider() as issuer:
        settings = serving(issuer, refresh_s=100, keep_s=1000, timeout_s=1)
        with client_of(wiki_home, tenants=TENANTS, serving=settings) as client:
            keys = client.app.state.service.authenticator._issuer.keys  # type: ignore[attr-defined]
            keys._clock = lambda: time_s[0]
            yield client, issuer, time_s


Opened = tuple[TestClient, StandInProvider, list[float]]


def test_a_key_that_is_new_is_fetched_at_once_and_made_up_ids_fetch_no_more(opened: Opened) -> None:
    client, issuer, time_s = opened
    assert asked(client, signed(claims_of(issuer.url))).status_code == 200
    for number in range(30):
        assert asked(client, signed(claims_of(issuer.url), "r9", kid=f"made-up-{number}")).status_code == 401
    assert issuer.asked.count("/keys") == 1
    issuer.kids, time_s[0] = ["r1", "r2"], time_s[0] + 11
    assert asked(client, signed(claims_of(issuer.url), "r2")).status_code == 200
    assert issuer.asked.count("/keys") == 2


def test_a_key_that_was_removed_opens_nothing_more_nor_does_its_session(opened: Opened) -> None:
    client, issuer, time_s = opened
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8088"}
    old = signed(claims_of(issuer.url), "r1")
    assert asked(client, old).status_code == 200
    assert client.post("/v1/session", json={"token": old}, headers=own).status_code == 200
    assert client.get("/v1/session").json()["user"] == "ann"
    issuer.kids, time_s[0] = ["r2"], time_s[0] + 101
    assert asked(client, old).status_code == 401, "replayed"
    assert client.get("/v1/session").json()["signed_in"] is False
    assert asked(client, signed(claims_of(issuer.url), "r2")).status_code == 200


def test_a_session_ends_with_its_token(opened: Opened) -> None:
    client, issuer, _ = opened
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8088"}
    token = signed(claims_of(issuer.url, exp=now() + 60))
    line = client.post("/v1/session", json={"token": token}, headers=own).headers["set-cookie"]
    assert int(line.split("Max-Age=")[1].split(";")[0]) <= 61


@pytest.mark.parametrize("page", [(500, b"{}"), (200, b"no"), (200, b'{"keys": 1}'), (200, b"x" * 300_000), (302, b"")])
def test_keys_that_cannot_be_had_are_kept_for_a_bounded_time(opened: Opened, page: tuple[int, bytes]) -> None:
    client, issuer, time_s = opened
    right = signed(claims_of(issuer.url))
    issuer.pages["/keys"] = page
    refusal = asked(client, right)
    assert (refusal.status_code, refusal.headers["Retry-After"]) == (503, "5")
    time_s[0] += 3
    del issuer.pages["/keys"]
    assert asked(client, right).status_code == 200
    issuer.pages["/keys"] = page
    time_s[0] += 500
    assert asked(client, right).status_code == 200
    assert asked(client, signed(claims_of(issuer.url), "r9")).status_code == 503, "it cannot be told"
    time_s[0] += 501
    assert asked(client, right).status_code == 503
    assert asked(client, REFUSED["none"](issuer.url)).status_code == 401


def test_a_set_of_very_many_keys_is_looked_through_in_part(opened: Opened) -> None:
    client, issuer, _ = opened
    made_up = [{"kty": "RSA", "kid": f"k{number}", "n": "AQAB", "e": "AQAB"} for number in range(2000)]
    issuer.pages["/keys"] = (200, json.dumps({"keys": [*made_up, public_jwk("r1")]}).encode())
    assert asked(client, signed(claims_of(issuer.url))).status_code == 401
    issuer.pages["/keys"] = (200, json.dumps({"keys": [None, 7, {"kty": 1}, public_jwk("r1")]}).encode())


def test_keys_that_do_not_fit_verify_nothing(opened: Opened) -> None:
    client, issuer, time_s = opened
    secret = {"kty": "oct", "kid": "r1", "k": encoded(b"s" * 32), "alg": "RS256"}
    weak = public_jwk("short1")
    for keys in (
        [secret],
        [{**public_jwk("r1"), "use": "enc"}],
        [{**public_jwk("r1"), "alg": "RS512"}],
        [weak],
        [public_jwk("r1"), public_jwk("r1")],
        [{"kty": "RSA", "kid": "r1", "n": "!", "e": "AQAB"}],
        [None, 7],
    ):
        issuer.pages["/keys"] = (200, json.dumps({"keys": keys}).encode())
        time_s[0] += 101
        kid = "short1" if keys == [weak] else "r1"
        assert asked(client, signed(claims_of(issuer.url), kid)).status_code == 401, keys


def test_a_slow_issuer_holds_nobody_whose_key_is_known(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    client, issuer, time_s = opened
    right = signed(claims_of(issuer.url))
    assert asked(client, right).status_code == 200
    monkeypatch.setattr(key_sets, "WAIT_S", 0.1)
    issuer.hang_s["/keys"] = 3
    time_s[0] += 101
    begun = time.monotonic()
    assert asked(client, right).status_code == 200
    assert time.monotonic() - begun < 0.9


def test_wrong_tokens_of_others_slow_no_new_token_of_the_same_address(
    client: TestClient, issuer: StandInProvider
) -> None:
    for _ in range(30):
        assert asked(client, signed(claims_of(issuer.url, exp=1))).status_code == 401
    assert asked(client, signed(claims_of(issuer.url, sub="new"))).status_code == 200


def test_keys_that_were_fetched_outlive_a_reload_that_changes_nothing_of_the_issuer(
    wiki_home: Path, issuer: StandInProvider
) -> None:
    def read_again(earlier: Authenticator | None, **more: Any) -> Authenticator:
        config = configuration(wiki_home, tenants=TENANTS, serving=serving(issuer, **more))
        return Authenticator(config, earlier)

    async def status(authenticator: Authenticator) -> int:
        request = Request(None, None, f"Bearer {signed(claims_of(issuer.url))}")
        found = await authenticator.recognize(request)
        return found.status if isinstance(found, AuthError) else 200

    async def reloaded() -> list[int]:
        first = read_again(None)
        before = await status(first)
        issuer.pages["/keys"] = (500, b"")
        return [before, await status(read_again(first)), await status(read_again(first, audience="another"))]

    try:
        assert asyncio.run(reloaded()) == [200, 200, 503]
    finally:
        del issuer.pages["/keys"]


def test_keys_are_found_by_discovery_at_the_issuer_alone(wiki_home: Path) -> None:
    with served_provider() as own:
        settings = {"auth": "jwt", "jwt": {"issuer": own.url, "audience": AUDIENCE, "timeout_s": 1}}
        for metadata in ({"issuer": "https://evil.example"}, {"jwks_uri": "http://evil.example/keys"}, {"jwks_uri": 7}):
            own.metadata = metadata
            with client_of(wiki_home, tenants=TENANTS, serving=settings) as found:
                assert asked(found, signed(claims_of(own.url))).status_code == 503, metadata
        own.metadata = {}
        with client_of(wiki_home, tenants=TENANTS, serving=settings) as found:
            assert asked(found, signed(claims_of(own.url))).status_code == 200
            assert asked(found, REFUSED["the same with its id"](own.url)).status_code == 401


def test_a_shared_secret_verifies_hmac_alone(
    wiki_home: Path, issuer: StandInProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("JWT_SECRET", secret)
    settings = serving(issuer, key_env="JWT_SECRET")
    with client_of(wiki_home, tenants=TENANTS, serving=settings) as shared:
        claims = claims_of(issuer.url)
        assert asked(shared, by_secret({"alg": "HS256"}, claims, secret.encode())).status_code == 200
        assert asked(shared, by_secret({"alg": "HS256", "kid": "any"}, claims, secret.encode())).status_code == 200
        for header in ({"alg": "HS512"}, {"alg": "none"}, {"alg": "RS256"}):
            assert asked(shared, by_secret(header, claims, secret.encode())).status_code == 401
        assert asked(shared, by_secret({"alg": "HS256"}, claims, secret[:-1].encode())).status_code == 401
        assert asked(shared, signed(claims)).status_code == 401
        assert secret not in shared.get("/openapi.json", headers=bearer(secret)).text


def test_static_tokens_count_beside_the_issuer(
    wiki_home: Path, issuer: StandInProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"program": {"tenant": "other"}}))
    with client_of(wiki_home, tenants=TENANTS, serving=serving(issuer)) as both:
        assert asked(both, "program").json()["data"][0]["id"] == "citelock-other"
        assert asked(both, signed(claims_of(issuer.url))).json()["data"][0]["id"] == "citelock-acme"
        assert asked(both, "programm").status_code == 401
