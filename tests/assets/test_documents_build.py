"""Uploads through the whole of it: HTTP, build, question, citation, replacing, deleting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from fastapi.testclient import TestClient
from sources.pdf_writer import pdf
from support.api_client import ADDRESS, LOCAL, bearer
from support.building import build, build_json
from support.envelopes import Wiki
from support.project import QUIET, Project

from rag_assets.publishing.arrange import BuildError
from rag_assets.publishing.documents import STOPPED
from rag_assets.runs import run_config
from rag_assets.sensors import ingest_uploads
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config

TOKENS = {
    "ann": {"tenant": "demo", "user": "ann", "groups": ["hr"], "roles": ["reader", "editor"]},
    "bob": {"tenant": "demo", "user": "bob", "roles": ["reader", "editor"]},
}
LEAVE = (
    b"# Leave\n\nRegular employees get thirty days of paid leave a year.\n\n"
    b"## Sabbatical\n\nA sabbatical lasts six months at most.\n"
)
MANUAL = pdf("The pump manual names its parts.", "Replace the pressure valve every 400 hours of operation.")


class Place:
    """A home with an inbox beside a small wiki, and a server over it."""

    def __init__(self, folder: Path) -> None:
        self.wiki = Wiki(folder)
        sources = {"eng": self.wiki.source("eng"), "uploads": {"kind": "files", "tenant": "demo"}}
        self.wiki.configure(sources=sources, serving={"auth": "tokens"})
        self.client = TestClient(create_app(load_config(self.wiki.config_path)), ADDRESS, client=LOCAL)

    def put(self, token: str, name: str, content: bytes, **fields: str) -> str:
        sent = {"file": (name, content)}
        response = self.client.post("/v1/documents", headers=bearer(token), files=sent, data=fields)
        assert response.status_code == 202, response.text
        return str(response.json()["document_id"])

    def shown(self, token: str, identifier: str) -> dict[str, Any]:
        return dict(self.client.get(f"/v1/documents/{identifier}", headers=bearer(token)).json())

    def ask(self, token: str, question: str) -> dict[str, Any]:
        response = self.client.post("/v1/ask", headers=bearer(token), json={"question": question})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def cited(self, token: str, question: str) -> set[str]:
        return {citation["chunk_id"].split(":")[0] for citation in self.ask(token, question)["citations"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    return Place(tmp_path)


VALVE = "How often is the pressure valve replaced?"
SABBATICAL = "How long does a sabbatical last?"


def test_an_upload_is_built_asked_cited_replaced_and_deleted(place: Place) -> None:
    leave = place.put("ann", "Leave.md", LEAVE, readers='["group:hr"]')
    manual = place.put("bob", "Pump manual.pdf", MANUAL, readers="everyone")
    broken = place.put("bob", "broken.pdf", b"%PDF-1.4 nothing else", readers="everyone")
    summary = build_json(place.wiki)
    assert summary["sources"]["uploads"]["pages_failed"] == 1

    shown = place.shown("ann", leave)
    assert (shown["status"], shown["page_id"]) == ("published", leave)
    failed = place.shown("bob", broken)
    assert (failed["status"], failed["page_id"]) == ("failed", None)
    assert "PDF" in failed["reason"]

    (citation,) = [c for c in place.ask("bob", VALVE)["citations"] if c["chunk_id"].startswith(manual)]
    assert citation["url"] == f"/p/{manual}#page=2"
    assert citation["page"] == 2
    shown = place.client.get(f"/v1/pages/{manual}", headers=bearer("bob")).json()
    assert (shown["kind"], shown["title"], shown["source"]) == ("document", "Pump manual", "uploads")
    assert place.client.get(f"/v1/pages/{leave}", headers=bearer("bob")).status_code == 404
    assert citation["quote"] in "Replace the pressure valve every 400 hours of operation."
    (citation,) = [c for c in place.ask("ann", SABBATICAL)["citations"] if c["chunk_id"].startswith(leave)]
    assert citation["url"] == f"/p/{leave}#sabbatical"
    assert leave not in place.cited("bob", SABBATICAL)

    replaced = LEAVE.replace(b"six months", b"nine months")
    assert place.put("ann", "Leave.md", replaced, document_id=leave) == leave
    waiting = place.shown("ann", leave)
    assert (waiting["status"], waiting["version"], waiting["page_id"]) == ("received", 2, leave)
    build(place.wiki)
    assert place.shown("ann", leave)["status"] == "published"
    assert "nine months" in place.ask("ann", SABBATICAL)["answer"]

    place.client.delete(f"/v1/documents/{leave}", headers=bearer("ann"))
    assert place.shown("ann", leave)["status"] == "deleting"
    build(place.wiki)
    gone = place.client.get(f"/v1/documents/{leave}", headers=bearer("ann"))
    assert gone.status_code == 410
    assert len(gone.json()["sha256"]) == 2
    assert Store(place.wiki.home).current("demo") == gone.json()["generation"] not in gone.json()["kept_in"]
    assert place.client.get(f"/v1/documents/{leave}", headers=bearer("bob")).status_code == 404
    assert leave not in place.cited("ann", SABBATICAL)
    kept = {path.name for path in (place.wiki.home / "sources/uploads/inbox/contents").iterdir()}
    assert len(kept) == 2


def test_what_is_deleted_before_a_build_is_never_shown_and_an_inbox_without_a_document_builds(place: Place) -> None:
    leave = place.put("ann", "Leave.md", LEAVE)
    place.client.delete(f"/v1/documents/{leave}", headers=bearer("ann"))
    assert build_json(place.wiki)["sources"]["uploads"]["pages_seen"] == 0
    assert place.client.get(f"/v1/documents/{leave}", headers=bearer("ann")).status_code == 410


def test_the_last_document_of_a_tenant_can_be_deleted(place: Place) -> None:
    place.wiki.configure(sources={"uploads": {"kind": "files", "tenant": "demo"}}, serving={"auth": "tokens"})
    only = place.put("ann", "Leave.md", LEAVE)
    build(place.wiki)
    assert place.cited("ann", SABBATICAL) == {only}
    place.client.delete(f"/v1/documents/{only}", headers=bearer("ann"))
    build(place.wiki)
    assert place.cited("ann", SABBATICAL) == set()
    assert place.client.get(f"/v1/documents/{only}", headers=bearer("ann")).status_code == 410


def test_the_sensor_starts_one_ingest_for_what_is_new(place: Place) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        project = Project(place.wiki, instance)

        def wanted() -> list[str]:
            result = ingest_uploads(project.sensor_context(), installation=project.installation)
            assert isinstance(result, dg.SensorResult)
            return [str(request.run_key) for request in result.run_requests or ()]

        assert wanted() == []
        leave = place.put("ann", "Leave.md", LEAVE)
        (first,) = wanted()
        assert wanted() == [first]  # Dagster starts no run of the same key twice
        job = project.defs.resolve_job_def("add_documents")
        settings = {**run_config("uploads"), **QUIET}
        assert job.execute_in_process(run_config=settings, instance=instance).success
        assert place.shown("ann", leave)["status"] == "published"
        assert wanted() == []
        place.client.delete(f"/v1/documents/{leave}", headers=bearer("ann"))
        (second,) = wanted()
        assert second != first
        assert job.execute_in_process(run_config=settings, instance=instance).success
        assert wanted() == []


def test_a_build_that_is_not_published_is_told_without_its_reasons(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = place.put("ann", "Leave.md", LEAVE)

    def fails(*_: object, **__: object) -> None:
        raise BuildError("page 101 “Salaries” is in the way")

    with monkeypatch.context() as patch:
        patch.setattr("rag_assets.making.generations.commit_generation", fails)
        build(place.wiki, code=1)
    shown = place.shown("ann", leave)
    assert (shown["status"], shown["page_id"]) == ("embedding", None)
    assert shown["reason"] == STOPPED
    build(place.wiki)
    shown = place.shown("ann", leave)
    assert (shown["status"], shown["reason"]) == ("published", None)
