"""Pages of documents as pictures with the quote's rectangles, for those alone who may read all of the document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sources.pdf_writer import pdf
from support.api_client import bearer, client_with_tokens
from support.wiki import PASSAGES, Passage, publish_paged

from rag_serving.artifacts.store import Store
from rag_serving.rendering.worker import size_of

MOORING, SECOND, PAY = "Mooring lines are checked hourly.", "Cranes stop at twenty metres.", "The bonus is paid in May."
MANUAL, SALARIES, MIXED = pdf(MOORING, SECOND), pdf(PAY), pdf(MOORING, PAY)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everyone may read att1; att2 is group:hr's; of att3 the second page is."""
    folder = tmp_path_factory.mktemp("paged")
    passages = [
        Passage("att1", "Page 1", MOORING, title="manual.pdf"),
        Passage("att1", "Page 2", SECOND, title="manual.pdf", chunk_idx=1),
        Passage("att2", "Start", PAY, title="salaries.pdf", readers="group:hr"),
        Passage("att3", "Page 1", MOORING + " Always.", title="mixed.pdf"),
        Passage("att3", "Page 2", PAY + " Always.", title="mixed.pdf", chunk_idx=1, readers="group:hr"),
        PASSAGES[0],
    ]
    publish_paged(folder, passages, {"att1": MANUAL, "att2": SALARIES, "att3": MIXED})
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with client_with_tokens(home) as opened:
        yield opened


def get(client: TestClient, path: str, who: str = "all") -> Any:
    return client.get(f"/v1/pages/{path}", headers=bearer(who))


def test_a_page_of_a_document_is_a_picture_with_a_text_layer(client: TestClient) -> None:
    page = get(client, "att1").json()
    assert (page["media"], page["page_count"]) == ("pdf", 2)
    assert [section["anchor"] for section in page["sections"]] == ["page=1", "page=2"]
    answer = get(client, "att1/image?page=2&scale=1")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.headers["cache-control"] == "private, no-store"
    assert size_of(answer.content) == (612, 792)
    assert size_of(get(client, "att1/image").content) == (1224, 1584)
    layer = get(client, "att1/layer?page=2&quote=stop%20at%20twenty").json()
    assert (layer["page"], layer["width"], layer["height"]) == (2, 612, 792)
    assert [word[4] for word in layer["words"]] == SECOND.split()
    ((x0, y0, x1, y1),) = layer["boxes"]
    words = {word[4]: word[:4] for word in layer["words"]}
    assert (x0, x1) == (words["stop"][0], words["twenty"][2])
    assert 50 < y0 < y1 < 90  # the line stands 72 points below the top
    assert get(client, "att1/layer?page=2&quote=nowhere").json()["boxes"] == []
    passage = client.get("/v1/passages/att1:1:1", headers=bearer("all")).json()
    assert (passage["page_number"], passage["page"]["media"]) == (2, "pdf")


def test_a_document_of_one_page_has_no_page_in_its_anchors(client: TestClient) -> None:
    passage = client.get("/v1/passages/att2:1:0", headers=bearer("hr")).json()
    assert passage["page_number"] == 1
    asked = client.post("/v1/ask", json={"question": "When is the bonus paid?"}, headers=bearer("hr")).json()
    assert {one["page"] for one in asked["citations"] if one["page_id"] == "att2"} == {1}


@pytest.mark.parametrize("door", ["image", "layer"])
def test_what_is_hidden_or_absent_or_no_document_is_one_answer(client: TestClient, door: str) -> None:
    absent = get(client, f"nothing/{door}?page=1")
    assert absent.status_code == 404
    for path in (f"att2/{door}", f"att3/{door}", f"att3/{door}?page=2", f"11/{door}", f"att1/{door}?page=3"):
        refused = get(client, path)
        assert (refused.status_code, refused.content) == (404, absent.content)
        assert {**refused.headers, "date": ""} == {**absent.headers, "date": ""}
    assert get(client, f"att2/{door}", "hr").status_code == get(client, f"att3/{door}?page=2", "hr").status_code == 200
    assert client.get(f"/v1/pages/att1/{door}").status_code == 401


def test_of_a_document_that_is_hidden_in_part_the_rest_is_text(client: TestClient) -> None:
    page = get(client, "att3").json()
    assert (page["media"], page["page_count"], len(page["sections"])) == ("text", None, 1)
    assert get(client, "att3", "hr").json()["media"] == "pdf"


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=1&scale=4", "page=1&scale=0", "page=99999999999"])
def test_what_cannot_be_asked_is_refused(client: TestClient, query: str) -> None:
    assert get(client, f"att1/image?{query}").status_code == 400


def test_a_quote_has_a_bound_and_may_be_hostile(client: TestClient) -> None:
    assert client.get("/v1/pages/att1/layer", params={"quote": "a" * 2001}, headers=bearer("all")).status_code == 400
    for quote in ("\x00", "%s" * 300, "<script>alert(1)</script>", "\u202e\ufdfa" * 500):
        asked = client.get("/v1/pages/att1/layer", params={"quote": quote}, headers=bearer("all"))
        assert (asked.status_code, asked.json()["boxes"]) == (200, [])


def test_without_the_renderer_it_says_what_to_install(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_serving.rendering.pictures.find_spec", lambda _: None)
    refused = get(client, "att1/image?page=1&scale=3")
    assert (refused.status_code, refused.json()["code"]) == (501, "NOT_INSTALLED")
    assert "citelock[pdf]" in refused.json()["message"]


def test_an_altered_file_is_not_shown(client: TestClient, home: Path) -> None:
    for path in Store(home).originals("acme").iterdir():
        content = path.read_bytes()
        if b"twenty" in content:
            path.write_bytes(content.replace(b"twenty", b"thirty"))
            refused = get(client, "att1/image?page=1&scale=3")
            path.write_bytes(content)
    assert (refused.status_code, refused.json()["code"]) == (503, "UNAVAILABLE")
    assert str(home) not in refused.text
