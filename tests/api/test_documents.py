"""Uploads over HTTP: who may, what is taken, what becomes of it, and what nobody else is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from support.api_client import ADDRESS, LOCAL, bearer
from support.constants import configured

from rag_serving.api import documents as multipart
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config

EDITOR = ["reader", "editor"]
TOKENS = {
    "ann": {"tenant": "acme", "user": "ann", "groups": ["hr", "staff"], "roles": EDITOR},
    "bob": {"tenant": "acme", "user": "bob", "groups": ["staff"], "roles": EDITOR},
    "reader": {"tenant": "acme", "user": "ann", "groups": ["hr", "staff"]},
    "operator": {"tenant": "acme", "roles": ["operator"]},
    "foreign": {"tenant": "other", "user": "ann", "groups": ["hr", "staff"], "roles": EDITOR},
}
MARKDOWN = b"# Leave\n\nEverybody has thirty days of leave.\n"


def config_of(home: Path, max_file_bytes: int = 50_000_000, **serving: Any) -> Config:
    inbox = {"kind": "files", "tenant": "acme", "max_file_bytes": max_file_bytes}
    return configured(
        {
            "home": str(home),
            "tenants": {"acme": {}, "other": {}},
            "sources": {
                "uploads": inbox,
                "staff": {**inbox, "readers": ["group:staff"]},
            },
            "serving": {"auth": "tokens", **serving},
        }
    )


Open = Callable[..., TestClient]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))

    def client(**serving: Any) -> TestClient:
        return TestClient(
            create_app(config_of(tmp_path, **serving)), ADDRESS, client=LOCAL, raise_server_exceptions=False
        )

    return client


def put(
    client: TestClient, token: str, content: bytes = MARKDOWN, name: str = "Leave.md", **fields: str
) -> httpx.Response:
    return client.post("/v1/documents", headers=bearer(token), files={"file": (name, content)}, data=fields)


def listed(client: TestClient, token: str) -> dict[str, Any]:
    response = client.get("/v1/documents", headers=bearer(token))
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_a_document_is_received_listed_and_looked_at(opened: Open) -> None:
    client = opened()
    response = put(client, "ann", readers='["group:hr"]')
    assert response.status_code == 202, response.text
    assert response.json() == {"document_id": response.json()["document_id"], "version": 1, "status": "received"}
    (found,) = listed(client, "ann")["documents"]
    assert (found["name"], found["bytes"], found["media_type"]) == ("Leave.md", len(MARKDOWN), "text/markdown")
    assert (found["status"], found["readers"], found["page_id"]) == ("received", "group:hr", None)
    assert found["versions"][0]["uploaded_by"] == "ann"
    path = f"/v1/documents/{found['document_id']}"
    assert client.get(path, headers=bearer("ann")).json() == found


def test_the_list_says_what_may_be_granted_and_is_read(opened: Open) -> None:
    shown = listed(opened(max_file_bytes=1234), "ann")
    assert [reader["value"] for reader in shown["readers"]] == ["user:ann", "group:hr", "group:staff", "everyone"]
    assert {".pdf", ".md", ".txt"} <= set(shown["accepts"])
    assert shown["max_bytes"] == 1234


def test_whoever_may_not_read_a_document_is_told_what_is_told_of_none(opened: Open) -> None:
    client = opened()
    identifier = put(client, "ann", readers='["group:hr"]').json()["document_id"]
    for token in ("bob", "foreign"):
        for call in (client.get, client.delete):
            hidden = call(f"/v1/documents/{identifier}", headers=bearer(token))
            missing = call("/v1/documents/doc0000000000000000", headers=bearer(token))
            assert (hidden.status_code, hidden.json()) == (missing.status_code, missing.json())
            assert hidden.status_code == 404
        assert listed(client, token)["documents"] == []
    assert put(client, "bob", document_id=identifier).status_code == 404
    assert put(client, "bob", readers='["group:staff"]').json()["document_id"] != identifier  # the same bytes


@pytest.mark.parametrize("token", ["reader", "operator"])
def test_only_editors_have_to_do_with_documents(opened: Open, token: str) -> None:
    client = opened()
    put(client, "ann", readers="everyone")
    answers = [put(client, token)]
    answers += [client.get(f"/v1/{path}", headers=bearer(token)) for path in ("documents", "documents/doc1", "events")]
    answers += [client.delete("/v1/documents/doc1", headers=bearer(token))]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(403, "FORBIDDEN")}
    assert client.post("/v1/documents", files={"file": ("a.md", MARKDOWN)}).status_code == 401


def test_nobody_grants_what_is_not_theirs(opened: Open) -> None:
    client = opened()
    for readers in (
        '["group:hr"]',
        '["user:ann"]',
        "group:ops",
        '["everyone", "group:hr"]',
        "[",
        '[["x"]]',
        "[1]",
        "[]",
    ):
        assert put(client, "bob", readers=readers).json()["code"] == "READERS", readers
    assert listed(client, "bob")["documents"] == []
    granted = put(client, "bob", readers="everyone").json()["document_id"]
    assert client.get(f"/v1/documents/{granted}", headers=bearer("ann")).json()["readers"] == "everyone"


def test_without_readers_only_the_sender_reads_it(opened: Open) -> None:
    client = opened()
    put(client, "ann")
    assert [one["readers"] for one in listed(client, "ann")["documents"]] == ["user:ann"]
    assert listed(client, "bob")["documents"] == []


def test_the_readers_of_the_source_narrow_those_of_a_document(opened: Open) -> None:
    client = opened()
    identifier = put(client, "bob", source="staff", readers="everyone").json()["document_id"]
    found = client.get(f"/v1/documents/{identifier}", headers=bearer("bob")).json()
    assert (found["readers"], found["source"]) == ("group:staff", "staff")
    assert put(client, "bob", source="nowhere").status_code == 404


def test_the_same_file_again_is_the_same_document(opened: Open, tmp_path: Path) -> None:
    client = opened()
    first = put(client, "ann").json()
    before = sorted(path.stat().st_mtime_ns for path in inbox_of(tmp_path).rglob("*.json"))
    assert put(client, "ann", name="Other name.md").json() == first
    assert put(client, "ann", document_id=first["document_id"]).json() == first
    assert sorted(path.stat().st_mtime_ns for path in inbox_of(tmp_path).rglob("*.json")) == before
    assert not list((inbox_of(tmp_path) / "incoming").iterdir())


def test_a_document_is_replaced_under_its_id(opened: Open) -> None:
    client = opened()
    first = put(client, "ann", readers='["group:hr"]').json()
    second = put(client, "ann", b"# Leave\n\nThirty-one days.\n", document_id=first["document_id"]).json()
    assert second == {"document_id": first["document_id"], "version": 2, "status": "received"}
    (found,) = listed(client, "ann")["documents"]
    assert [version["version"] for version in found["versions"]] == [1, 2]
    assert found["readers"] == "group:hr"


def test_a_deleted_document_says_so_until_it_is_gone(opened: Open) -> None:
    client = opened()
    identifier = put(client, "ann").json()["document_id"]
    for _ in range(2):
        response = client.delete(f"/v1/documents/{identifier}", headers=bearer("ann"))
        assert (response.status_code, response.json()["status"]) == (202, "deleting")
    assert [one["status"] for one in listed(client, "ann")["documents"]] == ["deleting"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        ("a.gif", b"GIF89a\x00\x00"),
        ("a.pdf", b"not a PDF"),
        ("a.md", b"text\x00more"),
        ("a.unknown", b"words"),
        ("archive", b"\x1f\x8b\x08\x00\x00"),
    ],
)
def test_what_is_not_read_is_refused_with_what_is(opened: Open, name: str, content: bytes) -> None:
    client = opened()
    response = put(client, "ann", content, name)
    assert (response.status_code, response.json()["code"]) == (415, "MEDIA_TYPE")
    assert listed(client, "ann")["documents"] == []


def test_too_large_and_empty_files_are_refused(opened: Open, tmp_path: Path) -> None:
    client = opened(max_file_bytes=1000)
    assert put(client, "ann", b"x" * 1000, "a.txt").status_code == 202
    assert put(client, "ann", b"y" * 1001, "a.txt").status_code == 413
    assert put(client, "ann", b"y" * 3_000_000, "a.txt").status_code == 413
    assert put(client, "ann", b"", "a.txt").json()["code"] == "EMPTY"
    assert not list((inbox_of(tmp_path) / "incoming").iterdir())


def test_an_inbox_holds_so_many(opened: Open) -> None:
    client = opened(max_documents=2)
    assert [put(client, "ann", b"%d" % n, "a.txt").status_code for n in range(3)] == [202, 202, 409]
    first = listed(client, "ann")["documents"][0]["document_id"]
    assert put(client, "ann", b"replaced", "a.txt", document_id=first).status_code == 202


def test_a_tenant_without_an_inbox_says_so(opened: Open) -> None:
    client = opened()
    assert put(client, "foreign").json()["code"] == "NO_INBOX"
    assert listed(client, "foreign")["documents"] == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\x\\a\u202etxt.exe.md", "atxt.exe.md"),
        ("\u0000\u0007\u200b.md", "md"),
        ("x" * 10_000 + ".md", "x" * 197 + ".md"),
        ("a\r\nb.md", None),
        ("Große\u0301.md", "Groß\u00e9.md"),
    ],
)
def test_hostile_names_are_labels_only(opened: Open, tmp_path: Path, sent: str, kept: str | None) -> None:
    client = opened()
    body = form(b"hello", filename=sent.encode())
    response = client.post("/v1/documents", headers=form_headers("ann"), content=body)
    if kept is None:
        assert response.status_code == 400
        return
    assert response.status_code == 202, response.text
    (found,) = listed(client, "ann")["documents"]
    assert found["name"] == kept
    assert {path.name for path in inbox_of(tmp_path).rglob("*.json")} == {f"{found['document_id']}.json"}


def test_a_signed_in_editor_uploads_from_the_page_and_no_other_site_does(opened: Open) -> None:
    client = opened()
    own = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    csrf = client.post("/v1/session", json={"token": "ann"}, headers=own).json()["csrf"]
    sent = {"file": ("Leave.md", MARKDOWN)}
    assert client.post("/v1/documents", files=sent, headers=own).json()["code"] == "CSRF"
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "X-Citelock-CSRF": csrf}
    assert client.post("/v1/documents", files=sent, headers=foreign).status_code == 403
    assert client.post("/v1/documents", files=sent, headers={**own, "X-Citelock-CSRF": csrf}).status_code == 202
    answer = client.get("/v1/documents")
    assert [one["versions"][0]["uploaded_by"] for one in answer.json()["documents"]] == ["ann"]
    assert "no-store" in answer.headers["cache-control"]


def test_this_machine_uploads_without_tokens(tmp_path: Path) -> None:
    config = config_of(tmp_path, auth="loopback")
    client = TestClient(create_app(config), ADDRESS, client=LOCAL, raise_server_exceptions=False)
    sent = {"file": ("Leave.md", MARKDOWN)}
    assert client.post("/v1/documents", files=sent).json()["code"] == "TENANT"
    assert client.post("/v1/documents?tenant=acme", files=sent).status_code == 202
    (found,) = client.get("/v1/documents?tenant=acme").json()["documents"]
    assert found["readers"] == "everyone"
    assert client.get("/v1/documents?tenant=other").json()["documents"] == []


BOUNDARY = b"citelock"


def form(content: bytes, filename: bytes = b"a.md", more: bytes = b"") -> bytes:
    head = b'Content-Disposition: form-data; name="file"; filename="' + filename + b'"\r\n\r\n'
    return more + b"--" + BOUNDARY + b"\r\n" + head + content + b"\r\n--" + BOUNDARY + b"--\r\n"


def field(name: bytes, value: bytes) -> bytes:
    return b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="' + name + b'"\r\n\r\n' + value + b"\r\n"


def form_headers(token: str) -> dict[str, str]:
    return {**bearer(token), "Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}


WHOLE = form(b"hello")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form at all",
        WHOLE[:20],
        WHOLE[:-4],
        WHOLE[:-20],
        field(b"readers", b"everyone") * 2 + WHOLE,
        field(b"other", b"x") + WHOLE,
        field(b"readers", b"x" * (multipart.MAX_FIELD_BYTES + 1)) + WHOLE,
        field(b"source", b"x") * 10_000 + WHOLE,
        WHOLE[: -len(BOUNDARY) - 6] + WHOLE,
        WHOLE.replace(b"filename", b"fname"),
        WHOLE.replace(b"Content-Disposition", b"X-Y"),
        WHOLE.replace(b"\r\n\r\n", b"\r\n" + b"X: y\r\n" * 1000 + b"\r\n", 1),
        WHOLE.replace(b"a.md", b"a" * 40_000),
        b"\x00" * 100_000,
    ],
    ids=range(15),
)
def test_a_broken_form_is_refused_and_leaves_nothing(opened: Open, tmp_path: Path, body: bytes) -> None:
    client = opened()
    response = client.post("/v1/documents", headers=form_headers("ann"), content=body)
    assert response.status_code == 400, response.text
    assert listed(client, "ann")["documents"] == []
    assert not list(inbox_of(tmp_path).rglob("*.part"))


@pytest.mark.parametrize(
    ("content_type", "status"),
    [("application/json", 415), ("multipart/form-data", 400), ("multipart/form-data; boundary=" + "x" * 300, 400)],
)
def test_a_form_says_what_it_is(opened: Open, content_type: str, status: int) -> None:
    headers = {**bearer("ann"), "Content-Type": content_type}
    assert opened().post("/v1/documents", headers=headers, content=WHOLE).status_code == status


def inbox_of(home: Path, source: str = "uploads") -> Path:
    return Store(home).source(source) / "inbox"
