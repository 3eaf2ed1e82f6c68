"""A yes or no that goes against the sentence it cites."""

from __future__ import annotations

import pytest
from support.passages import lock_of

from rag_serving.answering.verification.verifier import verify
from rag_serving.answering.verification.yes_no import polarity_fault
from rag_serving.records.claims import Claim, Draft

ROOT = "May I run the broker as root?"
KEPT = "Are logs kept on disk?"


@pytest.mark.parametrize(
    ("question", "sentence", "unit"),
    [
        (ROOT, "Yes.", "Never run a broker as root."),
        (ROOT, "Yes, that works [1].", "To run the broker as root is forbidden, says the team."),
        (KEPT, "No.", "All logs are kept on disk for 168 hours."),
        ("Darf der Broker als Root laufen?", "Ja.", "Der Broker darf nicht als Root laufen."),
    ],
)
def test_an_answer_that_goes_against_its_passage_is_seen(question: str, sentence: str, unit: str) -> None:
    assert polarity_fault(question, sentence, unit)


@pytest.mark.parametrize(
    ("question", "sentence", "unit"),
    [
        (ROOT, "No.", "Never run a broker as root."),
        (ROOT, "Yes.", "You may run the broker as root."),
        (ROOT, "Yes.", "Never run a broker as root unless it is a test."),
        ("Should I never run the broker as root?", "Yes.", "Never run a broker as root."),
        ("Is it forbidden to run the broker as root?", "Yes.", "Never run a broker as root."),
        (KEPT, "Yes.", "Logs are kept on disk for 168 hours, not forever."),
        (KEPT, "No, they are not kept there.", "Logs are kept on disk."),
        (KEPT, "No, in the cloud.", "Logs go to the cloud."),
        ("How long are logs kept?", "No idea.", "Logs are kept for 168 hours."),
        (KEPT, "Not on tape.", "Logs are kept on disk."),
        ("", "Yes.", "Never run a broker as root."),
        (KEPT, "Yes.", ""),
    ],
)
def test_what_is_not_plain_is_left_alone(question: str, sentence: str, unit: str) -> None:
    assert polarity_fault(question, sentence, unit) is None


def test_each_claim_tells_what_its_sentence_is_worth() -> None:
    lock = lock_of(["Never run a broker as root. Logs are kept on disk for 168 hours."])
    claims = (
        Claim("Never run a broker as root.", 1, "run a broker as root"),
        Claim("Do not run the broker as root.", 1, "Never run a broker as root"),
        Claim("Yes, never run a broker as root.", 1, "Never run a broker as root"),
        Claim("Logs are kept for 186 hours.", 1, "Logs are kept on disk"),
        Claim("Logs are kept.", 1, "words that stand nowhere in it"),
    )
    verdicts = [verify(Draft((claim,), "test"), lock, question=ROOT)[0] for claim in claims]
    assert [verdict.support for verdict in verdicts] == ["carried", "quoted", "quoted", "quoted", "unchecked"]
    assert [verdict.outcome == "dropped" for verdict in verdicts] == [False] * 4 + [True]


def test_a_yes_or_no_that_the_passage_does_not_say_is_not_shown() -> None:
    lock = lock_of(["Logs are kept on disk for 168 hours. A broker never runs as root."])
    claim = Claim("Yes, logs are kept on disk for 168 hours.", 1, "Logs are kept on disk")
    asked = {"Are logs kept on disk for 168 hours?": "Yes, logs", "May I run a broker as root?": "Logs"}
    for question, beginning in asked.items():
        (verdict,) = verify(Draft((claim,), "test"), lock, question=question)
        assert verdict.support == "carried"
        assert verdict.told.startswith(beginning)
