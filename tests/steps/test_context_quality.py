"""The score of a context against values worked out by hand: 0.2 length + 0.4 relevance + 0.2 coherence + 0.2 rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.contexts.prompt import QualityScore, inventions, missing_terms, score_contexts

CHUNK = "broker leader replica follower"  # four key terms
FILL = "and the "  # stop words only


def context(words: int, terms: str = "broker leader replica follower", start: str = "The", end: str = ".") -> str:
    """A context of so many words that holds these terms of CHUNK."""
    have = [start, *terms.split()]
    filler = (FILL * words).split()[: words - len(have)]
    return " ".join([*have, *filler]) + end


# context, (overall, length, relevance, coherence, specificity), by hand; what is found fault with
CASES = [
    (context(50), (1.0, 1.0, 1.0, 1.0, 1.0), []),
    (context(75), (1.0, 1.0, 1.0, 1.0, 1.0), []),
    (context(100), (1.0, 1.0, 1.0, 1.0, 1.0), []),
    (context(49), (0.94, 0.7, 1.0, 1.0, 1.0), ["too short: 49 words"]),
    (context(40), (0.94, 0.7, 1.0, 1.0, 1.0), ["too short: 40 words"]),
    (context(39), (0.86, 0.3, 1.0, 1.0, 1.0), ["too short: 39 words"]),
    (context(101), (0.94, 0.7, 1.0, 1.0, 1.0), ["too long: 101 words"]),
    (context(120), (0.94, 0.7, 1.0, 1.0, 1.0), ["too long: 120 words"]),
    (context(121), (0.86, 0.3, 1.0, 1.0, 1.0), ["too long: 121 words"]),
    (context(60, "broker leader replica"), (0.9, 1.0, 0.75, 1.0, 1.0), []),
    (context(60, "broker leader"), (0.8, 1.0, 0.5, 1.0, 1.0), []),
    (context(60, "broker"), (0.7, 1.0, 0.25, 1.0, 1.0), ["names few of the chunk's key terms"]),
    (context(60, ""), (0.6, 1.0, 0.0, 1.0, 1.0), ["names few of the chunk's key terms"]),
    (context(60, end=""), (0.9, 1.0, 1.0, 0.5, 1.0), ["does not end with a full stop"]),
    (context(60, start="the"), (0.9, 1.0, 1.0, 0.5, 1.0), ["no sentence begins with a capital"]),
    (
        context(60, start="the", end=""),
        (0.9, 1.0, 1.0, 0.5, 1.0),
        ["no sentence begins with a capital", "does not end with a full stop"],
    ),
    (context(60, start="This section"), (0.96, 1.0, 1.0, 1.0, 0.8), ["generic phrase 'this section'"]),
    (
        context(60, start="This describes, this explains"),
        (0.92, 1.0, 1.0, 1.0, 0.6),
        ["generic phrase 'this describes'", "generic phrase 'this explains'"],
    ),
    (
        "This section this describes this explains this is about",
        (0.2 * 0.3 + 0.2 * 0.5 + 0.2 * 0.2, 0.3, 0.0, 0.5, 0.2),
        [
            "too short: 9 words",
            "names few of the chunk's key terms",
            "does not end with a full stop",
            "generic phrase 'this section'",
            "generic phrase 'this describes'",
            "generic phrase 'this explains'",
            "generic phrase 'this is about'",
        ],
    ),
    (
        "",
        (0.36, 0.3, 0.0, 0.5, 1.0),
        [
            "too short: 0 words",
            "names few of the chunk's key terms",
            "no sentence begins with a capital",
            "does not end with a full stop",
        ],
    ),
    (context(60, "broker leader replica follower 4711"), (1.0, 1.0, 1.0, 1.0, 1.0), ["'4711' is not in the document"]),
]


@pytest.mark.parametrize(("text", "expected", "issues"), CASES)
def test_a_context_scores_as_worked_out_by_hand(
    text: str, expected: tuple[float, float, float, float, float], issues: list[str]
) -> None:
    (score,) = score_contexts([text], [CHUNK], ["The document this explains."])
    found = (score.overall, score.length, score.relevance, score.coherence, score.specificity)
    assert found == pytest.approx(expected)
    assert list(score.issues) == issues
    assert bool(score.recommendations) == bool(issues)


def test_many_contexts_score_as_each_alone() -> None:
    texts = [text for text, _, _ in CASES]
    together = score_contexts(texts, [CHUNK] * len(texts), [""] * len(texts))
    assert together == [score_contexts([text], [CHUNK], [""])[0] for text in texts]


def test_the_bound_of_acceptance_is_part_of_it() -> None:
    assert QualityScore(0.7, 1, 0.25, 1, 1).accepted
    assert not QualityScore(0.69, 1, 0.2, 1, 1).accepted


def test_who_invents_is_not_accepted_however_well_it_is_written() -> None:
    (score,) = score_contexts([context(60) + " Version 3.9."], [CHUNK], ["Version 3.8 of the broker"])
    assert score.overall == pytest.approx(1.0)
    assert score.invented == ("3.9",)
    assert not score.accepted


def test_numbers_and_names_of_the_document_are_no_invention() -> None:
    document = "Kafka 3.8: KafkaConsumer reads max.poll.records=500 from ZooKeeper."
    assert inventions("The KafkaConsumer of Kafka 3.8 reads 500 records.", document) == ()
    assert inventions("The RabbitMQ client of Kafka 3.8 reads 501 records.", document) == ("501", "RabbitMQ")


def test_key_terms_are_the_most_frequent_ones() -> None:
    chunk = "lag lag lag " + " ".join(f"{letter}word" for letter in "abcdefghijklm")
    missing, count = missing_terms("The lag.", chunk)
    assert count == 10
    assert "lag" not in missing
    assert len(missing) == 9


def test_a_chunk_without_words_asks_for_no_terms() -> None:
    (score,) = score_contexts([context(60)], ["{ } ;"], [CHUNK])
    assert score.relevance == 1.0


@given(st.text(), st.text(), st.text())
def test_any_text_has_a_score_between_0_and_1(text: str, chunk: str, document: str) -> None:
    (score,) = score_contexts([text], [chunk], [document])
    for value in (score.overall, score.length, score.relevance, score.coherence, score.specificity):
        assert 0 <= value <= 1


@pytest.mark.parametrize(
    ("context", "is_turned"),
    [
        ("The passage says that brokers must not be restarted during an election.", False),
        ("Brokers must be restarted during an election.", True),
        ("Backups are not kept for long.", True),
        ("Backups are never encrypted.", True),
        ("It is part of the guide on brokers and backups.", False),
    ],
)
def test_a_context_that_negates_otherwise_than_the_document_invents(context: str, is_turned: bool) -> None:
    document = "Brokers must not be restarted during an election.\nBackups are encrypted and kept for long."
    assert bool(inventions(context, document)) is is_turned
