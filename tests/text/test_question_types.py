"""Kinds of questions, and signs of an answer of that kind."""

from __future__ import annotations

import pytest

from rag_serving.text.question_types import Kind, asked_words, holds, kind_of, names_of, parts_of, topic_of


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who signs a release?", "person"),
        ("When are there no releases?", "time"),
        ("In what year was the port founded?", "time"),
        ("How many pins can a port set?", "quantity"),
        ("how long is a token valid", "quantity"),
        ("Where is the envelope?", "place"),
        ("Why do we not use etcd?", "reason"),
        ("How do I roll back a release?", "steps"),
        ("Which command restarts a broker?", "command"),
        ("Can I reopen a cancelled call?", "yes_no"),
        ("What does gate.no_show_limit mean?", "thing"),
        ("Cancelled calls are kept for ten years.", "statement"),
        ("night stacking hours", "statement"),
    ],
)
def test_a_question_tells_what_kind_of_answer_it_asks_for(question: str, kind: Kind) -> None:
    assert kind_of(question) == kind


@pytest.mark.parametrize(
    ("kind", "question", "yes", "no"),
    [
        ("quantity", "How many cranes?", "It has 12 cranes.", "It has cranes."),
        ("quantity", "How many of the 12 cranes?", "Seven of the 12 cranes.", "The 12 cranes."),
        ("time", "When is it tested?", "It is tested on Monday.", "It is tested by hand."),
        ("time", "When is it opened?", "It is opened 6 hours ahead.", "It was open for about six hours."),
        ("time", "When is it opened?", "It was open for 19 hours in 2024.", "Opening it takes two days."),
        ("person", "Who holds a token?", "It is held by Ann.", "It is held."),
        ("person", "Who holds a token?", "It is held by the release manager.", "It is a token."),
        ("reason", "Why is it slow?", "It is slow because the pool is full.", "It is slow."),
        ("place", "Where is Ann?", "Ann works in Bergen.", "Ann works."),
    ],
)
def test_a_sentence_holds_an_answer_beside_the_words_asked(kind: Kind, question: str, yes: str, no: str) -> None:
    asked = asked_words(question)
    assert holds(kind, yes, asked)
    assert not holds(kind, no, asked)


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Who looks at dead letters, and how long are they kept?",
            ["Who looks at dead letters", "how long are they kept?"],
        ),
        ("What is a quay? How long is it?", ["What is a quay", "How long is it?"]),
        ("Where do I park or can I park at all?", ["Where do I park", "can I park at all?"]),
        ("Where is the crane, what does it lift?", ["Where is the crane", "what does it lift?"]),
        ("Which ships load and unload at night?", []),
        ("What is the difference between a quay and a pier?", []),
        ("Kafka? What is it?", []),
        ("What is a quay? ", []),
        ("and?", []),
        ("", []),
    ],
)
def test_a_question_that_asks_two_things_has_parts(question: str, parts: list[str]) -> None:
    assert parts_of(question) == parts


def test_names_are_capitalized_words_behind_the_first() -> None:
    assert names_of("Who moved Ann to Port Skalvik?") == ["Ann", "Port", "Skalvik"]


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("How many pins can a port set?", "pins can a port set?"),
        ("What percentage of the salary is paid?", "the salary is paid?"),
        ("Who holds a token?", "Who holds a token?"),
        ("how many days of leave do we get", "days of leave"),
        ("wat is a tide window", "is a tide window"),
        ("are there any rules about when people may park", "people may park"),
        ("can you tell me about parking?", "parking?"),
        ("does anybody know the gate code", "the gate code"),
        ("What did Newcomen add to Wat's engine", "What did Newcomen add to Wat's engine"),
        ("Which rule of the port is there?", "Which rule of the port is there?"),
    ],
)
def test_words_of_the_form_are_not_of_the_topic(question: str, topic: str) -> None:
    assert topic_of(question).strip() == topic
