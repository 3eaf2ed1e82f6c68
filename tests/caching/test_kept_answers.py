"""An earlier answer is shown to the same question under the same view alone, and says that it is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.constants import section_of
from support.ticking import Clock

from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.caching.answers import AnswerSource, Asking, KeptAnswers, told_age
from rag_serving.config.phases import Degradation
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.decisions import Refusal
from rag_serving.records.passages import Location

KNOWN = frozenset({"everyone", "group:hr", "group:ops", "group:hr|group:ops", "user:ann"})
NAMES = [*"abc"]
URL = "https://wiki.example/12#a"
CITATION = Citation(1, "12:1:0", "T", ("T",), URL, URL, "168 hours", "OPS", 1, "exact", 0, 9, page_id="12")
PRINCIPALS = [
    Principal("acme", user, frozenset(groups))
    for user in (None, "ann", "bob")
    for groups in ((), ("hr",), ("ops",), ("hr", "ops"))
]


def asking(principal: Principal, text: str = "How long?", **scope: object) -> Asking:
    return Asking(principal, text, scope)


def source(principal: Principal, *pages: str) -> AnswerSource:
    return AnswerSource(KNOWN, satisfied_classes(principal, "acme", KNOWN), frozenset(pages))


def answer(text: str = "168 hours [1]", generation: str = "g1", **more: Any) -> Answer:
    return replace(Answer("answered", text, generation=generation, receipt_id="r1"), **more)


ANN, BOB, HAL = Principal("acme", "ann"), Principal("acme", "bob"), Principal("acme", "hal", frozenset({"hr"}))


def refused(_: frozenset[str]) -> bool:
    return False


def test_the_same_question_gets_its_answer_however_it_is_typed() -> None:
    clock = Clock()
    kept = KeptAnswers(Degradation(), clock)
    kept.put(asking(BOB, "How  long?"), answer(), source(BOB, "12"))
    clock.pass_by(150)
    found = kept.get(asking(BOB, " how long ??"), "g1", refused)
    assert found
    assert (found.answer, found.flags, found.receipt_id) == ("168 hours [1]", ("cached_answer",), "r1")
    assert found.clarification
    assert "2 minutes ago" in found.clarification.text
    assert kept.get(asking(BOB, "How short?"), "g1", refused) is None
    assert kept.get(asking(BOB, filters="space OPS"), "g1", refused) is None


def test_somebody_else_of_the_same_view_gets_it_without_its_receipt() -> None:
    kept = KeptAnswers(Degradation(), Clock())
    kept.put(asking(BOB), answer(), source(BOB, "12"))
    found = kept.get(asking(Principal("acme", "eve")), "g1", refused)
    assert found
    assert found.receipt_id is None


@pytest.mark.parametrize("other", [HAL, ANN, Principal("other", "bob")])
def test_another_view_gets_nothing(other: Principal) -> None:
    kept = KeptAnswers(Degradation(), Clock())
    kept.put(asking(BOB), answer(), source(BOB, "12"))
    assert kept.get(asking(other), "g1", lambda _: True) is None


def test_who_left_a_group_no_longer_gets_what_it_read() -> None:
    kept = KeptAnswers(Degradation(), Clock())
    kept.put(asking(HAL), answer(), source(HAL, "14"))
    assert kept.get(asking(HAL), "g1", refused)
    assert kept.get(asking(Principal("acme", "hal")), "g1", lambda _: True) is None


def test_an_answer_of_another_generation_needs_all_its_pages_and_says_so() -> None:
    kept = KeptAnswers(Degradation(), Clock())
    cited = replace(CITATION, also_at=(Location("Secret", "https://wiki.example/99#a", "HR"),))
    kept.put(asking(BOB), answer(citations=(cited,)), source(BOB, "12", "13"))
    asked: list[frozenset[str]] = []
    found = kept.get(asking(BOB), "g2", lambda pages: not asked.append(pages))  # type: ignore[func-returns-value]
    assert found
    assert asked == [frozenset({"12", "13"})]
    assert found.flags == ("cached_answer_of_other_pages",)
    assert found.clarification
    assert "generation g1" in found.clarification.text
    assert found.citations[0].also_at == ()
    assert kept.get(asking(BOB), "g2", refused) is None


@pytest.mark.parametrize(
    "bad",
    [
        Answer("not_found", "Nothing."),
        Answer("clarify", "Which?"),
        answer(flags=("dense_unavailable",)),
        answer(flags=("stale_generation",)),
        answer(refusal=Refusal("confidence", "doubtful")),
    ],
)
def test_only_good_answers_are_kept(bad: Answer) -> None:
    kept = KeptAnswers(Degradation(), Clock())
    kept.put(asking(BOB), bad, source(BOB))
    assert len(kept.entries) == 0


def test_they_are_bounded_in_number_and_in_bytes_and_age() -> None:
    clock = Clock()
    kept = KeptAnswers(section_of(Degradation, cached_answers=10, cached_bytes=60_000), clock)
    for number in range(100):
        kept.put(asking(BOB, f"q{number}"), answer("word " * 100), source(BOB))
        assert len(kept.entries) <= 10
        assert kept.entries.size <= 60_000
    assert kept.get(asking(BOB, "q99"), "g1", refused)
    assert kept.get(asking(BOB, "q1"), "g1", refused) is None
    kept.put(asking(BOB, "long"), answer("word " * 100_000), source(BOB))
    assert kept.get(asking(BOB, "long"), "g1", refused) is None
    for _ in range(50):
        kept.put(asking(BOB, "same"), answer("word " * 100), source(BOB))
    assert len(kept.entries) <= 10
    clock.pass_by(86_401)
    assert kept.get(asking(BOB, "same"), "g1", refused) is None
    kept.entries.clear()
    assert (len(kept.entries), kept.entries.size) == (0, 0)


def test_none_are_kept_where_none_are_wanted() -> None:
    kept = KeptAnswers(section_of(Degradation, cached_answers=0), Clock())
    kept.put(asking(BOB), answer(), source(BOB))
    assert len(kept.entries) == 0


@given(st.lists(st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from(NAMES), st.booleans()), max_size=40))
def test_whatever_was_asked_nobody_gets_what_another_view_was_answered(
    history: list[tuple[Principal, str, bool]],
) -> None:
    kept = KeptAnswers(section_of(Degradation, cached_answers=20), Clock())
    for principal, question, is_answered in history:
        classes = satisfied_classes(principal, "acme", KNOWN)
        if is_answered:
            kept.put(asking(principal, question), answer(" ".join(sorted(classes))), source(principal))
        elif found := kept.get(asking(principal, question), "g1", lambda _: True):
            assert found.answer == " ".join(sorted(classes))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "less than a minute"), (60, "1 minute"), (7_300, "2 hours"), (90_000, "1 day"), (1e9, "11574 days")],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, told: str) -> None:
    assert told_age(seconds) == told
