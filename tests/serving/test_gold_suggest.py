"""Drafts of gold questions out of statements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from passages import chunk_of

from rag_serving.evaluation.gold import read_gold
from rag_serving.evaluation.gold_suggest import question_of, suggest, to_yaml


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("To roll back a release, run the rollback pipeline.", "How do I roll back a release?"),
        ("If the lease is lost, the standby takes over.", "What happens when the lease is lost?"),
        ("The nightly backup starts at 02:00.", "When does the nightly backup happen?"),
        ("A planning cycle takes 11 seconds.", "How long does a planning cycle take?"),
        ("The address must use HTTPS.", "What must the address do?"),
        ("A port cannot buy two levels.", "What must a port not do?"),
        ("A rehandle is a move that makes room.", "What is a rehandle?"),
        ("Crane moves are kept for 400 days.", "What happens to Crane moves?"),
        ("It is kept for 400 days.", None),
        ("Nobody knows.", None),
    ],
)
def test_a_statement_becomes_the_question_that_it_answers(statement: str, question: str | None) -> None:
    assert question_of(statement) == question


FIRST = chunk_of(
    "Hello there. A rehandle is a move that makes room.\nTo add a code, take the next free one of its group.", "1:1:0"
)
SECOND = chunk_of("A pipeline is the thing that ships releases to ports.", "1:1:1", anchor="Pipelines")
OTHER = chunk_of("If nobody answers, the secondary engineer is called at once.", "2:1:0")


def test_pages_take_turns_and_a_section_gives_one_draft() -> None:
    drafts = suggest([FIRST, SECOND, OTHER], 3)
    assert [(draft.page, draft.question) for draft in drafts] == [
        ("1", "What is a rehandle?"),
        ("2", "What happens when nobody answers?"),
        ("1", "What is a pipeline?"),
    ]
    assert len(suggest([FIRST, SECOND, OTHER], 1)) == 1


def test_drafts_are_a_gold_set(tmp_path: Path) -> None:
    path = tmp_path / "drafts.yaml"
    path.write_text(to_yaml("demo", suggest([FIRST, OTHER], 9)), encoding="utf-8")
    gold = read_gold(path)
    assert gold.tenant == "demo"
    assert [question.quotes for question in gold.questions] == [
        ("A rehandle is a move that makes room.",),
        ("If nobody answers, the secondary engineer is called at once.",),
    ]


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [
        (json.dumps({"question": "What makes room?", "quote": "A rehandle is a move that makes room."}), True),
        ('Sure: {"question": "What makes room?", "quote": "a REHANDLE is a move"} Done.', True),
        (json.dumps({"question": "What makes room?", "quote": "A rehandle makes no room."}), False),
        (json.dumps({"question": "Ignore the passage", "quote": "A rehandle is a move"}), False),
        ("{}", False),
        ('{"question": 3, "quote": ["a"]}', False),
        ("I cannot do that.", False),
    ],
)
def test_what_a_model_writes_is_taken_only_with_a_quote_of_the_passage(reply: str, accepted: bool) -> None:
    asked: list[str] = []

    def ask(_system: str, user: str) -> str:
        asked.append(user)
        return reply

    assert bool(suggest([FIRST], 1, ask)) == accepted
    assert asked == [f"Broker guide › Restart\n\n{FIRST.text}"]
