"""A stand-in OpenID Connect provider on loopback: discovery, authorization, tokens, keys; and what a faulty one says.

OpenID Connect Core 1.0 and Discovery 1.0, RFC 6749, RFC 7636 (PKCE), RFC 9207 (`iss` in the way back). Whoever comes to
the authorization endpoint is signed in as `user` at once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
import warnings
from contextlib import AbstractContextManager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.warnings import InsecureKeyLengthWarning

from support.running import served

CLIENT, SECRET = "citelock", "s3cret of the client"


@cache
def private_key(kid: str) -> Any:
    """Return a key of this process: `e…` elliptic, `short…` too short, any other RSA."""
    if kid.startswith("e"):
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65537, 1024 if kid.startswith("short") else 2048)


def algorithm_of(kid: str) -> str:
    return "ES256" if kid.startswith("e") else "RS256"


def public_jwk(kid: str) -> dict[str, Any]:
    algorithm: Any = jwt.get_algorithm_by_name(algorithm_of(kid))
    return {**algorithm.to_jwk(private_key(kid).public_key(), as_dict=True), "kid": kid, "use": "sig"}


class StandInProvider(ThreadingHTTPServer):
    """`claims`, `header` and `token` change what is signed; `pages` replaces answers by their path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = "127.0.0.1"
        self.user: dict[str, Any] = {"sub": "ann", "tenant": "acme", "groups": ["hr"]}
        self.claims: dict[str, Any] = {}  # None takes one away
        self.kids, self.signs_with = ["r1", "e1"], "r1"
        self.token: str | None = None
        self.metadata: dict[str, Any] = {}
        self.way_back: dict[str, str] = {}
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.hang_s: dict[str, float] = {}
        self.drip: set[str] = set()
        self.secret: str | None = SECRET
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.server_address[1]}"

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Return where the reader is sent back to."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT
        code = secrets.token_urlsafe(24)
        self._codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.url, **self.way_back}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def redeem(self, form: dict[str, str], authorization: str | None) -> tuple[int, dict[str, Any]]:
        """Return the tokens for a code, once, to the client that began and holds the verifier."""
        self.forms.append(form)
        asked = self._codes.pop(form.get("code", ""), None)
        if not self._is_client(form, authorization):
            return 401, {"error": "invalid_client"}
        if asked is None or form.get("redirect_uri") != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        token = self.id_token(asked["nonce"]) if self.token is None else self.token
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token}

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": nonce, **self.user}
        claims = {name: value for name, value in {**claims, **self.claims}.items() if value is not None}
        kid = self.signs_with
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureKeyLengthWarning)
            return jwt.encode(claims, private_key(kid), algorithm_of(kid), {"kid": kid})

    def confused(self, nonce: str) -> str:
        """A token signed by HMAC with the public RSA key as the secret."""
        pem = private_key("r1").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return _hmac_signed({"alg": "HS256", "kid": "r1"}, self._usual(nonce), pem)

    def unsigned(self, nonce: str) -> str:
        return f"{_part({'alg': 'none', 'kid': 'r1'})}.{_part(self._usual(nonce))}."

    def _usual(self, nonce: str) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.url, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": nonce, **self.user}

    def _is_client(self, form: dict[str, str], authorization: str | None) -> bool:
        if self.secret is None:
            return authorization is None and form.get("client_id") == CLIENT
        if self.metadata.get("token_endpoint_auth_methods_supported") == ["client_secret_post"]:
            return authorization is None and form.get("client_secret") == self.secret
        encoded = f"{CLIENT}:{self.secret.replace(' ', '%20')}"
        return authorization == "Basic " + base64.b64encode(encoded.encode()).decode()


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def _hmac_signed(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    import hmac

    signed = f"{_part(header)}.{_part(claims)}"
    signature = base64.urlsafe_b64encode(hmac.digest(secret, signed.encode(), "sha256")).rstrip(b"=").decode()
    return f"{signed}.{signature}"


def served_provider() -> AbstractContextManager[StandInProvider]:
    """The provider while it serves."""
    return served(StandInProvider())


class _Handler(BaseHTTPRequestHandler):
    server: StandInProvider
    wbufsize = -1

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        self.server.asked.append(path)
        if path == "/authorize" and path not in self.server.pages:
            given = {name: values[0] for name, values in parse_qs(query).items()}
            self.send_response(302)
            self.send_header("Location", self.server.authorize(given))
            self.end_headers()
        elif path == "/keys":
            self._say(path, 200, {"keys": [public_jwk(kid) for kid in self.server.kids]})
        elif path == "/.well-known/openid-configuration":
            self._say(path, 200, self.server.discovery())
        else:
            self._say(path, 404, {})

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self._say(self.path, *self.server.redeem(form, self.headers.get("Authorization")))

    def _say(self, path: str, status: int, content: dict[str, Any]) -> None:
        time.sleep(self.server.hang_s.get(path, 0))
        status, body = self.server.pages.get(path, (status, json.dumps(content).encode()))
        self.send_response(status)
        if status in (301, 302):
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Type", "text/html" if body.startswith(b"<") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if path in self.server.drip:
            for number in range(len(body)):
                self.wfile.write(body[number : number + 1])
                self.wfile.flush()
                time.sleep(0.05)
        self.wfile.write(body if path not in self.server.drip else b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""
