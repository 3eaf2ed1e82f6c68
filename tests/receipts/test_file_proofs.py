"""A quote of a scanned file is told with its page, its rectangles and what OCR thought of it, and proved against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sources.pdf_writer import pdf
from support.api_client import TOKENS, bearer, client_of
from support.paged_chunks import chunks_of_page, page_row
from support.wiki import PASSAGES, Passage, publish_paged

from rag_assets.steps.formats.blocks import Block
from rag_serving.artifacts.store import Store
from rag_serving.rendering import cited

INTRO = "The pilot boat waits at buoy nine before every storm."
MOORING = "Mooring lines are checked every forty minutes of the night."
CRANES = "The cranes of berth seven stop at a wind of twenty metres."
PAY = "The harbour bonus is paid in May."
RECEIVED = "ab" * 32
ASKED = {"mooring": "How often are mooring lines checked?", "cranes": "At what wind do the cranes stop?"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """att1 was scanned, its second and third page are one section; a page of att2 is group:hr's."""
    folder = tmp_path_factory.mktemp("scanned")
    blocks = [
        Block("heading", "Mooring and cranes", level=1, anchors=("page=2",), page=2),
        Block("paragraph", MOORING, page=2, confidence=93),
        Block("paragraph", CRANES, page=3, confidence=63),
    ]
    (row,) = chunks_of_page(page_row(blocks, "att1"))
    passages = [
        Passage("att1", "Page 2", row["text"], title="manual.pdf", structure=row["structure"]),
        Passage("att2", "Page 1", INTRO, title="mixed.pdf"),
        Passage("att2", "Page 2", PAY, title="mixed.pdf", chunk_idx=1, readers="group:hr"),
        *PASSAGES[:2],
    ]
    files = {"att1": pdf(INTRO, MOORING, CRANES, numbered="r"), "att2": pdf(INTRO, PAY)}
    publish_paged(folder, passages, files, RECEIVED)
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", TOKENS)
        patch.setattr(cited, "WAIT_S", 20)
        patch.setattr(cited.CitedPlaces.__init__, "__defaults__", (20.0,))
        more = {"serving": {"auth": "tokens"}, "tenants": {"acme": {}, "other": {}}}
        with client_of(home, **more) as opened:
            yield opened


def ask(client: TestClient, question: str, who: str = "all") -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/v1/ask", json={"question": question}, headers=bearer(who)).json()
    return answer


def verified(client: TestClient, answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.post(f"/v1/receipts/{answer['receipt_id']}/verify", headers=bearer("all")).json()
    return found


def test_a_quote_says_its_page_its_rectangles_and_that_ocr_read_it(client: TestClient) -> None:
    answer = ask(client, ASKED["mooring"])
    citation = answer["citations"][0]
    assert answer["outcome"] == "told"
    assert (citation["page"], citation["page_label"]) == (2, "ii")
    assert (citation["verification"], citation["ocr_confidence"]) == ("ocr", 93)
    assert citation["url"].endswith("#page=2")
    assert [len(box) for box in citation["boxes"]] == [4]
    assert "ocr_quote" in answer["flags"]
    assert "low_ocr_confidence" not in answer["flags"]


def test_what_ocr_was_not_sure_of_is_no_answer(client: TestClient) -> None:
    answer = ask(client, ASKED["cranes"])
    citation = next(one for one in answer["citations"] if "cranes" in one["quote"])
    assert (citation["page"], citation["page_label"], citation["ocr_confidence"]) == (3, "iii", 63)
    assert citation["url"].endswith("#page=3")
    assert answer["outcome"] == "closest"
    assert (answer["refusal"]["gate"], answer["refusal"]["value"]) == ("ocr", 63)
    assert {"closest_passage", "low_ocr_confidence"} <= {*answer["flags"]}


def test_a_receipt_proves_the_quote_against_page_and_file(client: TestClient) -> None:
    proof = verified(client, ask(client, ASKED["mooring"]))
    assert proof["valid"]
    (line,) = proof["proved"]
    assert line.startswith("citation [1]: the quote stands in the stored text of page 2 (ii), read by OCR, 93 %; ")
    assert line.endswith(f"made searchable from one with SHA-256 {RECEIVED}")
    assert {check["name"] for check in proof["checks"]} >= {"file", "quote"}


def test_what_not_everybody_may_read_all_of_tells_no_rectangles(client: TestClient) -> None:
    (mine,) = ask(client, "Where does the pilot boat wait before a storm?")["citations"][:1]
    assert (mine["page_id"], mine["page"], mine["boxes"], mine["page_label"]) == ("att2", 1, None, None)
    theirs = ask(client, "Where does the pilot boat wait before a storm?", "hr")["citations"][0]
    assert theirs["boxes"]


def test_a_receipt_fails_with_its_file(client: TestClient, home: Path) -> None:
    answer = ask(client, ASKED["mooring"])
    receipt = client.get(f"/v1/receipts/{answer['receipt_id']}", headers=bearer("all")).json()
    file = receipt["passages"][0]["file"]
    assert file["received_sha256"] == RECEIVED
    assert json.dumps(receipt).count(file["sha256"]) == 1
    path = Store(home).originals("acme") / file["sha256"]
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    try:
        proof = verified(client, answer)
        assert not proof["valid"]
        assert proof["faults"] == ["file [1]: it is missing or was altered"]
        assert proof["proved"] == []
        assert [check["ok"] for check in proof["checks"] if check["name"] == "file"] == [False]
    finally:
        path.write_bytes(content)
