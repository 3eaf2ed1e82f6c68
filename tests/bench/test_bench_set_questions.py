"""What is taken of the questions about sets over the sample, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench.corpora import DATA
from evals.bench.set_questions import GOLD, SetCorpus, judge, ordinary_questions, read_questions, set_corpus
from rag_serving.sets.reading import read_set


@pytest.fixture(scope="module")
def sample() -> SetCorpus:
    return set_corpus("sample")


def test_what_is_taken_of_the_questions_over_the_sample_is_right(sample: SetCorpus) -> None:
    questions = [each for each in read_questions(GOLD) if each["corpus"] == "sample" and each["half"] == "build"]
    outcomes = {each["id"]: judge(each, sample) for each in questions}
    assert [name for name, outcome in outcomes.items() if outcome == "wrong"] == []
    assert sum(outcome == "right" for outcome in outcomes.values()) >= 10


def test_a_set_that_lacks_a_member_is_wrong(sample: SetCorpus) -> None:
    question = next(each for each in read_questions(GOLD) if each["id"] == "s01")
    fewer = {**question, "truth": {**question["truth"], "set": question["truth"]["set"][1:]}}
    more = {**question, "truth": {**question["truth"], "set": [*question["truth"]["set"], "ENG: Webhooks"]}}
    unanswerable = {**question, "truth": {"status": "unanswerable"}}
    assert [judge(each, sample) for each in (question, fewer, more, unanswerable)] == ["right"] + ["wrong"] * 3


@pytest.mark.skipif(not Path(DATA).is_dir(), reason="../shared/data is not there")
def test_ordinary_questions_are_not_taken(sample: SetCorpus) -> None:
    questions = ordinary_questions(DATA, 200)
    taken = [question for question in questions if read_set(question, sample.tables)]
    assert len(questions) > 150
    assert len(taken) <= 2, taken
