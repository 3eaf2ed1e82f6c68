"""What an answer is worth to the one who asked, and the shares by kind of question."""

from __future__ import annotations

import pytest
from support.intervals import wilson

from evals.bench.people import (
    Outcome,
    facts_said,
    holds,
    is_right_section,
    judge_use,
    use_payload,
    use_table,
)
from evals.evaluation.gold import GoldPlace, GoldQuestion
from evals.evaluation.metrics import wilson_interval
from rag_serving.records.answers import Answer, Citation, Status

PLACES = (GoldPlace("12", "Logs"), GoldPlace("13", heading="How long?"))
ASKED = GoldQuestion(
    "q", "how long and where", True, kind="two_part", facts=(("7 days", "a week"), ("tier 4",)), places=PLACES
)
NEAR_MISS = GoldQuestion("n", "how wide", False, kind="unanswerable")
GREETING = GoldQuestion("g", "hi", False, kind="not_a_question")


def citation(page: str = "12", anchor: str = "Logs", heading: str = "Logs", quote: str = "") -> Citation:
    url = f"https://wiki.example/{page}#{anchor}"
    return Citation(1, f"{page}:3:0", "T", ("T", heading), url, url, quote, "ENG", 3, "exact", 0, 15)


def reply(text: str, *citations: Citation, status: Status = "answered") -> Answer:
    return Answer(status, text, citations)


@pytest.mark.parametrize(
    ("gold", "answer", "outcome"),
    [
        (ASKED, reply("Kept for a week. [1]", citation(quote="on Tier 4")), "useful"),
        (ASKED, reply("Kept for 7 days. [1]", citation()), "poor"),
        (ASKED, reply("Kept for 7 days on tier 4.", citation(anchor="Top")), "poor"),
        (ASKED, reply("Kept for 17 days. [4]", citation()), "wrong"),
        (ASKED, reply("Not found. Closest: 7 days, tier 4.", citation(), status="not_found"), "closest"),
        (ASKED, reply("Closest: 7 days.", citation(), status="not_found"), "declined"),
        (ASKED, reply("Not found in docs.", status="not_found"), "declined"),
        (NEAR_MISS, reply("It is 7 days.", citation()), "wrong"),
        (NEAR_MISS, reply("Closest: 7 days.", citation(), status="not_found"), "declined"),
        (GREETING, reply("Hi everyone", citation()), "wrong"),
        (GREETING, reply("Ask me something."), "declined"),
    ],
)
def test_an_answer_is_worth_what_it_says_and_cites(gold: GoldQuestion, answer: Answer, outcome: Outcome) -> None:
    judged = judge_use(gold, answer)
    assert judged.outcome == outcome
    assert judged.is_right == (outcome == ("useful" if gold.answerable else "declined"))


def test_a_fact_is_said_in_whole_words() -> None:
    assert holds("| Wedding | 2 |", "2")
    assert holds("doesn’t  have\nnull", "doesn't have null")
    assert not holds("38,500 euros in 2024", "500 euros in 2")
    assert not holds("yanking", "yank")


def test_the_number_of_a_citation_is_no_fact() -> None:
    assert facts_said(GoldQuestion("q", "?", True, facts=(("4",),)), reply("Some. [4]")) == [False]


def test_without_facts_the_quote_is_what_has_to_be_said() -> None:
    assert facts_said(GoldQuestion("q", "?", True, quotes=("for 7 days",)), reply("Kept for 7 days.")) == [True]


def test_a_section_is_known_by_its_anchor_or_else_its_heading() -> None:
    assert is_right_section(PLACES, citation())
    assert is_right_section(PLACES, citation("13", "top", "How long?"))
    assert is_right_section([GoldPlace("12", "Größe")], citation(anchor="Gr%C3%B6%C3%9Fe"))
    assert not is_right_section(PLACES, citation(anchor="Other"))
    assert not is_right_section(PLACES, citation("14"))


def test_shares_are_told_by_group_and_kind() -> None:
    useful = judge_use(ASKED, reply("7 days, tier 4", citation()))
    poor = judge_use(ASKED, reply("7 days", citation()))
    declined = judge_use(NEAR_MISS, reply("", status="not_found"))
    found = use_payload([useful, poor, declined])
    assert list(found) == ["answerable", "unanswerable", "two_part"]
    assert found["two_part"]["poor"] == 1
    assert found["unanswerable"]["right"]["mean"] == 1.0
    assert found["answerable"]["right"]["mean"] == 0.5
    assert "| two part | 2 | 1 | 0 | 1 | 0 | 0 | 50% (9% to 91%) |" in use_table([useful, poor, declined])


def test_the_interval_of_a_share_is_wilsons() -> None:
    for hits, of in ((0, 8), (3, 40), (8, 8)):
        found = wilson_interval(hits, of)
        assert (found.low, found.high) == pytest.approx(wilson(hits, of), abs=1e-5)
    with pytest.raises(ValueError, match="share"):
        wilson_interval(0, 0)
