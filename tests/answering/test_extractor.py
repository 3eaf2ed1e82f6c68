"""The extractive generator: whole verbatim sentences that answer, with how confident it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from support.passages import candidate_of, lock_of

from rag_serving.answering.extraction.extractor import Extraction, extract, named
from rag_serving.answering.extraction.features import FOR, RANK_ONLY, QuestionFeatures
from rag_serving.answering.extraction.ranker import learnt
from rag_serving.answering.quote_window import best_window
from rag_serving.answering.verification.verifier import verify
from rag_serving.records.claims import Draft
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import analyze
from rag_serving.text.units import words

TEXT = (
    "The broker writes logs. Logs are kept for 168 hours unless retention is changed. "
    "How long are logs kept? Set log.retention.hours to keep logs longer."
)


def write(question: str, lock: Lock, **options: object) -> Draft:
    weights = dict.fromkeys(analyze(question), 1.0)
    return extract(question, lock, weights, analyze, Extraction(**options))  # type: ignore[arg-type]


def confidence(question: str, text: str, similarity: float | None = None) -> float:
    """How confident an answer from this text alone is."""
    near: Callable[[Sequence[str]], list[float]] | None = None
    if similarity is not None:
        value = similarity

        def near(texts: Sequence[str]) -> list[float]:
            return [value] * len(texts)

    found = write(question, lock_of([text]), similarity=near).confidence
    assert found is not None
    return found


def test_the_best_sentence_is_quoted_whole_and_shown_with_its_passage() -> None:
    draft = write("how many hours are logs kept", lock_of(["Nothing of the kind stands here.", TEXT]))
    assert draft.claims[0].quote == "Logs are kept for 168 hours unless retention is changed."
    assert (draft.claims[0].text, draft.claims[0].index) == (TEXT, 2)
    assert all(verdict.outcome == "exact" for verdict in verify(draft, lock_of(["", TEXT])))


def test_questions_and_headings_are_no_answers() -> None:
    draft = write("how long are logs kept", lock_of(["## How long are logs kept\n" + TEXT]))
    assert all(not claim.text.endswith("?") and "##" not in claim.text for claim in draft.claims)


def test_nothing_is_written_without_a_sentence() -> None:
    draft = write("how long are logs kept", Lock(()))
    assert (draft.claims, draft.confidence) == ((), None)


# Which sentence answers, not only which is most similar


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "When was the scheduler replaced?",
            "The scheduler was replaced by the team in Oslo. The scheduler was replaced in March 2024.",
            "The scheduler was replaced in March 2024.",
        ),
        (
            "How many berths does the scheduler plan?",
            "The scheduler plans the berths of a port. The scheduler plans up to 40 berths.",
            "The scheduler plans up to 40 berths.",
        ),
    ],
)
def test_a_sentence_with_an_answer_of_the_expected_kind_is_preferred(question: str, text: str, answer: str) -> None:
    assert write(question, lock_of([text])).claims[0].quote == answer


def test_a_command_is_asked_for_and_given() -> None:
    text = "A release is rolled back on the control host.\n\n```\nhbl release rollback --to previous\n```\n"
    draft = write("How do I roll back a release?", lock_of([text]))
    assert draft.claims[0].quote == "hbl release rollback --to previous"
    assert draft.claims[0].text == text.strip()


def test_a_question_gets_one_answer_two_where_another_is_nearly_as_good_and_a_claim_its_evidence() -> None:
    texts = [
        "Logs of the broker are kept for a week on every node.",
        "Backups of the broker logs are kept for one month.",
        "Old broker logs that are kept longer fill the disk.",
    ]
    assert [claim.text for claim in write("How long are broker logs kept?", lock_of(texts)).claims] == texts[:2]
    (only,) = write("How long are broker logs kept?", lock_of([texts[0], "Yard cranes are serviced in spring."])).claims
    assert only.text == texts[0]
    bearing = write("Old broker logs are kept.", lock_of(texts)).claims
    assert len(bearing) > 1
    assert {claim.text for claim in bearing} <= set(texts)


def test_no_more_claims_than_allowed_and_none_twice() -> None:
    lock = lock_of([TEXT, TEXT, "Logs are kept for 168 hours. Hours of logs are kept in the archive tier, too."])
    claims = write("hours logs are kept", lock, max_citations=2).claims
    assert 1 <= len(claims) <= 2
    assert len({claim.text for claim in claims}) == len(claims)


# How confident


@pytest.mark.parametrize(
    ("question", "supported", "unsupported"),
    [
        ("When are logs deleted?", "Logs are deleted on the first Monday.", "Logs are deleted by the cleaner."),
        ("How many logs are deleted?", "About 40 logs are deleted.", "Some old logs are deleted."),
        ("Who moved to Bergen?", "The desk moved to Bergen with Ann.", "The desk moved to Oslo with Ann."),
        ("What happened in 2019?", "In 2019 the port was closed.", "In 2012 the port was closed."),
    ],
)
@pytest.mark.parametrize("similarity", [None, 0.6])
def test_what_the_sentence_lacks_costs_confidence(
    question: str, supported: str, unsupported: str, similarity: float | None
) -> None:
    assert confidence(question, supported, similarity) > confidence(question, unsupported, similarity)


def test_a_sentence_far_from_the_question_in_meaning_is_not_trusted() -> None:
    question = "how many hours are logs kept"
    assert confidence(question, TEXT, 0.7) > 2 * confidence(question, TEXT, -0.3)


def test_a_turned_answer_to_yes_or_no_is_an_answer() -> None:
    text = "A cancelled call cannot be reopened."
    assert confidence("Can a cancelled call be reopened?", text) >= confidence("What cancelled call is reopened?", text)


@pytest.mark.parametrize("with_vectors", [True, False])
def test_evidence_counts_only_in_its_own_direction(with_vectors: bool) -> None:
    for name, weight in learnt().of(with_vectors).confidence.items():
        assert weight >= 0 if name in FOR else weight <= 0, name


def test_every_feature_is_weighed() -> None:
    assert learnt().with_vectors.rank.keys() - learnt().words_alone.rank.keys() == {"similarity", "passage_similarity"}
    assert learnt().with_vectors.confidence.keys() ^ learnt().with_vectors.rank.keys() == {"score", *RANK_ONLY}


def test_shares_are_of_the_weight_of_the_question() -> None:
    asked = QuestionFeatures.of("broker logs", {"broker": 1.0, "log": 3.0}, analyze)
    assert asked.share(frozenset({"log", "disk"})) == 0.75
    assert asked.rarest(frozenset({"broker"})) == pytest.approx(1 / 3)
    assert QuestionFeatures.of("broker logs", {}, analyze).share(frozenset({"log"})) == 0.0


# Identifiers


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("default of max.poll.records?", {"max.poll.records"}),
        ("what does HBL-4012 mean", {"hbl-4012"}),
        ("raise DB_POOL_SIZE, e.g. to 5.3.4 of a roll-back", {"db_pool_size"}),
    ],
)
def test_identifiers_of_a_question_are_names(question: str, names: set[str]) -> None:
    assert named(question, analyze) == names


def test_a_passage_about_another_identifier_answers_nothing() -> None:
    lock = lock_of(["The default of berth.scheduler.max_parallel is 6 threads."])
    assert write("default of berth.scheduler.max_parallel", lock).claims
    assert write("default of berth.scheduler.min_parallel", lock).claims == ()


def test_an_identifier_is_told_by_the_row_that_begins_with_it() -> None:
    prose = "Raising max.poll.records helps a consumer whose records are small."
    table = "| Setting | Default |\n|---|---|\n| max.poll.records | 500 |\n| min.poll.records | like max.poll.records |"
    draft = write("max.poll.records", lock_of([prose, table]))
    assert draft.claims[0].quote == "max.poll.records | 500"
    assert draft.claims[0].text == table


# What is quoted


def test_a_long_sentence_is_quoted_where_it_answers_and_with_its_negation() -> None:
    sentence = (
        "Although many people at several sites have asked for it again and again since the last release "
        "you must not delete the offsets topic of a running cluster by hand."
    )
    weights = dict.fromkeys(analyze("delete offsets topic"), 1.0)
    start, end = best_window(sentence, weights, analyze, 12)
    assert len(words(sentence[start:end])) == 12
    assert "must not delete the offsets topic" in sentence[start:end]


def test_headings_speak_for_a_sentence() -> None:
    lock = Lock(
        (
            candidate_of("Run apt with the install flag.", "1:1:0", heading_path=("Zookeeper", "Debian")),
            candidate_of("Run pacman with the install flag.", "2:1:0", heading_path=("Kafka", "Arch Linux")),
        )
    )
    assert write("install kafka on arch linux", lock).claims[0].text == "Run pacman with the install flag."
