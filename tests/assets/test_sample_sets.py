"""Questions about whole sets of the sample wiki: every member, its proof, and nothing for who may not see it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.command_line import run
from support.stand_in_chat import MODEL, StandInChat, served

from rag_serving.access.principals import Principal
from rag_serving.answering.markdown import linked_markdown, markdown
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.config.models import AnswerGeneration
from rag_serving.receipts.proofs import set_faults
from rag_serving.receipts.receipt import ReceiptError
from rag_serving.records.answers import Answer

EVERYONE = Principal("demo", "somebody")
SECURITY = Principal("demo", "somebody else", frozenset({"security"}))
RUNBOOKS = "Which runbooks do we have?"
TITLES = [
    "Certificate Renewal", "Database Failover Runbook", "Database Failover Runbook", "Rolling Back a Release",
    "Scheduler Stall Runbook",
]  # fmt: skip


@pytest.fixture(scope="module")
def sample(published_sample: Path) -> Iterator[Pipeline]:
    with closing(Pipeline.open(load_config(published_sample / "app.yaml"), "demo")) as opened:
        yield opened


def titles(answer: Answer) -> list[str]:
    assert answer.set is not None, answer.answer
    return [member.title for member in answer.set.members]


def stored(pipeline: Pipeline, answer: Answer, principal: Principal = EVERYONE) -> dict[str, Any]:
    return pipeline.receipt(principal, str(answer.receipt_id))


def test_all_members_are_listed_and_the_first_are_cited(sample: Pipeline) -> None:
    answer = sample.ask(EVERYONE, RUNBOOKS)
    assert titles(answer) == TITLES
    assert answer.outcome == "told"
    assert answer.answer.startswith("**5 pages**: pages with the label runbook.")
    assert "Nothing else matches among the" in answer.answer
    assert {citation.verification for citation in answer.citations} == {"exact"}
    assert {citation.title for citation in answer.citations} <= set(TITLES)
    shown = answer.payload()["set"]
    assert shown["total"] == 5
    assert [member["citation"] for member in shown["members"]].count(None) <= 1, "a near-duplicate that is not indexed"


def test_a_language_model_may_read_what_no_template_takes(published_sample: Path) -> None:
    form = {"answerable": True, "table": 0, "operation": "list", "where": [], "descending": False}
    form |= dict.fromkeys(("column", "group", "order", "first"))
    replies = iter(["runbook", "payroll"])

    def script(_: list[dict[str, str]]) -> list[str]:
        where = [{"field": "label", "operator": "eq", "value": next(replies, "")}]
        return [json.dumps({**form, "where": where})]

    with served(StandInChat(script)) as server:
        settings = {"provider": "ollama", "model": MODEL, "base_url": server.url, "reads_sets": True}
        config = load_config(published_sample / "app.yaml")
        config = config.model_copy(update={"generation": AnswerGeneration.model_validate(settings)})
        with closing(Pipeline.open(config, "demo")) as pipeline:
            answer = pipeline.ask(EVERYONE, "Which runbook pages might suit a newcomer?")
            assert titles(answer) == TITLES
            assert "pages with the label runbook" in answer.answer, "what it asked for"
            assert answer.answer.endswith(f"The rule is how {MODEL} read the question.")
            assert pipeline.proofs.prove(str(answer.receipt_id)).faults == ()
            assert pipeline.ask(EVERYONE, "Which payroll pages might suit a newcomer?").set is None, "no such label"


def test_who_may_read_more_is_told_of_more_and_nobody_else_is(sample: Pipeline) -> None:
    more = sample.ask(SECURITY, RUNBOOKS)
    assert "Secret Rotation" in titles(more)
    less = sample.ask(EVERYONE, RUNBOOKS)
    assert "Secret Rotation" not in str(less.payload())
    assert less.set is not None
    assert more.set is not None
    assert more.set.passages > less.set.passages


def test_a_receipt_counts_the_set_again_and_finds_what_was_changed(sample: Pipeline) -> None:
    answer = sample.ask(EVERYONE, RUNBOOKS)
    proof = sample.proofs.prove(str(answer.receipt_id))
    assert proof.faults == ()
    assert any(check.name == "set" and check.ok and "5 members" in check.detail for check in proof.checks)
    receipt = stored(sample, answer)
    with sample.published.acquire() as generation:
        assert set_faults(receipt, generation, sample.proofs._stored) == []
        for change in (
            lambda one: one["set"]["members"].pop(),
            lambda one: one["set"]["members"].append(["1310750", "0"]),
            lambda one: one["set"]["query"].update(operation="count"),
            lambda one: one["set"].update(value="6"),
            lambda one: one["readers"].append("group:security"),
            lambda one: one.pop("readers"),
            lambda one: one["set"].pop("query"),
        ):
            changed = copy.deepcopy(receipt)
            change(changed)
            assert set_faults(changed, generation, sample.proofs._stored), change


def test_a_shared_receipt_is_closed_to_who_may_not_see_a_member(sample: Pipeline) -> None:
    answer = sample.ask(SECURITY, RUNBOOKS)
    sample.proofs.share(SECURITY, str(answer.receipt_id))
    with pytest.raises(ReceiptError, match="may not read"):
        stored(sample, answer, EVERYONE)
    own = sample.ask(EVERYONE, RUNBOOKS)
    sample.proofs.share(EVERYONE, str(own.receipt_id))
    assert "readers" not in stored(sample, own, SECURITY), "nobody is told which groups another is in"


@pytest.mark.parametrize(
    ("question", "begin"),
    [
        ("When was ADR-007 last updated?", "**2025-04-10** (updated): pages with the title"),
        ("How many seats in all meeting rooms in Trondheim?", "**16**: rows of the table *Meeting rooms*"),
        ("list all pages", "**34 pages**.\n"),
        ("Which meeting room has the most seats?", "**1 row**: rows of the table *Meeting rooms*"),
    ],
)
def test_the_first_line_is_the_value(sample: Pipeline, question: str, begin: str) -> None:
    assert sample.ask(EVERYONE, question).answer.startswith(begin)


def test_nothing_matching_is_an_answer_with_a_proof(sample: Pipeline) -> None:
    answer = sample.ask(EVERYONE, "Which pages mention quokkas?")
    assert answer.outcome == "told"
    assert titles(answer) == []
    assert answer.answer.startswith("**No page**")
    assert sample.proofs.prove(str(answer.receipt_id)).faults == ()


@pytest.mark.parametrize(
    "question",
    [
        "How long can a release be rolled back?",
        "Which port has the deepest berth?",
        "How many people like Mondays?",
        "",
    ],
)
def test_other_questions_go_the_ordinary_way(sample: Pipeline, question: str) -> None:
    assert sample.ask(EVERYONE, question).set is None


def test_every_door_carries_all_members(sample: Pipeline, published_sample: Path) -> None:
    answer = sample.ask(EVERYONE, RUNBOOKS)
    for text in (markdown(answer), linked_markdown(answer).text):
        assert all(text.count(title) >= TITLES.count(title) for title in TITLES)
    assert len(linked_markdown(answer).markers) == 4, "a link for each citation"
    code, printed, _ = run("ask", RUNBOOKS, "--format", "csv", "--config", str(published_sample / "app.yaml"))
    header, *rows = printed.strip().splitlines()
    assert code == 0
    assert header.startswith("page,")
    assert header.endswith(",quote,url")
    assert [row.split(",")[0] for row in rows] == TITLES
