"""Two wordings have one signature only where nothing that can change the answer differs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.caching.answers import LONGEST, digest_of, signature_of

ONE = [
    ("How do I reset my password?", "Hi! Could you please tell me how to reset our password"),
    ("How do I reset the password?", "What is the process for resetting the password?"),
    ("What is the notice period?", "can you tell me what the notice period is"),
    ("What is the notice period?", "I'd like to know what the notice period is, please"),
    ("what's the capital of France", "What is France's capital?"),
    ("In staging, how long do tokens live?", "How long do tokens live in staging?"),
    ("Why is the build slow?", "why is the build slow??"),
    ("What is the maximum size?", "what is the MAX size"),
    ("When do tokens expire?", "When does a token expire"),
    ("Tell me about Kafka 2.8", "What is Kafka 2.8?"),
    ("Is 1,000 the limit?", "is 1000 the limit"),
    ("can't I restart it?", "cannot I restart it"),
    ("Who’s on call?", "Who is on call?"),
    ("Where is the office located?", "where is the office"),
    ("How long are logs kept?", "For how long are logs kept?"),
    ("How long are logs kept?", "How long are the logs kept for?"),
    ("How many days are logs kept?", "For how many days are logs kept?"),
    ("Can I restart a broker?", "Is it possible to restart a broker?"),
    ("Can I restart a broker?", "would it be possible for us to restart a broker"),
    ("Can I restart a broker?", "Am I able to restart a broker?"),
    ("Can a guest open a page?", "Is it possible for a guest to open a page?"),
]
TWO = [
    ("What is new in 2.8?", "What is new in 3.8?"),
    ("How long is a 5 day trip?", "How long is a 5 week trip?"),
    ("Is -5 degrees allowed?", "Is 5 degrees allowed?"),
    ("Is the limit < 5?", "Is the limit > 5?"),
    ("What does $5 buy?", "What does €5 buy?"),
    ("Who leads billing?", "Who leads payments?"),
    ("Who leads Billing?", "Who leads Payments?"),
    ("who runs IT", "who runs it"),
    ("Who can polish it?", "Who can Polish it?"),
    ("Wann kommen Sie?", "Wann kommen sie?"),
    ("How do I use Teams?", "How do I use teams?"),
    ("Where do US staff park?", "Where do us staff park?"),
    ("How do I enable TLS?", "How do I disable TLS?"),
    ("Is a VPN required?", "Is a VPN not required?"),
    ("Can I restart a broker?", "Can't I restart a broker?"),
    ("Which hosts are supported?", "Which hosts are unsupported?"),
    ("Who is the manager?", "Who was the manager?"),
    ("What does Ann do?", "What is Ann?"),
    ("Who wrote it?", "When was it written?"),
    ("Does Kafka replace ZooKeeper?", "Does ZooKeeper replace Kafka?"),
    ("How do I migrate from A to B?", "How do I migrate from B to A?"),
    ("Are letters from Bob kept?", "Are letters to Bob kept?"),
    ("What happens before a release?", "What happens after a release?"),
    ("How many days of leave do I get?", "How much leave do I get?"),
    ("How can I leave?", "Can I leave?"),
    ("For how much does it sell?", "How much does it sell?"),
    ("Is it possible to restart a broker?", "Is it not possible to restart a broker?"),
    ("Is it possible to restart a broker?", "Is it possible to stop a broker?"),
    ("Is it possible for a guest to open a page?", "Is it possible for a member to open a page?"),
    ("For how long are logs kept?", "Since when are logs kept?"),
    ("Is it possible to restart a broker?", "How do I restart a broker?"),
    ("What tokens expire?", "What tokens expired?"),
    ("Who sells customs software?", "Who sells custom software?"),
    ("What is C++?", "What is C#?"),
    ("What is .NET?", "What is net?"),
    ("How do I set max.poll.records?", "How do I set max.poll.interval?"),
    ("Where is the third office?", "Where is the second office?"),
    ("Is two enough?", "Is three enough?"),
    ("The log is kept for a week.", "The log is kept for a week?"),
    ("Wie lange gilt das Passwort?", "Wie lange gilt das Passwort nicht?"),
    ("谁负责发布", "谁不负责发布"),
]


@pytest.mark.parametrize(("first", "second"), ONE)
def test_wordings_of_one_question_are_one(first: str, second: str) -> None:
    assert signature_of(first) == signature_of(second) is not None


@pytest.mark.parametrize(("first", "second"), TWO)
def test_what_can_change_the_answer_keeps_two_questions_apart(first: str, second: str) -> None:
    assert signature_of(first) != signature_of(second)


@pytest.mark.parametrize(
    "text", ["", " ", "?", "…", "space:OPS restart", 'the "max poll" setting', "x" * (LONGEST + 1)]
)
def test_what_only_the_same_text_may_answer_has_no_signature(text: str) -> None:
    assert signature_of(text) is None


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80), st.integers(0, 10**6), st.integers(0, 10**6))
def test_two_numbers_are_never_one(text: str, one: int, other: int) -> None:
    first, second = (signature_of(f"{text} {number}") for number in (one, other))
    assert first is None or one == other or first != second


@given(st.text(max_size=500))
def test_any_text_is_read(text: str) -> None:
    signature = signature_of(text)
    assert signature is None or len(digest_of(signature)) == 32


@pytest.mark.parametrize(
    "piece", ["a", "please ", "so, ", "what is ", "the ", "of the ", "in ", "- ", "\N{SNOWMAN}", "is ", "'s "]
)
def test_no_text_takes_long(piece: str) -> None:
    began = time.perf_counter()
    signature_of((piece * LONGEST)[:LONGEST])
    signature_of(piece * 100_000)
    assert time.perf_counter() - began < 1
