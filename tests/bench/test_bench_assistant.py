"""What an assistant should do with a question: the gold questions can be used, and answers are judged by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from evals.bench import assistant as bench
from evals.bench.assistant import (
    FOLDER,
    HALVES,
    AskedQuestion,
    AssistantTurn,
    JudgedChain,
    done_with,
    judge,
    misses,
    read_half,
    shares,
    table,
)
from evals.bench.corpora import ROOT, sample_pages
from evals.evaluation.gold import GoldError, read_gold, tenant_gold
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.decisions import Clarification, ClarificationOption, Refusal

TITLES = {"1": "Home", "https://a/1": "Home", "2": "Return Home", "https://a/2": "Return Home"}
HIDDEN = AssistantTurn("salary", frozenset({"not_found"}), (), (), frozenset({"Salary Bands"}))


def turn(*actions: str, pages: tuple[str, ...] = (), offered: tuple[str, ...] = ()) -> AssistantTurn:
    each = [tuple(frozenset({title}) for title in titles) for titles in (pages, offered)]
    return AssistantTurn("home", frozenset(actions), each[0], each[1], frozenset())  # type: ignore[arg-type]


def told(*pages: str, refusal: Refusal | None = None) -> Answer:
    cited = [Citation(1, "c", "t", (), "u", "u", "q", "s", 1, "exact", 0, 1, page_id=page) for page in pages]
    return Answer("answered", "Told.", tuple(cited), refusal=refusal)


def asked_back(*urls: str) -> Answer:
    options = tuple(ClarificationOption("…", "page", "home", url) for url in urls)
    return Answer("clarify", "Which?", clarification=Clarification("Which?", options))


def test_sixty_questions_in_two_even_halves() -> None:
    halves = [read_half(half) for half in HALVES]
    assert [len(half) for half in halves] == [30, 30]
    assert not {each.id for each in halves[0]} & {each.id for each in halves[1]}
    kinds = [Counter(each.kind for each in half) for half in halves]
    assert kinds[0] == kinds[1]
    assert all(len(each.turns) == (3 if each.kind == "chain" else 1) for half in halves for each in half)


def test_pages_that_are_named_are_there() -> None:
    sources = [*(ROOT / "sample" / "docs").rglob("*.md*"), *(ROOT / "sample" / "book").rglob("*.md")]
    lines = {line for path in sources for line in path.read_text(encoding="utf-8").splitlines()}
    documents = {
        line.removeprefix("title: ").removeprefix("# ") for line in lines if line.startswith(("title: ", "# "))
    }
    documents |= {path.stem for path in (ROOT / "sample" / "files").iterdir()}
    titles = {"demo": set(sample_pages()["title"].to_pylist()), "port": documents}
    for asked in (each for half in HALVES for each in read_half(half)):
        named = {page for turn in asked.turns for page in (*turn.pages, *turn.offered, turn.never)}
        assert {title for page in named for title in page} <= titles[asked.principal.tenant], asked.id


def test_the_gates_do_not_ask_them() -> None:
    gold = tenant_gold(FOLDER.parent, "demo")
    assert gold is not None
    assert {each.id for each in gold.questions} == {
        each.id for each in read_gold(FOLDER.parent / "sample.yaml").questions
    }


def test_an_answer_counts_as_what_was_done() -> None:
    assert done_with(told("1")) == "answer"
    assert done_with(told("1", refusal=Refusal("confidence", "doubtful"))) == "not_found"
    assert done_with(asked_back("https://a/1")) == "clarify"
    assert done_with(Answer("clarify", "Which part?", clarification=Clarification("Which part?"))) == "not_found"
    assert done_with(Answer("needs_more_context", "")) == "not_found"
    assert done_with(Answer("refused", "")) == "refuse"
    assert done_with(Answer("unavailable", "")) == "unavailable"


def test_right_is_the_right_action_with_every_right_page() -> None:
    both = turn("answer", pages=("Home", "Return Home"))
    assert judge(both, told("1", "2"), TITLES).is_right
    one = judge(both, told("1"), TITLES)
    assert (one.is_action, one.is_page, one.is_right) == (True, False, False)
    closest = judge(both, told("1", "2", refusal=Refusal("confidence", "doubtful")), TITLES)
    assert (closest.is_right, closest.is_shown) == (False, True)
    assert not judge(turn("refuse"), told("1"), TITLES).is_right


def test_of_what_is_asked_back_the_first_two_options_count() -> None:
    meant = turn("clarify", offered=("Home", "Return Home"))
    assert judge(meant, asked_back("https://a/2#x", "https://a/1"), TITLES).is_offered
    assert judge(meant, asked_back("https://a/1", "https://a/3", "https://a/2"), TITLES).is_offered is False


def test_a_title_that_the_reader_may_not_see_is_a_leak_wherever_it_stands() -> None:
    hinted = Answer("not_found", "", clarification=Clarification("Do you mean Salary Bands?"))
    assert judge(HIDDEN, hinted, TITLES).is_leak
    assert not judge(HIDDEN, hinted, TITLES).is_right
    assert judge(HIDDEN, Answer("not_found", ""), TITLES).is_right


def test_a_chain_is_right_where_every_turn_is() -> None:
    asked = next(each for each in read_half("build") if each.kind == "chain")
    right, wrong = judge(turn("refuse"), Answer("refused", ""), TITLES), judge(turn("refuse"), told("1"), TITLES)
    found = shares([JudgedChain(asked, (right, right)), JudgedChain(asked, (right, wrong))])
    assert found["all"]["right_action"] == 0.5
    assert found["all"]["turns_right_action"] == 0.75
    assert "| all | 2 | 50% |" in table(found)
    assert len(misses([JudgedChain(asked, (right, wrong))])) == 1


@pytest.mark.parametrize(
    "entry",
    [
        "{id: a, tenant: demo, kind: typo, question: x}",
        "{id: a, tenant: demo, kind: typo, question: x, action: answer}",
        "{id: a, tenant: demo, kind: typo, question: x, action: clarify}",
        "{id: a, tenant: demo, kind: typo, question: '', action: refuse}",
        "{id: a, tenant: demo, kind: typo, question: x, action: guess}",
        "{id: a, tenant: demo, question: x, action: refuse}",
        "{id: a, tenant: demo, kind: typo, question: x, action: refuse, page: Home}",
        "{id: a, tenant: demo, kind: chain, turns: []}",
        "a",
    ],
)
def test_an_entry_that_cannot_be_judged_is_an_error_that_names_it(entry: str, tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text(f"questions: [{entry}]", encoding="utf-8")
    with pytest.raises(GoldError, match="question 1"):
        read_half("build", tmp_path)


def test_every_turn_of_a_question_is_asked(pipeline: Pipeline) -> None:
    principal = Principal(pipeline.tenant)
    turns = (turn("answer", pages=("Broker Operations",)), turn("not_found"))
    asked = AskedQuestion(
        "logs", "chain", principal, tuple(replace(each, question="Who won the football?") for each in turns)
    )
    (judged,) = bench.ask(pipeline, [asked])
    assert [each.done for each in judged.turns] == ["not_found", "not_found"]
    assert [each.is_action for each in judged.turns] == [False, True]


def test_titles_are_of_pages_that_the_reader_may_see(pipeline: Pipeline) -> None:
    everyone = set(bench.page_titles(pipeline, Principal(pipeline.tenant)).values())
    assert everyone < set(bench.page_titles(pipeline, Principal(pipeline.tenant, None, frozenset({"hr"}))).values())
