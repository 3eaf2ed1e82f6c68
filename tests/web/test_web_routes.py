"""The web page over HTTP: its document at each of its addresses, its assets, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from support.api_client import ADDRESS, LOCAL, TOKENS
from support.wiki import configuration

from rag_serving.api.app import create_app

VIEWS = ["/", "/a/00ff", "/p/docs.11", "/p/handbook.guide/intro", "/check", "/documents", "/status"]
CONTENT = {
    "index.html": "<!doctype html><noscript>This page needs JavaScript.</noscript>",
    "embed.js": "embed",
    "favicon.svg": "<svg/>",
    "assets/main-1a2b.js": "main",
    "assets/main-1a2b.js.br": "main by br",
    "assets/main-1a2b.js.gz": "main by gzip",
    "assets/style-3c4d.css": "style",
}


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "static"
    (folder / "assets").mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / name).write_text(content)
    (folder.parent / "outside.js").write_text("outside")
    return folder


def opened(home: Path, static: Path, base_url: str = ADDRESS, **more: object) -> TestClient:
    app = create_app(configuration(home, **more), static=static)
    return TestClient(app, base_url, client=LOCAL, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(wiki_home: Path, static: Path) -> TestClient:
    return opened(wiki_home, static)


@pytest.fixture
def secured(wiki_home: Path, static: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    return opened(wiki_home, static, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens"})


@pytest.mark.parametrize("path", VIEWS)
def test_each_address_of_the_page_is_the_same_document(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.text) == (200, CONTENT["index.html"])
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert client.head(path).headers["etag"] == response.headers["etag"]


def test_the_document_has_a_policy_without_exceptions(client: TestClient) -> None:
    headers = client.get("/").headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    assert "unsafe" not in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]
    assert policy["require-trusted-types-for"] == "'script'"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "camera=()" in headers["permissions-policy"]


def test_only_the_address_of_a_handover_lets_its_opener_write_to_it(client: TestClient) -> None:
    policies = {path: client.get(path).headers["cross-origin-opener-policy"] for path in (*VIEWS, "/ask")}
    assert [path for path, policy in policies.items() if policy != "same-origin"] == ["/ask"]
    assert client.get("/ask").headers["content-security-policy"] == client.get("/").headers["content-security-policy"]


@pytest.mark.parametrize(
    ("accepted", "encoding", "content"),
    [
        ("identity", None, "main"),
        ("gzip", "gzip", "main by gzip"),
        ("gzip, br", "br", "main by br"),
    ],
)
def test_assets_never_change_and_come_compressed(
    client: TestClient, accepted: str, encoding: str | None, content: str
) -> None:
    with client.stream("GET", "/assets/main-1a2b.js", headers={"Accept-Encoding": accepted}) as response:
        assert b"".join(response.iter_raw()).decode() == content
    assert response.headers.get("content-encoding") == encoding
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.headers["vary"] == "Accept-Encoding"
    again = {"If-None-Match": response.headers["etag"], "Accept-Encoding": accepted}
    assert client.get("/assets/main-1a2b.js", headers=again).status_code == 304


def test_the_snippet_is_for_other_sites_and_other_files_are_not(client: TestClient) -> None:
    snippet = client.get("/embed.js").headers
    assert snippet["access-control-allow-origin"] == "*"
    assert snippet["cache-control"] == "public, max-age=3600"
    for path in ("/", "/assets/main-1a2b.js", "/favicon.svg"):
        response = client.get(path, headers={"Accept-Encoding": "identity"})
        assert (response.status_code, "access-control-allow-origin" in response.headers) == (200, False)


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../outside.js",
        "/assets/..%2foutside.js",
        "/assets/..%2f..%2foutside.js",
        "/assets/%2e%2e/%2e%2e/outside.js",
        "/assets//etc/passwd",
        "/assets/main-1a2b.js.br",
        "/assets/main-1a2b.js%00",
        "/assets/",
        "/outside.js",
        "/index.html",
    ],
)
def test_no_path_leads_out_of_the_bundle(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code in (404, 401)
    assert "outside" not in response.text


@given(name=st.text(st.characters(codec="utf-8"), max_size=30))
def test_no_name_of_an_asset_is_answered_with_another_file(client: TestClient, name: str) -> None:
    assert client.get(f"/assets/{name.encode().hex()}").status_code == 404
    assert client.get("/assets/x", params={"name": name}).status_code == 404


def test_nobody_has_to_sign_in_for_the_page_and_everybody_for_what_it_asks(secured: TestClient) -> None:
    assert [secured.get(path).status_code for path in (*VIEWS, "/embed.js", "/assets/style-3c4d.css")] == [200] * 9
    assert [secured.post(path).status_code for path in ("/", "/a/00ff", "/documents")] == [405] * 3
    assert [secured.get(path).status_code for path in ("/v1/reports", "/metrics", "/openapi.json")] == [401] * 3


def test_the_demo_s_page_is_for_this_machine_by_its_own_name(wiki_home: Path, static: Path) -> None:
    rebound = opened(wiki_home, static, "http://evil.example").get("/")
    assert (rebound.status_code, rebound.json()["code"]) == (403, "LOOPBACK_ONLY")
    proxied = opened(wiki_home, static).get("/", headers={"X-Forwarded-For": "10.0.0.1"})
    assert proxied.status_code == 403


def test_a_page_that_is_asked_for_too_often_waits(wiki_home: Path, static: Path) -> None:
    client = opened(wiki_home, static, serving={"address_limit_per_minute": 2})
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]


def test_a_checkout_without_the_bundle_says_how_to_build_it(wiki_home: Path, tmp_path: Path) -> None:
    client = opened(wiki_home, tmp_path / "nowhere")
    response = client.get("/")
    assert (response.status_code, "npm run build" in response.json()["message"]) == (404, True)
    assert client.get("/assets/main.js").status_code == 404
    assert client.get("/healthz").status_code == 200
