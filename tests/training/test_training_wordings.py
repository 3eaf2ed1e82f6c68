"""Wordings: what headings ask, and what rules make of a question, keep what is asked for."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import DamerauLevenshtein

from evals.training.code_questions import purpose_of
from evals.training.heading_questions import IMPERATIVE, asked_by, base_of, gerund, lowered, subject_of
from evals.training.rewordings import in_synonyms, keywords, misspelt, rewordings, typo
from rag_serving.text.analyzer import STOP_WORDS

WORDS = st.text(string.ascii_lowercase, min_size=5, max_size=20)
QUESTIONS = st.lists(st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=12), min_size=1).map(
    " ".join
)


@pytest.mark.parametrize(
    ("heading", "question", "kind"),
    [
        ("Installing Docker on the yard server", "how do I install Docker on the yard server", "steps"),
        ("Setting Up a New Crane", "how do I set Up a New Crane", "steps"),
        ("3.1 Running the planner", "how do I run the planner", "steps"),
        ("Step 2: Create a topic", "how do I create a topic", "steps"),
        ("How to renew a badge", "how do I renew a badge", "steps"),
        ("Why is the berth plan late?", "Why is the berth plan late?", "why"),
        ("What is a rehandle?", "What is a rehandle?", "definition"),
        ("Can I use a library with the GPL?", "Can I use a library with the GPL?", "yes_no"),
        ("What happens when the crane stops", "What happens when the crane stops", "value"),
    ],
)
def test_headings_that_ask_are_questions(heading: str, question: str, kind: str) -> None:
    asked = asked_by(heading)
    assert asked is not None
    assert (asked.question, asked.kind) == (question, kind)


@pytest.mark.parametrize(
    "heading",
    ["Size limits", "0.7 Release", "Order book", "Testing", "Processing of orders", "Release notes", "", "?", "Why?"],
)
def test_headings_that_name_something_are_none(heading: str) -> None:
    assert asked_by(heading) is None


@given(st.text(max_size=200))
def test_any_heading_is_a_short_question_or_none(heading: str) -> None:
    asked = asked_by(heading)
    assert asked is None or 3 <= len(asked.question.split()) <= 20


def test_each_verb_is_found_again_from_its_gerund() -> None:
    assert {verb for verb in IMPERATIVE if base_of(gerund(verb)) != verb} == set()
    assert [gerund(verb) for verb in ("set", "use", "tie", "see", "install")] == [
        "setting",
        "using",
        "tying",
        "seeing",
        "installing",
    ]


def test_titles_are_named_as_people_name_them() -> None:
    assert subject_of("ADR-011 - One tide provider per port") == "ADR-011"
    assert subject_of("Vendor Evaluation: TideCast") == "Vendor Evaluation"
    assert subject_of("Everything that anybody ever wanted to know") == ""


def test_names_keep_their_capitals() -> None:
    assert lowered("How Do I Install Docker With TLS", frozenset({"docker"})) == "how do I install Docker with TLS"


@given(QUESTIONS, st.integers())
def test_rewordings_are_other_questions_and_the_same_each_time(question: str, seed: int) -> None:
    first = list(rewordings(question, seed))
    assert first == list(rewordings(question, seed))
    texts = [question, *(text for _, text in first)]
    assert len(set(texts)) == len(texts)
    assert all(text.strip() for text in texts[1:])


@given(WORDS, st.integers())
def test_a_typo_is_one_error_behind_the_first_letter(word: str, seed: int) -> None:
    wrong = typo(word, random.Random(seed))
    assert wrong[0] == word[0]
    assert DamerauLevenshtein.distance(word, wrong) <= 1


@given(QUESTIONS, st.integers())
def test_errors_never_touch_names_with_digits_or_signs(question: str, seed: int) -> None:
    wrong = misspelt(question, random.Random(seed))
    names = [word for word in question.split(" ") if not (word.isalpha() and word.islower())]
    assert not wrong or [word for word in wrong.split(" ") if not (word.isalpha() and word.islower())] == names


@given(QUESTIONS)
def test_keywords_are_words_of_the_question_that_carry_a_topic(question: str) -> None:
    found = keywords(question).split()
    assert not set(found) & STOP_WORDS
    assert all(word in question.lower() for word in found)


def test_synonyms_replace_what_is_done_and_never_a_part_of_a_name() -> None:
    chance = random.Random(0)
    assert in_synonyms("how do I install the reader", chance) == "how do I set up the reader"
    assert in_synonyms("what does --delete do", chance) == ""
    assert in_synonyms("subscription change", chance) == ""


@pytest.mark.parametrize(
    ("said", "purpose"),
    [
        ("To list the consumer groups, run the following command:", "list the consumer groups"),
        ("You can start a planner with the following command:", "start a planner"),
        ("Reload the letters of one service", "reload the letters of one service"),
        ("It returns an error because of this:", ""),
        ("To do so:", ""),
        ("Filename: src/main.rs", ""),
    ],
)
def test_sentences_above_code_say_what_it_does(said: str, purpose: str) -> None:
    assert purpose_of(said) == purpose
