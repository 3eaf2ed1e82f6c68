"""Pages, passages and filters over HTTP: what the caller may read, in blocks, and one answer for all else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, bearer, client_with_tokens
from support.wiki import PASSAGES, Passage, publish

LONG = "`code` of [a page](https://example.org/x) <script>alert(1)</script> for all."
HIDDEN = "Only for human resources: the plan."


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page 11 has a second and, for group:hr alone, a third passage; the text of page 12 stands on 71 and 72, too."""
    folder = tmp_path_factory.mktemp("pages")
    twin = replace(PASSAGES[1], places=(("71", "ARCHIVE", "everyone"), ("72", "PEOPLE", "group:hr")))
    more = [
        Passage("11", "Second", LONG, chunk_idx=1),
        Passage("11", "Third", HIDDEN, chunk_idx=1_000_000, readers="group:hr"),
        Passage("docs/a b", "Start", "A page of a folder."),
    ]
    publish(folder, [PASSAGES[0], twin, *PASSAGES[2:], *more])
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with client_with_tokens(home) as opened:
        yield opened


def get(client: TestClient, path: str, who: str = "all") -> Any:
    return client.get(f"/v1/{path}", headers=bearer(who))


def test_a_page_has_its_sections_in_order_with_what_the_caller_may_read(client: TestClient) -> None:
    page = get(client, "pages/11").json()
    assert (page["page_id"], page["title"], page["url"]) == ("11", "Kafka operations", "https://wiki.example/pages/11")
    assert (page["space"], page["source"], page["kind"], page["media"]) == ("OPS", "ops", "page", "text")
    assert (page["version"], page["updated_at"], page["page_count"]) == (1, "2026-01-01T00:00:00+00:00", None)
    assert [section["heading"] for section in page["sections"]] == ["Restarting a broker", "Second"]
    first, second = page["sections"]
    assert first["heading_path"] == ["Kafka operations", "Restarting a broker"]
    assert (first["anchor"], first["level"]) == ("Restarting-a-broker", 1)
    (chunk,) = second["chunks"]
    assert (chunk["chunk_id"], chunk["text"], chunk["missing"]) == ("11:1:1", LONG, None)
    (block,) = chunk["blocks"]
    assert (block["kind"], block["start"], block["end"]) == ("paragraph", 0, len(LONG))
    assert [(run["style"], LONG[run["start"] : run["end"]]) for run in block["runs"]] == [
        ("code", "code"),
        ("link", "a page"),
    ]
    assert [section["heading"] for section in get(client, "pages/11", "hr").json()["sections"]][-1] == "Third"
    assert HIDDEN not in get(client, "pages/11").text


def test_a_passage_that_was_dropped_is_a_pointer_to_the_kept_one(client: TestClient) -> None:
    page = get(client, "pages/71").json()
    (section,) = page["sections"]
    (chunk,) = section["chunks"]
    assert (page["space"], page["labels"], chunk["text"], chunk["blocks"]) == ("ARCHIVE", ["copy"], "", [])
    assert section["heading_path"] == ["Kafka operations", "Log retention"]
    assert chunk["missing"]["page_id"] == "12"
    assert chunk["missing"]["url"] == "https://wiki.example/pages/12#Log-retention"
    assert get(client, f"passages/{chunk['missing']['chunk_id']}").status_code == 200
    assert get(client, "pages/72", "hr").json()["sections"]


@pytest.mark.parametrize(
    ("hidden", "absent"),
    [
        ("pages/14", "pages/99"),
        ("pages/72", "pages/" + "x" * 4000),
        ("passages/14:1:0", "passages/9:1:0"),
        ("passages/11:1:1000000", "passages/nothing"),
        ("passages/71:1:0", "passages/%00"),
    ],
)
def test_what_is_hidden_and_what_is_absent_are_one_answer(client: TestClient, hidden: str, absent: str) -> None:
    one, other = get(client, hidden), get(client, absent)
    assert one.status_code == other.status_code == 404
    assert one.json() == other.json()
    assert {**one.headers, "date": ""} == {**other.headers, "date": ""}


def test_a_passage_has_its_surroundings(client: TestClient) -> None:
    passage = get(client, "passages/12:1:0").json()
    assert passage["chunk"]["text"] == PASSAGES[1].text
    assert passage["page"]["page_id"] == "12"
    assert (passage["anchor"], passage["page_number"]) == ("Log-retention", None)
    assert passage["also_at"] == [
        {
            "title": "Kafka operations → Log retention",
            "url": "https://wiki.example/pages/71#Log-retention",
            "space": "ARCHIVE",
        }
    ]
    assert len(get(client, "passages/12:1:0", "hr").json()["also_at"]) == 2


def test_examples_of_questions_are_made_of_pages_that_the_caller_may_read(client: TestClient) -> None:
    examples, more = (get(client, "filters", who).json()["examples"] for who in ("all", "hr"))
    assert 1 <= len(examples) <= 3
    assert not any("Salaries" in example or "Compensation" in example for example in examples)
    assert more


def test_filters_are_those_of_what_the_caller_may_read(client: TestClient) -> None:
    told = get(client, "filters").json()
    assert {one["key"] for one in told["spaces"]} == {"OPS", "SRE", "HQ", "ARCHIVE"}
    assert {"name": "copy", "count": 1} in told["labels"]
    assert told["kinds"] == [{"kind": "page", "count": 7}]
    more = get(client, "filters", "hr").json()
    assert {one["key"] for one in more["spaces"]} == {"OPS", "SRE", "HQ", "ARCHIVE", "HR", "PEOPLE"}
    assert more["kinds"] == [{"kind": "page", "count": 9}]


def test_a_search_is_narrowed_by_source_and_kind(client: TestClient) -> None:
    def found(filters: dict[str, Any]) -> int:
        asked = client.post("/v1/search", json={"query": "broker logs", "filters": filters}, headers=bearer("all"))
        return len(asked.json()["results"])

    assert found({"source": "ops", "kind": ["page"]}) == found({}) > 0
    assert found({"source": "none"}) == found({"kind": "document"}) == 0
    assert found({"label": "config"}) == found({"labels": ["config"]}) == 1


def test_no_cache_keeps_what_depends_on_the_caller(client: TestClient) -> None:
    for path in ("pages/11", "passages/12:1:0", "filters"):
        headers = get(client, path).headers
        assert headers["cache-control"] == "private, no-store"
        assert {"Authorization", "Cookie"} <= {name.strip() for name in headers["vary"].split(",")}


def test_nobody_reads_without_a_token_and_another_tenant_has_nothing(client: TestClient) -> None:
    for path in ("pages/11", "passages/12:1:0", "filters"):
        assert client.get(f"/v1/{path}").status_code == 401
        assert get(client, path, "o").status_code == 503  # nothing is published there


def test_an_id_may_have_slashes_and_spaces(client: TestClient) -> None:
    page = get(client, "pages/docs%2Fa%20b").json()
    assert page["page_id"] == "docs/a b"
    assert get(client, f"passages/{page['sections'][0]['chunks'][0]['chunk_id']}").status_code == 200


def test_a_citation_says_where_it_can_be_read(client: TestClient) -> None:
    asked = client.post("/v1/ask", json=QUESTION, headers=bearer("all")).json()
    citation = asked["citations"][0]
    assert (citation["page_id"], citation["source"], citation["page"]) == ("11", "ops", None)
    assert citation["updated_at"] == "2026-01-01T00:00:00+00:00"
    shown = get(client, f"passages/{citation['chunk_id']}").json()["chunk"]["text"]
    assert shown[citation["start"] : citation["end"]] == citation["quote"]
