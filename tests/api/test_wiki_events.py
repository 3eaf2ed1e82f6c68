"""The hook of wikis: who may tell of events, what is noted of them, and that its replies tell nothing."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from support.api_client import bearer, client_of

from rag_serving.api.hooks import ids_in
from rag_serving.artifacts.store import Store
from rag_serving.documents.noted import EVERYTHING, MOST, NotedPages

SECRET = "a secret that the wiki shares"
WIKI = {"kind": "confluence", "tenant": "acme", "base_url": "https://wiki.example"}
SOURCES = {
    "eng": {**WIKI, "space": "ENG", "webhook": {"secret_env": "HOOK_OF_ENG"}},
    "ops": {**WIKI, "space": "OPS", "webhook": {"secret_env": "HOOK_OF_OPS"}},
    "unset": {**WIKI, "space": "SRE", "webhook": {"secret_env": "HOOK_THAT_IS_NOT_SET"}},
    "deaf": {**WIKI, "space": "HQ"},
    "files": {"kind": "files", "tenant": "acme"},
}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("HOOK_OF_ENG", SECRET)
    monkeypatch.setenv("HOOK_OF_OPS", "another secret")
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"own": {"tenant": "acme"}}))
    with client_of(tmp_path, sources=SOURCES, serving={"auth": "tokens"}) as opened:
        yield opened


def event(page_id: int, name: str = "page_updated", age_s: float = 0) -> bytes:
    """An event as Data Center sends it."""
    page = {"id": page_id, "idAsString": str(page_id), "spaceKey": "ENG", "title": "Salaries", "version": 3}
    content = {"timestamp": int((time.time() - age_s) * 1000), "event": name, "userKey": "ff8080", "page": page}
    return json.dumps(content).encode()


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Hub-Signature": f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}"}


def sent(client: TestClient, body: bytes, headers: dict[str, str], source: str = "eng") -> Response:
    return client.post(f"/v1/hooks/confluence/{source}", content=body, headers=headers)


def noted(tmp_path: Path, source: str = "eng") -> frozenset[str]:
    return NotedPages(Store(tmp_path).source(source)).take()


def seen(response: Response) -> tuple[Any, ...]:
    return response.status_code, response.content, sorted(response.headers.items())


def test_signed_events_are_noted_by_page_and_once(client: TestClient, tmp_path: Path) -> None:
    for body in (event(1), event(2, "page_trashed"), event(1)):
        assert sent(client, body, signed(body)).status_code == 202
    of_automation = b'{"page": {"id": "3"}}'
    assert sent(client, of_automation, {"X-Citelock-Token": SECRET}).status_code == 202
    assert noted(tmp_path) == {"1", "2", "3"}
    assert noted(tmp_path, "ops") == frozenset()


def test_who_does_not_know_the_secret_is_refused_and_all_refusals_are_the_same(
    client: TestClient, tmp_path: Path
) -> None:
    body = event(1)
    attempts = [
        ("eng", {}),
        ("eng", bearer("own")),  # a reader is nobody here
        ("eng", signed(body, "another secret")),
        ("eng", signed(event(2))),
        ("eng", {"X-Hub-Signature": ""}),
        ("eng", {"X-Hub-Signature": "sha256="}),
        ("eng", {"X-Hub-Signature": "sha256=é".encode("latin-1").decode("latin-1")}),
        ("eng", {"X-Citelock-Token": ""}),
        ("eng", {"X-Citelock-Token": SECRET + "x"}),
        ("unset", signed(body, "")),
        ("unset", {"X-Citelock-Token": ""}),
        ("deaf", signed(body)),
        ("deaf", {"X-Citelock-Token": ""}),
        ("files", signed(body)),
        ("nothing-of-the-kind", signed(body)),
    ]
    answers = [
        client.post(
            f"/v1/hooks/confluence/{source}",
            content=body,
            headers=[(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        )
        for source, headers in attempts
    ]
    bodies = {(each.status_code, each.content) for each in answers}
    assert [status for status, _ in bodies] == [401], [(each.status_code, each.text) for each in answers]
    assert b"\n" not in answers[0].content
    assert seen(answers[2]) == seen(answers[-1])  # a wrong signature, and a source that is not there
    old = event(1, age_s=301)
    assert seen(sent(client, old, signed(old))) == seen(answers[2])
    early = event(1, age_s=-301)
    assert seen(sent(client, early, signed(early))) == seen(answers[2])
    for source in SOURCES:
        assert noted(tmp_path, source) == frozenset()


def test_a_reply_does_not_tell_whether_a_page_is_there(client: TestClient) -> None:
    bodies = [event(1), event(99_999_999), b"", b"{", b"[]", json.dumps({"page": {"id": "../../x"}}).encode()]
    assert len({str(seen(sent(client, body, signed(body)))) for body in bodies}) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, b'{"event": "space_permissions_updated", "space": {"key": "ENG"}}', b'{"id": "../x"}'],
)
def test_what_names_no_page_is_of_the_whole_space(client: TestClient, tmp_path: Path, body: bytes) -> None:
    assert sent(client, body, signed(body)).status_code == 202
    assert noted(tmp_path) == {EVERYTHING}


def test_numbers_beyond_all_bounds_are_no_fault(client: TestClient) -> None:
    for when in ("1" * 400, "1e999", "-1e999", "NaN", "1e300"):
        body = b'{"timestamp": %s, "page": {"id": 1}}' % when.encode()
        assert sent(client, body, signed(body)).status_code == 401
    body = b'{"timestamp": "%d", "page": {"id": %s}}' % (time.time(), b"1" * 400)
    assert sent(client, body, signed(body)).status_code == 202


def test_a_body_has_a_bound_and_that_of_no_event_is_not_read(client: TestClient) -> None:
    body = b'{"page": {"id": 1, "title": "%s"}}' % (b"x" * 1_000_000)
    assert sent(client, body, signed(body)).status_code == 413
    refused = sent(client, event(1), {})
    assert (refused.status_code, refused.headers["connection"]) == (401, "close")


def test_ids_of_comments_files_and_moves_are_found_wherever_they_stand() -> None:
    assert ids_in({"comment": {"id": 9, "parent": {"idAsString": "4"}}}) == {"9", "4"}
    assert ids_in({"attachments": [{"id": "7"}], "attachedTo": {"id": 5}}) == {"7", "5"}
    assert ids_in({"page": {"id": 1}, "oldParent": {"id": 2}, "newParent": {"id": 3}}) == {"1", "2", "3"}
    assert ids_in({"id": True, "pageId": -1, "contentId": "1.5", "idAsString": "１２"}) == set()


def test_a_storm_is_one_note_and_what_was_taken_is_not_forgotten_before_it_is_read(tmp_path: Path) -> None:
    notes = NotedPages(tmp_path)
    assert (notes.mark(), notes.take(), notes.stamp()) == (None, frozenset(), 0)
    for number in range(MOST):
        notes.note({str(number)})
    assert len(notes.take()) == MOST
    assert len(NotedPages(tmp_path).take()) == MOST  # as another process that takes them up
    marked = notes.mark()
    assert marked is not None
    assert marked.startswith("1000 pages noted ")
    notes.note({"5"})
    assert notes.mark() != marked
    notes.note({"5000"})
    assert notes.take() == {EVERYTHING}
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [EVERYTHING]
    notes.forget()
    assert notes.mark() is None
    for number in range(MOST + 100):
        notes.note({str(number)})
    assert sum(file.is_file() for file in tmp_path.rglob("*")) == MOST + 1
    assert notes.take() == {EVERYTHING}
