"""The selection: which units answer, in which order, with how much confidence, and what is quoted of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from support.passages import candidate_of, lock_of

from rag_serving.answering.quotes import best_window
from rag_serving.answering.selection.selector import FAR_AHEAD, Selecting, best_of_passages, evidence_of, rank, select
from rag_serving.answering.selection.signs import AGAINST, OF_CONFIDENCE, OF_VECTORS, QuestionFeatures, learnt
from rag_serving.answering.selection.statements import named
from rag_serving.answering.verification import verify
from rag_serving.records.claims import Draft
from rag_serving.records.passages import Candidate, Lock
from rag_serving.text.analyzer import analyze
from rag_serving.text.units import words

TEXT = (
    "The broker writes logs. Logs are kept for 168 hours unless retention is changed. "
    "How long are logs kept? Set log.retention.hours to keep logs longer."
)


def write(question: str, lock: Lock, **options: object) -> Draft:
    weights = dict.fromkeys(analyze(question), 1.0)
    return select(question, lock, weights, analyze, Selecting(**options))  # type: ignore[arg-type]


def asked_of(question: str) -> QuestionFeatures:
    return QuestionFeatures.of(question, dict.fromkeys(analyze(question), 1.0), analyze)


def order(question: str, passages: list[Candidate]) -> list[int]:
    """The places of the passages, the one that answers best first."""
    lock = Lock(tuple(passages))
    ranked = best_of_passages(rank(asked_of(question), lock, analyze, None, learnt().words_alone))
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)
    return [each.statement.index for each in ranked]


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
    assert confidence(question, TEXT, 0.7) > 1.5 * confidence(question, TEXT, -0.3)


def test_a_turned_answer_to_yes_or_no_is_an_answer() -> None:
    text = "A cancelled call cannot be reopened."
    assert confidence("Can a cancelled call be reopened?", text) >= confidence("What cancelled call is reopened?", text)


@pytest.mark.parametrize("with_vectors", [True, False])
def test_signs_count_only_in_their_own_direction(with_vectors: bool) -> None:
    table = learnt().of(with_vectors)
    for name, weight in (*table.order.items(), *table.confidence.items()):
        assert weight <= 0 if name in AGAINST else weight >= 0, name


def test_every_sign_is_weighed() -> None:
    with_vectors, words_alone = learnt().with_vectors, learnt().words_alone
    assert with_vectors.order.keys() - words_alone.order.keys() == {*OF_VECTORS}
    for table in (with_vectors, words_alone):
        assert table.confidence.keys() - table.order.keys() == {"score", *OF_CONFIDENCE}


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
    start, end = best_window(sentence, asked_of("delete offsets topic"), analyze, 12)
    assert len(words(sentence[start:end])) == 12
    assert "must not delete the offsets topic" in sentence[start:end]


@pytest.mark.parametrize(
    ("question", "sentence", "answer"),
    [
        (
            "What is the limit for meals on business trips?",
            "The limits are for meals on business trips, in euros and for each day of them, and are at most 82 euros.",
            None,
        ),
        (
            "How much may meals on business trips cost?",
            "The limits are for meals on business trips, in euros and for each day of them, and are at most 82 euros.",
            "82",
        ),
        (
            "When is the boiler of the main hall serviced?",
            "The boiler of the main hall, as well as the two smaller ones in the sheds, is always serviced in October.",
            "October",
        ),
    ],
)
def test_what_is_quoted_has_what_is_asked_for(question: str, sentence: str, answer: str | None) -> None:
    start, end = best_window(sentence, asked_of(question), analyze, 12)
    assert len(words(sentence[start:end])) <= 12
    assert answer is None or answer in sentence[start:end]


def test_a_quote_parts_no_figure_from_its_sign() -> None:
    text = "An invoice is due 21 days after the vessel has left; a late payment costs 1.5 % for each month begun."
    draft = write("When is an invoice due?", lock_of([text]), quote_max_words=11)
    assert [verdict.outcome for verdict in verify(draft, lock_of([text]))] == ["exact"]


def test_headings_speak_for_a_sentence() -> None:
    lock = Lock(
        (
            candidate_of("Run apt with the install flag.", "1:1:0", heading_path=("Zookeeper", "Debian")),
            candidate_of("Run pacman with the install flag.", "2:1:0", heading_path=("Kafka", "Arch Linux")),
        )
    )
    assert write("install kafka on arch linux", lock).claims[0].text == "Run pacman with the install flag."


# Which passage answers


def test_the_passage_that_defines_a_thing_comes_before_those_that_only_name_it() -> None:
    defining = "A quay is a wall of stone at which ships are moored, loaded and unloaded by the cranes of the port."
    naming = "In winter no ship comes to the quay, and the quay is mended by divers who come from another port then."
    passages = [candidate_of(naming, "1:1:3"), candidate_of(defining, "2:1:3")]
    assert order("What is a quay?", passages) == [2, 1]
    assert order("What is a quay?", passages[::-1]) == [1, 2]


def test_the_passage_below_the_heading_that_is_asked_comes_first() -> None:
    text = "It is paid on the last Friday of the month, together with what was spent on the way to the port."
    other = candidate_of(text, "1:1:3", heading_path=("Staff", "Meals at the port"))
    headed = candidate_of(text, "2:1:3", heading_path=("Staff", "Travel allowance"))
    assert order("When is the travel allowance paid?", [other, headed]) == [2, 1]


def test_of_equal_passages_the_one_that_retrieval_scored_higher_comes_first() -> None:
    text = "The night crane parks at quay four when the wind is strong and the pilot has gone home for the day."
    passages = [candidate_of(text, "1:1:3", score=1.4), candidate_of(text, "2:1:3", score=0.2)]
    assert order("Where does the night crane park?", passages) == [1, 2]


def test_another_page_that_says_the_same_costs_no_confidence_and_one_that_says_something_else_does() -> None:
    question, said = "Where does the night crane park?", "The night crane parks at quay four in strong wind."
    other = "The night crane does not park where the day crane parks."
    evidence = {}
    for name, texts in {"alone": [said], "same": [said, said], "other": [said, other]}.items():
        lock = Lock(tuple(candidate_of(text, f"{page}:1:0") for page, text in enumerate(texts)))
        best = best_of_passages(rank(asked_of(question), lock, analyze, None, learnt().words_alone))
        evidence[name] = evidence_of(lock, best)
    assert evidence["alone"]["ahead"] == evidence["same"]["ahead"] == FAR_AHEAD
    assert evidence["other"]["ahead"] < FAR_AHEAD


def test_what_is_shown_first_is_of_the_first_passage_and_the_next_ones_come_beside_it() -> None:
    texts = [
        "Ships are moored at the long quay by two men, who also look after the ropes and the bollards there.",
        "The night crane parks at quay four when the wind is strong and the pilot has gone home for the day.",
        "A crane at the quay is greased each Monday, before the ships come in and the men begin their work.",
    ]
    passages = [candidate_of(text, f"{page}:1:3") for page, text in enumerate(texts, start=1)]
    question = "Where does the night crane park at the quay?"
    first, *others = order(question, passages)
    draft = write(question, Lock(tuple(passages)))
    assert draft.claims[0].index == first == 2
    shown = [claim.index for claim in (*draft.claims, *draft.further)]
    assert shown == [first, *others][: len(shown)]  # those that are far behind the first are not worth showing


def test_further_passages_are_shown_shorter_than_the_first() -> None:
    long = " ".join(f"Reason {n} is given with a few more words that say little." for n in range(12))
    first, second = f"Brokers keep logs for 168 hours. {long}", f"Brokers keep logs on disks. {long}"
    draft = write("how long do brokers keep logs", lock_of([first, second]))
    assert draft.further
    assert len(draft.claims[0].text.split()) > 60
    assert all(5 < len(claim.text.split()) <= 60 for claim in draft.further)
    assert all(claim.quote in claim.text for claim in draft.further)
