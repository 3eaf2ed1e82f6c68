"""What people type in one word, or two things at once, asked of the sample wiki."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.records.answers import Answer

ANYBODY = Principal("demo")


@pytest.fixture(scope="module")
def sample(published_sample: Path) -> Iterator[Pipeline]:
    with closing(Pipeline.open(load_config(published_sample / "app.yaml"), "demo")) as opened:
        yield opened


def titles(answer: Answer) -> list[str]:
    return [citation.heading_path[0] for citation in answer.citations]


def test_a_word_of_several_headings_is_asked_back_for_where_no_answer_is_sure(sample: Pipeline) -> None:
    answer = sample.ask(ANYBODY, "training")
    assert (answer.status, answer.citations) == ("clarify", ())
    assert answer.decision
    assert answer.decision.action == "unsure"
    assert answer.clarification
    assert len({option.url for option in answer.clarification.options}) == 2


def test_the_same_word_with_a_question_around_it_is_answered_as_it_is(sample: Pipeline) -> None:
    answer = sample.ask(ANYBODY, "Which training is required in the first week?")
    assert answer.status == "answered"
    assert "First Week Checklist" in titles(answer)


def test_of_two_things_the_one_that_several_pages_are_called_by_is_told_by_the_likeliest(sample: Pipeline) -> None:
    answer = sample.ask(ANYBODY, "leave and expenses")
    assert (answer.outcome, titles(answer)) == ("told", ["Leave and Public Holidays", "Expense Policy"])
    assert sample.ask(ANYBODY, "leave").status == "clarify"


def test_two_things_of_which_neither_is_sure_are_both_shown(sample: Pipeline) -> None:
    answer = sample.ask(ANYBODY, "how much can a hotel in Norway cost and how many vacation days do I have")
    assert (answer.outcome, titles(answer)) == ("closest", ["Expense Policy", "Leave and Public Holidays"])
    assert "closest_passage" in answer.flags
