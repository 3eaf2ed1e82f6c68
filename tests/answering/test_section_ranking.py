"""Which passage answers: what is defined, what is headed, and in which order passages and their sentences come."""

from __future__ import annotations

import pytest
from support.passages import candidate_of

from rag_serving.answering.extraction.extractor import evidence_of, extract, rank, rank_sections
from rag_serving.answering.extraction.features import FOR_SECTIONS, QuestionFeatures, defines
from rag_serving.answering.extraction.ranker import learnt
from rag_serving.answering.extraction.statements import statements
from rag_serving.records.passages import Candidate, Lock
from rag_serving.text.analyzer import analyze

TABLE = learnt().words_alone


def asked_of(question: str) -> QuestionFeatures:
    return QuestionFeatures.of(question, dict.fromkeys(analyze(question), 1.0), analyze)


def order(question: str, passages: list[Candidate]) -> list[int]:
    """The places of the passages, the one that answers best first."""
    asked, lock = asked_of(question), Lock(tuple(passages))
    sections = rank_sections(asked, lock, rank(asked, lock, analyze, None, TABLE), TABLE)
    assert [section.score for section in sections] == sorted((each.score for each in sections), reverse=True)
    return [section.index for section in sections]


@pytest.mark.parametrize(
    ("question", "text", "is_defined"),
    [
        ("What is a quay?", "A quay is a wall where ships are moored.", True),
        ("what's a quay", "**Quay**: a wall where ships are moored.", True),
        ("quay", "Quay – a wall where ships are moored.", True),
        ("What is a quay?", "| Word | Meaning |\n|---|---|\n| Quay | a wall where ships are moored |", True),
        ("What is a quay?", "The quay wall is mended by divers in winter.", False),
        ("What is a quay?", "Ships are moored at a quay in winter.", False),
        ("How long is a quay?", "A quay is a wall where ships are moored.", False),
    ],
)
def test_what_says_what_a_thing_is_defines_it(question: str, text: str, is_defined: bool) -> None:
    asked = asked_of(question)
    found = list(statements(asked, Lock((candidate_of(text),)), analyze))
    assert any(defines(asked, statement) for statement in found) is is_defined


def test_the_passage_that_defines_a_thing_comes_before_those_that_only_name_it() -> None:
    defining = "A quay is a wall of stone at which ships are moored, loaded and unloaded by the cranes of the port."
    naming = "In winter no ship comes to the quay, and the quay is mended by divers who come from another port then."
    passages = [candidate_of(naming, "1:1:3"), candidate_of(defining, "2:1:3")]
    assert order("What is a quay?", passages) == [2, 1]
    assert order("What is a quay?", passages[::-1]) == [1, 2]


def test_the_passage_below_the_heading_that_is_asked_comes_first() -> None:
    text = "It is paid on the last Friday of the month, together with what was spent on the way to the port."
    other = candidate_of(text, "1:1:3", heading_path=("Staff", "Meals at the port"))
    headed = candidate_of(text, "2:1:3", heading_path=("Staff", "Travel allowance"))
    assert order("When is the travel allowance paid?", [other, headed]) == [2, 1]


def test_of_equal_passages_the_one_that_retrieval_scored_higher_comes_first() -> None:
    text = "The night crane parks at quay four when the wind is strong and the pilot has gone home for the day."
    passages = [candidate_of(text, "1:1:3", score=0.2), candidate_of(text, "2:1:3", score=1.4)]
    assert order("Where does the night crane park?", passages) == [2, 1]


def test_what_is_shown_first_is_of_the_first_passage_and_the_next_ones_come_beside_it() -> None:
    texts = [
        "Ships are moored at the long quay by two men, who also look after the ropes and the bollards there.",
        "The night crane parks at quay four when the wind is strong and the pilot has gone home for the day.",
        "A crane at the quay is greased each Monday, before the ships come in and the men begin their work.",
    ]
    passages = [candidate_of(text, f"{page}:1:3") for page, text in enumerate(texts, start=1)]
    question = "Where does the night crane park at the quay?"
    first, *others = order(question, passages)
    draft = extract(question, Lock(tuple(passages)), dict.fromkeys(analyze(question), 1.0), analyze)
    assert draft.claims[0].index == first == 2
    shown = [claim.index for claim in (*draft.claims, *draft.further)]
    assert shown == [first, *others]
    assert {each.passage for each in draft.rejected} == {1, 2, 3} - {claim.index for claim in draft.claims}


def test_every_sign_of_a_passage_is_weighed_in_its_own_direction() -> None:
    for table in (learnt().words_alone, learnt().with_vectors):
        for name, weight in table.section.items():
            assert weight >= 0 if name.removeprefix("section_") in FOR_SECTIONS else weight <= 0, name


def test_what_is_ahead_of_nothing_is_far_ahead() -> None:
    asked = asked_of("Where does the night crane park?")
    lock = Lock((candidate_of("The night crane parks at quay four."),))
    sections = rank_sections(asked, lock, rank(asked, lock, analyze, None, TABLE), TABLE)
    assert evidence_of(sections)["section_ahead"] == 3.0
