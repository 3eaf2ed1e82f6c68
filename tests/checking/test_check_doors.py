"""A text is checked over HTTP, in a terminal and over MCP, as whoever asks may read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.api_client import bearer, client_of, client_with_tokens
from support.command_line import CITELOCK, run, write_config

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.checking import report
from rag_serving.config.loading import load_config
from rag_serving.receipts.faults import difference_faults

DRAFT = """# Ops notes

Good morning. Each broker keeps logs for 72 hours by default.
You must not restart a broker while partitions are under‑replicated.

- The moon is made of **cheese** and was sold to Norway.

| Setting | Default |
| --- | --- |
| max.poll.records | 500 |

Is that all?
"""
VERDICTS = ["no_claim", "no_claim", "otherwise", "verbatim", "absent", "no_claim", "verbatim", "no_claim"]
SALARY = "The broker team earns a salary bonus of 9,000 euros in December."


@pytest.fixture(scope="module")
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


def test_each_claim_has_its_place_its_verdict_and_what_the_page_says(client: TestClient) -> None:
    response = client.post("/v1/check", json={"text": DRAFT})
    checked = response.json()
    assert response.status_code == 200
    assert [claim["verdict"] for claim in checked["claims"]] == VERDICTS
    assert all(DRAFT[claim["start"] : claim["end"]] == claim["text"] for claim in checked["claims"])
    other = checked["claims"][2]
    assert other["page_says"] == "Each broker keeps logs for 168 hours by default."
    assert other["citation"]["page_id"] == "12"
    assert other["citation"]["url"].partition("#")[2]
    assert "citation" not in checked["claims"][4]
    assert checked["summary"] == {"verbatim": 2, "otherwise": 1, "closest": 0, "absent": 1, "no_claim": 4}


def test_its_receipt_proves_what_was_quoted(client: TestClient) -> None:
    checked = client.post("/v1/check", json={"answer": DRAFT}).json()
    proof = client.post(f"/v1/receipts/{checked['receipt_id']}/verify").json()
    assert proof["valid"] is True
    receipt = client.get(f"/v1/receipts/{checked['receipt_id']}").json()
    assert [verdict["support"] for verdict in receipt["verdicts"]] == ["quoted", "verbatim", "verbatim"]
    (values,) = receipt["differences"]
    assert (values["claim"]["said"], values["page"]["said"], values["kind"]) == ("72 hours", "168 hours", "time")
    for forged in ({**values, "kind": "size"}, {**values, "page": {**values["page"], "said": "72 hours"}}):
        (fault,) = difference_faults({**receipt, "differences": [forged]})
        assert "are no values of it that differ" in fault
    assert not [*difference_faults(receipt)]


def test_the_quotes_of_an_answer_are_looked_for_and_not_believed(client: TestClient) -> None:
    said = ["keeps logs for 168 hours by default", "keeps logs for 72 hours by default", "the moon was sold to Norway"]
    body = {"answer": DRAFT, "citations": [{"quote": quote, "url": "https://elsewhere.example"} for quote in said]}
    checked = client.post("/v1/check", json=body).json()
    assert [(each["quote"], each["verdict"]) for each in checked["quotes"]] == [
        (said[0], "verbatim"), (said[1], "absent"), (said[2], "absent"),
    ]  # fmt: skip
    assert checked["quotes"][0]["citation"]["page_id"] == "12"
    assert [claim["verdict"] for claim in checked["claims"]] == VERDICTS
    assert client.post(f"/v1/receipts/{checked['receipt_id']}/verify").json()["valid"] is True
    assert client.post("/v1/check", json={"answer": DRAFT, "citations": [{"url": "x"}]}).status_code == 400


def test_filters_narrow_what_a_text_is_compared_with(client: TestClient) -> None:
    body = {"text": DRAFT, "filters": {"space": ["HQ"]}}
    assert client.post("/v1/check", json=body).json()["summary"]["otherwise"] == 0


@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": "a", "answer": "b"}, {"text": "a\0"}, {"text": "x", "more": 1}, {"text": 1}]
)
def test_a_body_that_is_none_is_refused_in_one_line(client: TestClient, body: dict[str, object]) -> None:
    response = client.post("/v1/check", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")


def test_who_may_not_read_a_page_is_not_told_what_it_contradicts(wiki_home: Path) -> None:
    with client_with_tokens(wiki_home) as secured:
        found = {
            token: secured.post("/v1/check", json={"text": SALARY}, headers=bearer(token)).json()
            for token in ("all", "hr")
        }
        assert secured.post("/v1/check", json={"text": SALARY}).status_code == 401
    assert found["hr"]["summary"]["otherwise"] == 1
    assert found["all"]["summary"]["otherwise"] == 0
    assert "4,000" not in json.dumps(found["all"])


def test_in_a_terminal_a_contradiction_ends_with_1(wiki_home: Path, tmp_path: Path) -> None:
    (draft := tmp_path / "draft.md").write_text(DRAFT, encoding="utf-8")
    config = write_config(tmp_path, wiki_home)
    done = subprocess.run(
        [*CITELOCK, "check", str(draft), "--config", config], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert f"{draft}:3:15: the page says otherwise: Each broker keeps logs for 72 hours by default." in done.stdout
    assert "page: Each broker keeps logs for 168 hours by default." in done.stdout
    assert "4 claims: 2 word for word, 1 the page says otherwise, 0 closest, 1 not in the pages" in done.stdout


def test_what_fails_is_chosen(wiki_home: Path, tmp_path: Path) -> None:
    (draft := tmp_path / "draft.md").write_text("The moon is made of cheese.\n", encoding="utf-8")
    config = write_config(tmp_path, wiki_home)
    check = ("check", str(draft), "--config", config)
    assert run(*check)[0] == 0
    assert run(*check, "--fail-on", "absent")[0] == 1
    assert run(*check, "--fail-on", "absent", "--fail-on", "never", "--format", "markdown")[0] == 1
    assert run(*check, "--fail-on", "never")[0] == 0
    assert run(*check, "--fail-on", "anything")[0] == 2
    assert run("check", str(tmp_path / "none.md"), "--config", config)[0] == 2
    (tmp_path / "picture.md").write_bytes(b"\xff\xd8\xff")
    assert run("check", str(tmp_path / "picture.md"), "--config", config)[0] == 2


def test_a_long_text_is_checked_with_progress(wiki_home: Path, tmp_path: Path) -> None:
    (draft := tmp_path / "long.md").write_text(DRAFT.replace("moon", "sun") * 400, encoding="utf-8")
    code, out, err = run("check", str(draft), "--config", write_config(tmp_path, wiki_home), "--format", "json")
    assert code == 1
    assert json.loads(out)["summary"] == {
        "verbatim": 800, "otherwise": 400, "closest": 0, "absent": 400, "no_claim": 1600,
    }  # fmt: skip
    assert "citelock: 0 of 1600 claims" in err
    assert "citelock: 1000 of 1600 claims" in err


def test_sarif_names_rule_level_line_and_column(wiki_home: Path, tmp_path: Path) -> None:
    (draft := tmp_path / "my draft.md").write_text(DRAFT, encoding="utf-8")
    out = run("check", str(draft), "--config", write_config(tmp_path, wiki_home), "--format", "sarif")[1]
    log = json.loads(out)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    driver, results = log["runs"][0]["tool"]["driver"], log["runs"][0]["results"]
    assert {result["ruleId"] for result in results} <= {rule["id"] for rule in driver["rules"]}
    assert [(result["ruleId"], result["level"]) for result in results] == [
        ("otherwise", "error"),
        ("absent", "warning"),
    ]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 3, "startColumn": 15, "endLine": 3, "endColumn": 62}
    assert place["artifactLocation"]["uri"].endswith("my%20draft.md")
    assert "168 hours" in results[0]["message"]["text"]


def test_markdown_shows_both_side_by_side_and_brings_no_markup_of_its_own(wiki_home: Path, tmp_path: Path) -> None:
    pipeline = Pipeline.open(load_config(Path(write_config(tmp_path, wiki_home))), "acme")
    said = report.markdown(pipeline.check(Principal("acme"), "Each broker keeps logs for 72 hours <b>by</b> default."))
    pipeline.close()
    row = said.splitlines()[-1]
    assert "72 hours \\<b\\>" in row
    assert "Each broker keeps logs for 168 hours by default." in row
    assert "](https://" in row
